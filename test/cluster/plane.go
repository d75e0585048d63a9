package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// which says where the API server is.
func (c *Cluster) which() string {
	if c.own {
		return "starting etcd, kube-apiserver and kube-controller-manager"
	}
	return fmt.Sprintf("using the cluster of KUBECONFIG '%s'", c.Kubeconfig)
}

// controlPlane starts the supervisor, which ends with our end of its standard input.
// It fails with the end of the supervisor's log if that ends before it announces a kubeconfig.
func (c *Cluster) controlPlane(ctx context.Context) error {
	if !c.own {
		return c.given()
	}
	args := append([]string{"run", "--dir", filepath.Join(c.Dir, "controlplane"), "--audit-group", "system:serviceaccounts:" + c.Namespace}, c.Plane...)
	p, out, err := c.startIn(append(slices.Clone(c.Env), "GOGC="+os.Getenv("GOGC")), "controlplane", args...)
	if err != nil {
		return err
	}
	ready, plane := make(chan error, 1), Plane{}
	go func() { ready <- plane.announced(out) }()
	select {
	case err := <-ready:
		if err != nil {
			return fmt.Errorf("the control plane has ended:\n%s", p.tail())
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	c.plane = &plane
	c.Kubeconfig, c.audit = plane.Kubeconfig, filepath.Join(plane.Logs, "audit.log")
	return os.Symlink(plane.Kubectl(), filepath.Join(c.bin, "kubectl"))
}

// given looks for what somebody else's cluster is reached with. Without the file kubectl would try some local port instead.
// KUBECONFIG may be a list of files, as for kubectl; one that exists is enough.
func (c *Cluster) given() error {
	var errs []error
	for _, path := range filepath.SplitList(c.Kubeconfig) {
		_, err := os.Stat(path)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// kubectl is the control plane's own; a user's cluster comes with the user's, if there is one.
func (c *Cluster) kubectl() string {
	if c.own {
		return c.Program("kubectl")
	}
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path
	}
	return filepath.Join(c.Root, "bin/k8s/kubectl") // 'make run' has built it
}
