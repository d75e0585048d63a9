package node

import (
	"context"
	"encoding/json"
	"path/filepath"
)

// Prepared is a node that another machine runs, and that joins the first node by a port of the bridge 'lan' in the first node's network. The other machine runs
// Supervisor with the arguments 'node machine' and Spec as its input. It has the files at Dir and the programs at Folders, at the same paths, and containerd's
// folder at Store, with the image of Sandbox in it.
type Prepared struct {
	Node
	// Spec is what the supervisor reads on the other machine, one line.
	Spec json.RawMessage `json:"spec"`
	// Supervisor is the program that runs the node on the other machine.
	Supervisor string `json:"-"`
	// Folders are the folders of the programs.
	Folders []string `json:"-"`
	// Sandbox is the archive of the image that keeps the namespaces of pods.
	Sandbox string `json:"-"`
}

// Prepare writes the files of a node that another machine runs. They are removed when the first node ends.
func (n *Node) Prepare(ctx context.Context, name string) (*Prepared, error) {
	p := &Prepared{Node: Node{supervisor: n.supervisor}, Supervisor: n.supervisor.cmd.Path}
	if err := n.supervisor.sendAndDecode(ctx, "prepare "+name, p); err != nil {
		return nil, err
	}
	var spec struct{ Tools struct{ Runc, CNI string } }
	if err := json.Unmarshal(p.Spec, &spec); err != nil {
		return nil, err
	}
	p.Folders = []string{p.Programs, filepath.Dir(p.Ctr)}
	for _, path := range []string{spec.Tools.Runc, spec.Tools.CNI} {
		if within, failed := filepath.Rel(filepath.Dir(p.Ctr), path); failed != nil || !filepath.IsLocal(within) {
			p.Folders = append(p.Folders, filepath.Dir(path)) // the machine's own, see debian.go of test/controlplane
		}
	}
	var err error
	p.Sandbox, err = n.sandboxArchive(ctx)
	return p, err
}
