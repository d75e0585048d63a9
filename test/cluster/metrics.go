package cluster

// Metrics are the URLs of /metrics by the name of the deployment that a process would belong to.
func (c *Cluster) Metrics() map[string][]string {
	urls := map[string][]string{}
	for _, r := range c.replicas {
		urls["kiln-webhook"] = append(urls["kiln-webhook"], "http://"+r.metrics+"/metrics")
	}
	for _, r := range c.controls {
		urls["kiln-controller"] = append(urls["kiln-controller"], "http://"+r.metrics+"/metrics")
	}
	if c.apiServer != nil {
		urls["kiln-apiserver"] = []string{c.APIServerMetrics()}
	}
	return urls
}
