// Package cluster starts Kiln as a user would meet it: a real control plane with our manifests, the webhook and a launcher as
// processes of their own. 'make run' and the end-to-end tests share it. Linux only: what is started dies with its starter.
package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Options say where and how.
type Options struct {
	// Root is the repository.
	Root string
	// Dir takes what is written: kubeconfig, certificates, logs. It is the caller's to remove.
	Dir string
	// Kubeconfig of a cluster that exists; empty starts one.
	Kubeconfig string
	// Host is the address at which the cluster's API server reaches this machine; empty means 127.0.0.1.
	Host string
	// Progress gets a line for each step.
	Progress io.Writer
}

// Cluster is a running one.
type Cluster struct {
	Options
	// Webhook is the base URL of the webhook.
	Webhook string
	// CA signed the webhook's certificate, PEM.
	CA []byte

	bin     string
	mutex   sync.Mutex
	running []*process // in the order of their start
	health  string
}

// Start brings up the control plane (unless one is given), installs the manifests and starts the webhook. On an error
// nothing stays behind.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{Options: o, bin: filepath.Join(o.Dir, "bin")}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"building webhook, launcher, kubectl-kiln and control plane", c.build},
		{"starting etcd, kube-apiserver and kube-controller-manager", c.controlPlane},
		{"installing custom resource definitions, roles and policies", c.install},
		{"starting the webhook", c.startWebhook},
		{"registering the webhook", c.register},
	} {
		c.say("%s", step.what)
		if err := step.do(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", step.what, err), c.Close())
		}
	}
	return c, nil
}

func (c *Cluster) say(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// build makes the programs from this tree.
func (c *Cluster) build(ctx context.Context) error {
	if err := os.MkdirAll(c.bin, 0o755); err != nil {
		return err
	}
	for _, build := range [][]string{
		{"build", "-o", c.bin + "/", "./cmd/..."},
		{"build", "-C", "test/controlplane", "-o", filepath.Join(c.bin, "controlplane"), "."},
	} {
		cmd := exec.CommandContext(ctx, "go", build...)
		cmd.Dir = c.Root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", build[0], err, out)
		}
	}
	return nil
}

// controlPlane starts the supervisor, which ends with our end of its standard input.
func (c *Cluster) controlPlane(ctx context.Context) error {
	if c.Kubeconfig != "" {
		return nil
	}
	p, out, err := c.start("controlplane", "run", "--dir", filepath.Join(c.Dir, "controlplane"))
	if err != nil {
		return err
	}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n')
		line <- text
	}()
	var ready struct{ Kubeconfig, Bin string }
	select {
	case text := <-line:
		if err := json.Unmarshal([]byte(text), &ready); err != nil {
			return fmt.Errorf("the control plane has ended:\n%s", p.tail())
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	c.Kubeconfig = ready.Kubeconfig
	return os.Symlink(filepath.Join(ready.Bin, "kubectl"), filepath.Join(c.bin, "kubectl"))
}

// Program is the path of one of our programs, or of kubectl.
func (c *Cluster) Program(name string) string { return filepath.Join(c.bin, name) }

// Kubectl runs kubectl as the cluster's administrator, with input on its standard input.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (stdout, stderr string, err error) {
	kubectl := c.Program("kubectl")
	if _, missing := os.Stat(kubectl); missing != nil {
		kubectl = "kubectl" // a user's cluster comes with the user's own
	}
	return c.run(ctx, kubectl, input, args...)
}

// Kiln runs the kubectl plugin.
func (c *Cluster) Kiln(ctx context.Context, input string, args ...string) (stdout, stderr string, err error) {
	return c.run(ctx, c.Program("kubectl-kiln"), input, args...)
}

func (c *Cluster) install(ctx context.Context) error {
	for _, base := range []string{"crds", "rbac"} {
		args := []string{"apply", "--server-side", "--force-conflicts", "-k", filepath.Join(c.Root, "manifests", base)}
		if base == "rbac" {
			if err := c.namespace(ctx, "kiln-system"); err != nil {
				return err
			}
		}
		if _, stderr, err := c.Kubectl(ctx, "", args...); err != nil {
			return fmt.Errorf("manifests/%s: %w: %s", base, err, stderr)
		}
	}
	_, stderr, err := c.Kubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	return nil
}

func (c *Cluster) namespace(ctx context.Context, name string) error {
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	if _, stderr, err := c.Kubectl(ctx, manifest, "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	return nil
}

// freePort is a port that nothing listens on now.
func freePort(host string) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// await polls until the condition holds, the process has ended or the context is done.
func await(ctx context.Context, p *process, ready func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it has ended:\n%s", p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w:\n%s", ctx.Err(), err, p.tail())
		case <-tick.C:
		}
	}
}

// answers tells whether a health endpoint says ok.
func answers(url string) error {
	response, err := http.Get(url) //nolint:gosec,noctx // our own process on this machine
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
