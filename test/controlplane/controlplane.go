package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kilnvm/kiln/test/controlplane/authority"
	"github.com/kilnvm/kiln/test/controlplane/component"
	"github.com/kilnvm/kiln/test/controlplane/process"
)

// startTimeout is far beyond the 3 s that a start takes: a busy machine is no error.
const startTimeout = 3 * time.Minute

// controlPlane is one running control plane and all that has to be undone at its end.
type controlPlane struct {
	bin, dir, state string
	// audited is the group whose requests are recorded.
	audited string
	// closers run in reverse order.
	closers []func() error
	group   *process.Group
	port    int
	ready   ready
}

func (c *controlPlane) close() error {
	var errs []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		errs = append(errs, c.closers[i]())
	}
	c.closers = nil
	return errors.Join(errs...)
}

// prepareDir makes the directory, the certificates and the kubeconfigs.
func (c *controlPlane) prepareDir(names []string) error {
	if err := c.claimDirectory(); err != nil {
		return err
	}
	fd, port, err := reservePort()
	if err != nil {
		return err
	}
	c.closers = append(c.closers, func() error { return unix.Close(fd) })
	c.port = port
	ca, err := authority.New()
	if err != nil {
		return err
	}
	if err := ca.WriteServerFiles(c.state); err != nil {
		return err
	}
	c.ready = ready{
		Server: fmt.Sprintf("https://127.0.0.1:%d", port), CA: filepath.Join(c.state, "ca.crt"),
		Bin: c.bin, Logs: c.state, Users: map[string]string{}, PIDs: map[string]int{},
	}
	c.ready.Kubeconfig, err = c.writeKubeconfig(ca, authority.Admin)
	if err != nil {
		return err
	}
	for _, name := range names {
		u, err := authority.ParseUser(name)
		if err != nil {
			return err
		}
		if c.ready.Users[u.Name], err = c.writeKubeconfig(ca, u); err != nil {
			return err
		}
	}
	return nil
}

func (c *controlPlane) writeKubeconfig(ca *authority.Authority, u authority.User) (string, error) {
	path, err := ca.WriteKubeconfig(c.dir, c.ready.Server, u)
	c.closers = append(c.closers, func() error { return os.Remove(path) })
	return path, err
}

// claimDirectory makes the directory if need be, and sees to it that everything in it that is ours
// goes away at the end. What a killed run left there is overwritten: it holds no lock any more.
func (c *controlPlane) claimDirectory() error {
	_, statErr := os.Stat(c.dir)
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.Open(c.dir)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("another control plane runs in '%s'", c.dir), lock.Close())
	}
	c.closers = append(c.closers, func() error {
		if os.IsNotExist(statErr) {
			_ = os.Remove(c.dir) // stays when somebody else put something into it
		}
		return lock.Close()
	})
	if err := os.RemoveAll(c.state); err != nil {
		return err
	}
	c.closers = append(c.closers, func() error { return os.RemoveAll(c.state) })
	return os.Mkdir(c.state, 0o700)
}

// start runs the three components, each when the one it needs answers.
func (c *controlPlane) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	client, err := c.newClient()
	if err != nil {
		return err
	}
	audit, err := c.writeAuditPolicy()
	if err != nil {
		return err
	}
	c.group = process.NewGroup(c.state)
	c.closers = append(c.closers, func() error {
		for _, complaint := range c.group.Stop() {
			printProgress("%s", complaint)
		}
		return nil
	})
	answers := func(path string) func() bool {
		return func() bool {
			response, err := client.Get(c.ready.Server + path)
			if err != nil {
				return false
			}
			defer response.Body.Close()
			return response.StatusCode == http.StatusOK
		}
	}
	for _, step := range []struct {
		asset string
		args  []string
		ready func() bool
	}{
		{"etcd", component.Etcd(), func() bool { _, err := os.Stat(filepath.Join(c.state, component.EtcdSocket)); return err == nil }},
		{"kube-apiserver", append(apiServerArgs(c.port), audit...), answers("/readyz")},
		// It serves no port to ask. The account that it makes in every namespace shows that it works.
		{"kube-controller-manager", controllerManagerArgs(), answers("/api/v1/namespaces/default/serviceaccounts/default")},
	} {
		printProgress("starting %s", step.asset)
		p, err := c.group.Start(filepath.Join(c.bin, step.asset), step.args)
		if err != nil {
			return err
		}
		c.ready.PIDs[p.Name] = p.PID()
		if err := c.group.Await(ctx, step.ready); err != nil {
			return err
		}
	}
	return nil
}

func (c *controlPlane) newClient() (*http.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.ready.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	return rest.HTTPClientFor(config)
}
