package cluster

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/test/ports"
	corev1 "k8s.io/api/core/v1"
)

// Old ends the names of programs of an older commit, which know fewer flags.
const Old = "-old"

// control is one process of the controller.
type control struct {
	health, metrics string
	// program is another binary than the controller of this tree; empty for that one.
	program string
	process *process // the last one that was started
}

// startController runs the controller as its service account, as many replicas as the webhook has, and does the work of kubelet: what
// the rotation signs is written into the folder of the webhook.
func (c *Cluster) startController(ctx context.Context) error {
	if !c.byAddress() {
		c.mirrors(ctx)
	}
	for range c.replicas {
		r := &control{program: c.programOf("controller")}
		c.controls = append(c.controls, r)
		if err := c.runControl(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// StopControllers ends all replicas of the controller.
func (c *Cluster) StopControllers() (err error) {
	for _, r := range c.controls {
		err = errors.Join(err, r.process.stop())
	}
	return err
}

// runControl starts a process of the controller, and waits until it is ready.
func (c *Cluster) runControl(ctx context.Context, r *control) error {
	kubeconfig, err := c.access(controllerAccount)
	if err != nil {
		return err
	}
	if r.health, err = ports.Address("127.0.0.1"); err != nil {
		return err
	}
	if r.metrics, err = ports.Address("127.0.0.1"); err != nil {
		return err
	}
	args := []string{"--kubeconfig", kubeconfig, "--config", c.configured(), "--namespace", c.Namespace, "--kubevirt-namespace", c.KubeVirt,
		"--health-probe-bind-address", r.health, "--metrics-bind-address", r.metrics}
	if !c.byAddress() {
		args = append(args, "--rotate-certificates", "--certificate-dns-names", c.Host, "--cert-dir", c.certs())
	}
	if c.apiServer != nil {
		args = append(args, "--apiserver-cert-dir", c.apiServer.certs,
			"--launcher-client-ca-file", filepath.Join(c.apiServer.certs, corev1.ServiceAccountRootCAKey)) // as component apiserver
	}
	if c.Guests != "" {
		args = append(args, "--guests", c.Guests)
	}
	if !strings.HasSuffix(r.program, Old) {
		args = append(args, "--runtime=node") // this control plane has no nodes
	}
	if r.process, _, err = c.startIn(c.Env, cmp.Or(r.program, "controller"), args...); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, becomesReady)
	defer cancel()
	return await(ready, r.process, func() error { return answers("http://" + r.health + "/readyz") })
}

// mirrors mirrors certificates until the cluster is closed.
func (c *Cluster) mirrors(ctx context.Context) {
	ctx, c.stopMirror = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		if err := Mirror(ctx, c.Kubeconfig, c.Namespace, c.certs()); err != nil {
			c.say("no certificate reaches the webhook: %v", err)
		}
	}()
}
