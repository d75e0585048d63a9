package cluster

import "context"

// StartDefinitions brings up a control plane with the CustomResourceDefinitions of the manifests and nothing else of Kiln: what an API server does
// without it.
func StartDefinitions(ctx context.Context, o Options) (*Cluster, error) {
	c := newCluster(o)
	return c.take(ctx, []step{
		{"building the control plane", c.build},
		{c.which(), c.controlPlane},
		{"building the manifests", c.kustomize},
		{"installing custom resource definitions", c.define},
	})
}

// RegisterAt registers another webhook than Kiln's, with the rules, match conditions and paths of Kiln's. Options.Host must be an IP address. The CA, as
// PEM, must have issued the webhook's certificate for that address.
func (c *Cluster) RegisterAt(ctx context.Context, url string, ca []byte) error {
	c.Webhook, c.CA, c.registered = url, ca, true
	return c.apply(ctx, nil)
}
