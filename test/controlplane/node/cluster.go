package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/kilnvm/kiln/test/controlplane/authority"
)

// Options of a cluster of nodes.
type Options struct {
	// Dir takes a directory for each node, and the administrator's kubeconfig.
	Dir string
	// Stores is the directory of what containerd keeps between runs, one folder for each node that runs at a time.
	Stores string
	Tools  Tools
	// APIServer are further arguments of the API server.
	APIServer []string
	// Kubelet is more YAML for the configuration of every kubelet.
	Kubelet string
	// Restart says that programs of the nodes are started again after they have ended.
	Restart bool
}

// Cluster is nodes that reach each other, of which the first has the control plane. Use it from the main goroutine only: the parent
// death signal of a node is bound to the thread that starts it.
type Cluster struct {
	o        Options
	ca       *authority.Authority
	listener *net.TCPListener // of the machine's 127.0.0.1
	nodes    []*outside
	made     bool // Options.Dir was not there
	// Ended gets the name of a node whose process 1 has ended by itself.
	Ended chan string
}

// Ready describes a started node whose pods can run.
type Ready struct {
	Name string `json:"name"`
	// PID of process 1 of the node's namespaces, as the machine counts.
	PID int `json:"pid"`
	// Server is the API server's URL on this machine, and Kubeconfig the administrator's.
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	// Address is the node's own. Only nodes and pods reach it.
	Address string `json:"address"`
	// Dir has the logs, NAME.log each.
	Dir string `json:"dir"`
	// Containerd is its socket, Ctr the program that talks to it, Store what is kept.
	Containerd string `json:"containerd"`
	Ctr        string `json:"ctr"`
	Store      string `json:"store"`
	// Cgroup is the root of all cgroups of pods.
	Cgroup string `json:"cgroup"`
	// Programs is the directory of kubectl and the other programs of Kubernetes.
	Programs string `json:"programs"`
	// Milliseconds from the start of the node until a step was reached.
	Milliseconds map[string]int64 `json:"milliseconds"`
}

// most is more nodes than any test has.
const most = 100

// New prepares a cluster without nodes.
func New(o Options) (*Cluster, error) {
	for _, dir := range []string{o.Dir, o.Stores, o.Tools.Kubernetes, o.Tools.Containers} {
		if err := Hidden(dir); err != nil {
			return nil, err
		}
	}
	_, missing := os.Stat(o.Dir)
	if err := errors.Join(os.MkdirAll(o.Dir, 0o700), sweepCgroups()); err != nil {
		return nil, err
	}
	ca, err := authority.New()
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	c := &Cluster{o: o, ca: ca, listener: listener, Ended: make(chan string, most), made: os.IsNotExist(missing)}
	if _, err := ca.WriteKubeconfig(o.Dir, c.serverURL(), authority.Admin); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return c, nil
}

func (c *Cluster) serverURL() string { return "https://" + c.listener.Addr().String() }

// Add starts a node and returns when pods can run there, or the context has ended. The words call Init in a new process of this program. The second node
// and later ones join the first. A node that was killed starts again, with what it had written.
func (c *Cluster) Add(ctx context.Context, name string, words ...string) (Ready, error) {
	n, err := c.findNode(name)
	if n == nil {
		n, err = c.prepareNode(name)
	} else if n.cmd == nil {
		err = errors.New("it was prepared for another machine")
	} else if !n.killed.Load() {
		err = errors.New("it runs")
	} else {
		n.Again, n.ended = true, make(chan struct{})
		n.killed.Store(false)
	}
	var seen report
	if err == nil {
		seen, err = c.launchNode(ctx, n, words)
	}
	if err != nil {
		return Ready{}, fmt.Errorf("node '%s': %w", name, err)
	}
	ready := c.describe(n)
	ready.PID, ready.Milliseconds = n.cmd.Process.Pid, seen.Milliseconds
	return ready, nil
}

// describe returns what is known of a node before it starts.
func (c *Cluster) describe(n *outside) Ready {
	return Ready{Name: n.Name, Server: c.serverURL(), Kubeconfig: filepath.Join(c.o.Dir, authority.FileName(authority.Admin)),
		Address: n.Address(), Dir: n.Dir, Containerd: n.CRI(), Ctr: filepath.Join(n.Tools.Containers, "ctr"), Store: n.Store, Cgroup: n.Cgroup,
		Programs: n.Tools.Kubernetes}
}

// prepareNode makes what a new node has outside of its namespaces.
func (c *Cluster) prepareNode(name string) (*outside, error) {
	n := &outside{ended: make(chan struct{}), hears: c.Ended}
	number := len(c.nodes) + 1
	n.Spec = Spec{Name: name, Number: number, Dir: filepath.Join(c.o.Dir, name), Tools: c.o.Tools, Cgroup: cgroupName(number),
		APIServer: c.o.APIServer, Kubelet: c.o.Kubelet, Restart: c.o.Restart}
	c.nodes = append(c.nodes, n)
	var err error
	if n.store, err = lockStore(c.o.Stores); err != nil {
		return nil, err
	}
	n.Store = n.store.Name()
	return n, errors.Join(os.Mkdir(n.Dir, 0o755), n.writeCertificates(c.ca), n.writeConfiguration())
}

// findNode returns a node that was added.
func (c *Cluster) findNode(name string) (*outside, error) {
	for _, n := range c.nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("there is no node '%s'", name)
}

// launchNode makes the namespaces, connects them, and waits for the report of Inside.
func (c *Cluster) launchNode(ctx context.Context, n *outside, words []string) (seen report, err error) {
	if err := makeCgroup(n.Cgroup); err != nil {
		return seen, err
	}
	listener, err := c.listener.File()
	if err != nil {
		return seen, err
	}
	defer listener.Close()
	n.cmd = hiddenCommand(apart, words...)
	n.cmd.ExtraFiles = []*os.File{listener}
	in, err := n.cmd.StdinPipe()
	if err != nil {
		return seen, err
	}
	n.stdin = in
	defer context.AfterFunc(ctx, func() { _ = in.Close() })() // which stops Inside
	out, err := n.startInit()
	if err != nil {
		return seen, err
	}
	defer out.Close()
	first := 0
	if !n.isFirst() {
		first = c.nodes[0].cmd.Process.Pid
	}
	// Inside waits for its Spec, so that it finds the interfaces.
	if err := connectNode(n.Number, n.cmd.Process.Pid, first); err != nil {
		return seen, err
	}
	if err := json.NewEncoder(in).Encode(n.Spec); err != nil {
		return seen, err
	}
	err = json.NewDecoder(out).Decode(&seen)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if errors.Is(err, io.EOF) {
		err = errors.New("it has ended, as it says above")
	}
	return seen, err
}

// Close ends the nodes and removes what they leave: the last that joined first.
func (c *Cluster) Close() error {
	errs := []error{c.listener.Close()}
	for i := len(c.nodes) - 1; i >= 0; i-- {
		errs = append(errs, c.nodes[i].close())
	}
	errs = append(errs, os.Remove(filepath.Join(c.o.Dir, authority.FileName(authority.Admin))))
	if c.made {
		errs = append(errs, os.Remove(c.o.Dir))
	}
	return errors.Join(errs...)
}
