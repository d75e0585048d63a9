// Package cluster starts Kiln as a user would meet it: a real control plane with our manifests, webhook, controller and launcher as
// processes of their own. 'make run' and the end-to-end tests share it. Linux only: what is started dies with its starter.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Options say where and how.
type Options struct {
	// Root is the repository.
	Root string
	// Dir takes what is written: kubeconfig, certificates, logs. It is the caller's to remove.
	Dir string
	// Kubeconfig of a cluster that exists; empty starts one.
	Kubeconfig string
	// Host is the name or address at which the cluster's API server reaches this machine; empty means localhost.
	Host string
	// Expose makes a port of this machine's 127.0.0.1 the same port where the API server of Kubeconfig runs; nil if that is this machine.
	Expose func(port int) error
	// Configuration is a KubeVirt object or its spec.configuration as YAML; empty means one for tests and 'make run'.
	Configuration string
	// Namespace is the namespace that Kiln is installed in, and Launchers the namespace of the launchers' Leases; empty means the namespace in the manifests.
	Namespace, Launchers string
	// KubeVirt is the namespace of KubeVirt's accounts; empty means the namespace in the manifests.
	KubeVirt string
	// Guests is the controller's --guests; empty for its default.
	Guests string
	// Hook is the webhook's --hook-image, and HookProtocol its --hook-protocol; empty for none.
	Hook, HookProtocol string
	// Enforcement is the webhook's --enforcement; empty for its default.
	Enforcement string
	// Replicas of the webhook, behind one address, and of the controller; 0 means one.
	Replicas int
	// WebhookTimeout is the timeoutSeconds of each webhook; 0 for the timeouts of the manifests. Beside KubeVirt these are so short that on a busy machine an
	// object may be admitted without judgement, which a test of verdicts must not meet.
	WebhookTimeout int64
	// Overlay is the folder of manifests that is installed; empty means overlays/rotation.
	Overlay string
	// Release is the commit whose manifests are installed and whose programs run; empty means this tree. MoveTo changes it.
	Release string
	// Drain is the time for which a replica of the webhook serves on after it was asked to stop.
	Drain time.Duration
	// Env is added to the environment of the control plane, the webhook and the controller.
	Env []string
	// Plane are further arguments of the control plane's supervisor.
	Plane []string
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

	bin        string
	own        bool // the control plane is ours
	beside     bool // KubeVirt runs guests, and its definitions and KubeVirt object are there
	audit      string
	plane      *Plane // nil where it is not ours
	registered bool
	manifests  []*unstructured.Unstructured // what a user would apply
	replicas   []*replica
	controls   []*control
	apiServer  *apiServer // nil where the overlay has none
	balancer   *balancer
	// direct says that the webhooks are registered at the replicas themselves.
	direct     bool
	stopMirror context.CancelFunc // nil where no certificate is mirrored
	reader     reader
	mutex      sync.Mutex
	running    []*process // in the order of their start
}

// Start brings up the control plane (unless one is given), installs the manifests and starts the webhook. On an error
// nothing stays behind.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := newCluster(o)
	return c.take(ctx, []step{
		{"building Kiln's programs and the control plane", c.build},
		{c.which(), c.controlPlane},
		{"building the manifests", c.kustomize},
		{"looking whether it has no Kiln yet", c.vacant},
		{"installing custom resource definitions, roles and policies", c.install},
		{"choosing ports", c.lay},
		{"registering the webhook for a probe", c.registerProbe},
		{"registering the API server of subresources", c.registerAPIServer},
		{"writing the configuration", c.configure},
		{"starting the controller", c.startController},
		{"starting the webhook, and waiting for its certificate and for the CA in its registration", c.startWebhook},
		{"probing that the API server reaches the webhook", c.probe},
		{"registering the webhook for all objects", c.register},
		{"starting the API server of subresources", c.startAPIServer},
	})
}

func newCluster(o Options) *Cluster {
	c := &Cluster{Options: o, bin: filepath.Join(o.Dir, "bin"), own: o.Kubeconfig == ""}
	c.Host, c.Namespace, c.Launchers = cmp.Or(o.Host, "localhost"), cmp.Or(o.Namespace, "kiln-system"), cmp.Or(o.Launchers, "kiln-launchers")
	c.KubeVirt, c.Overlay = cmp.Or(o.KubeVirt, "kubevirt"), cmp.Or(o.Overlay, "overlays/rotation")
	return c
}

// step is one of those that lead to a cluster.
type step struct {
	what string
	do   func(context.Context) error
}

// take takes all steps, or ends what was started.
func (c *Cluster) take(ctx context.Context, steps []step) (*Cluster, error) {
	for _, step := range steps {
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
	if err := Build(ctx, c.Root, c.bin, "webhook", "controller", "apiserver", "launcher", "kubectl-kiln"); err != nil {
		return err
	}
	if c.Release != "" {
		if err := c.buildRelease(ctx); err != nil {
			return err
		}
	}
	// The control plane is a module of its own, with its own dependencies.
	_, err := Supervisor(ctx, c.Root, c.bin)
	return err
}

// Program is the path of one of our programs, or of kubectl.
func (c *Cluster) Program(name string) string { return filepath.Join(c.bin, name) }

// Kubectl runs kubectl as the cluster's administrator, with input on its standard input.
// Both outputs are returned with an error too.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (stdout, stderr string, err error) {
	return c.run(ctx, c.kubectl(), input, args...)
}

// Kiln runs the kubectl plugin.
func (c *Cluster) Kiln(ctx context.Context, input string, args ...string) (stdout, stderr string, err error) {
	return c.run(ctx, c.Program("kubectl-kiln"), input, args...)
}

// await polls until the condition holds, the process has ended or the context is done.
// The error has the end of the process's log, and the last error of the condition if the context is done.
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

// answers reports whether a health endpoint says ok.
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
