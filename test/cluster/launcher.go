package cluster

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
)

// Node is a launcher's part of a machine.
type Node struct {
	// Name that VMIs are claimed with, and that they select by label 'machine'.
	Name string
	// Socket of its libvirt daemon.
	Socket string
	// Volumes is the folder below which it serves files.
	Volumes string
	// Claims is the folder with descriptions of claims; empty for none.
	Claims string
	// Bridge is the bridge of network 'lan', if there is one.
	Bridge string
	// TPMStates is the folder in which its libvirt daemon keeps the states of TPMs.
	TPMStates string
	// State is its folder for logs, sockets and images; its path must be short, see Unix socket names.
	State string
	// Env is added to the launcher's environment.
	Env []string
}

// StartLauncher runs a launcher and returns how to end it. It emulates: that KVM is offered does not prove that guests run
// under it.
func (c *Cluster) StartLauncher(_ context.Context, n Node) (stop func() error, err error) {
	kubeconfig, err := c.access(launcherAccount)
	if err != nil {
		return nil, err
	}
	args := []string{"node", "--kubeconfig", kubeconfig, "--config", c.configFile(), "--node", n.Name, "--lease-namespace", c.Launchers, "--libvirt", n.Socket,
		"--volume-root", n.Volumes, "--state", n.State, "--tpm-states", n.TPMStates, "--kvm", "never", "--labels", "machine=" + n.Name}
	if n.Claims != "" {
		args = append(args, "--claims", n.Claims)
	}
	if n.Bridge != "" {
		args = append(args, "--bridge", "lan="+n.Bridge)
	}
	p, _, err := c.startIn(n.Env, cmp.Or(c.programOf("launcher"), "launcher"), args...)
	if err != nil {
		return nil, err
	}
	return p.stop, nil
}

// Catalog applies our own instancetypes and preferences.
func (c *Cluster) Catalog(ctx context.Context) error {
	_, stderr, err := c.Kubectl(ctx, "", "apply", "--server-side", "-k", filepath.Join(c.Root, "manifests/catalog"))
	return withOutput(err, stderr)
}

func withOutput(err error, output string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", err, output)
}
