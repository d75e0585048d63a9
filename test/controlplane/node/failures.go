package node

import "errors"

// Kill ends all processes of a node at once, as a power failure does: what they have written stays, and Add starts the node again.
func (c *Cluster) Kill(name string) error {
	n, err := c.findFurtherNode(name)
	if err != nil {
		return err
	}
	n.killed.Store(true)
	if err := n.cmd.Process.Kill(); err != nil {
		return err
	}
	<-n.ended // the kernel has killed whatever was in the namespaces by then
	// The kernel removes the namespace's interfaces a little later, and the node is to find the name free when it starts again.
	return unplugCable(n.Number, c.nodes[0].cmd.Process.Pid)
}

// Connect connects or disconnects the network of a node, as if its cable was plugged in or pulled. Its processes go on.
func (c *Cluster) Connect(name string, connected bool) error {
	n, err := c.findFurtherNode(name)
	if err != nil {
		return err
	}
	return setCarrier(n.Number, c.nodes[0].cmd.Process.Pid, connected)
}

// findFurtherNode returns a node that runs and is not the first, without which there is no cluster.
func (c *Cluster) findFurtherNode(name string) (*outside, error) {
	n, err := c.findNode(name)
	switch {
	case err != nil:
		return nil, err
	case n.isFirst():
		return nil, errors.New("the first node has the control plane")
	case n.cmd == nil:
		return nil, errors.New("the node was prepared for another machine")
	case n.killed.Load():
		return nil, errors.New("the node was killed")
	}
	return n, nil
}
