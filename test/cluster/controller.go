package cluster

import (
	"context"
	"fmt"
)

// startController runs the controller as its service account, as many replicas as the webhook has, and does the work of kubelet: what
// the rotation signs is written into the folder of the webhook.
func (c *Cluster) startController(ctx context.Context) error {
	kubeconfig, err := c.access(controllerAccount)
	if err != nil {
		return err
	}
	args := []string{"--kubeconfig", kubeconfig, "--config", c.configFile(), "--namespace", c.Namespace, "--kubevirt-namespace", c.KubeVirt}
	if !c.byAddress() {
		args = append(args, "--rotate-certificates", "--certificate-dns-names", c.Host, "--cert-dir", c.certs())
		c.mirrors(ctx)
	}
	for range c.replicas {
		port, err := freePort("127.0.0.1")
		if err != nil {
			return err
		}
		health := fmt.Sprintf("127.0.0.1:%d", port)
		p, _, err := c.start("controller", append(args, "--health-probe-bind-address", health)...)
		if err != nil {
			return err
		}
		ready, cancel := context.WithTimeout(ctx, becomesReady)
		defer cancel()
		if err := await(ready, p, func() error { return answers("http://" + health + "/readyz") }); err != nil {
			return err
		}
	}
	return nil
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
