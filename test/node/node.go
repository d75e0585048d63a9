package node

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options of nodes. The zero value serves most tests.
type Options struct {
	// APIServer are further arguments of the API server, such as '--v=2'.
	APIServer []string
	// Kubelet is more YAML for the KubeletConfiguration of every node.
	Kubelet string
	// Restart starts programs of the nodes that end again, so that tests may kill them. Otherwise the nodes end with them.
	Restart bool
}

// Node is a running node. The supervisor reports its fields.
type Node struct {
	Name string `json:"name"`
	// PID of process 1 of the node's namespaces, for nsenter.
	PID int `json:"pid"`
	// Admin is the path of the administrator's kubeconfig.
	Admin string `json:"kubeconfig"`
	// Address in the network of the nodes. Nodes and pods reach it.
	Address string `json:"address"`
	// Dir has the logs of its programs, NAME.log each, until the node ends.
	Dir string `json:"dir"`
	// Containerd is its socket, Ctr the client of the same version, and Store keeps images for later nodes.
	Containerd string `json:"containerd"`
	Ctr        string `json:"ctr"`
	Store      string `json:"store"`
	// Cgroup is the root of the cgroups of its pods, in each hierarchy.
	Cgroup string `json:"cgroup"`
	// Programs is the directory of kubectl and the other programs of Kubernetes.
	Programs string `json:"programs"`
	// Milliseconds from its start until a step was reached.
	Milliseconds map[string]int64 `json:"milliseconds"`

	supervisor *supervisor
}

// startTimeout bounds a start, which takes seconds, but ten minutes when the programs must be built.
const startTimeout = 20 * time.Minute

// Start runs a node for the length of a test. Call Require before. When the test fails, the ends of the node's logs become part of its output.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	n, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.Logs())
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// Run starts a node that a whole package shares. It runs until Close, or until this process ends.
func Run(ctx context.Context, o Options) (*Node, error) {
	s, err := startSupervisor(ctx, o)
	if err != nil {
		return nil, err
	}
	n, err := s.addNode(ctx, "node-1")
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return n, nil
}

// AddNode starts another node that joins the first one. It ends with the first.
func (n *Node) AddNode(t testing.TB, name string) *Node {
	t.Helper()
	added, err := n.Join(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// Join is AddNode outside of tests.
func (n *Node) Join(ctx context.Context, name string) (*Node, error) {
	return n.supervisor.addNode(ctx, name)
}

// Kill ends all processes of a node that joined at once, as a power failure does.
func (n *Node) Kill(ctx context.Context) error { return n.supervisor.sendLine(ctx, "kill "+n.Name) }

// Restart starts a node that was killed, with what it had written, and waits until it is ready.
func (n *Node) Restart(ctx context.Context) error {
	return n.supervisor.sendAndDecode(ctx, n.Name, n)
}

// Disconnect disconnects a node that joined from all others. Its processes go on.
func (n *Node) Disconnect(ctx context.Context) error {
	return n.supervisor.sendLine(ctx, "disconnect "+n.Name)
}

// Connect undoes Disconnect.
func (n *Node) Connect(ctx context.Context) error {
	return n.supervisor.sendLine(ctx, "connect "+n.Name)
}

// Kubeconfig returns the path of the administrator's kubeconfig. It leads to a port of 127.0.0.1, so that kubectl on this machine can use it.
func (n *Node) Kubeconfig() string { return n.Admin }

// Config returns the administrator's configuration, for clients in this process.
func (n *Node) Config() *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", n.Admin)
	if err != nil {
		panic(err) // the supervisor has written it a moment ago
	}
	return config
}

// Kubectl runs kubectl of the node's version as the administrator, and returns what it wrote to both outputs.
func (n *Node) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(n.Programs, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.Admin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Close ends the node with all that joined it, waits until they are gone, and removes what they left on the machine.
func (n *Node) Close() error { return n.supervisor.close() }

// Logs returns the ends of the logs of all nodes.
func (n *Node) Logs() string { return n.supervisor.logTails() }
