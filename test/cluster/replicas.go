package cluster

import (
	"io"
	"net"
	"sync/atomic"
)

// balancer hands connections to the replicas of the webhook in turn, as a Service does, past those that do not answer.
type balancer struct {
	listener net.Listener
	targets  []string
	next     atomic.Uint64
	// served counts the connections of each target.
	served []atomic.Int64
}

// balance listens on a free port of 127.0.0.1 until its listener is closed. It passes bytes on and ends no TLS: the replicas do.
func balance(targets []string) (*balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &balancer{listener: listener, targets: targets, served: make([]atomic.Int64, len(targets))}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go b.pass(connection)
		}
	}()
	return b, nil
}

func (b *balancer) port() int { return b.listener.Addr().(*net.TCPAddr).Port }

// pass connects a client to the next replica that accepts a connection, and closes the client's if none does.
func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	for range b.targets {
		i := b.next.Add(1) % uint64(len(b.targets))
		replica, err := net.Dial("tcp", b.targets[i])
		if err != nil {
			continue
		}
		defer replica.Close()
		b.served[i].Add(1)
		go func() {
			_, _ = io.Copy(replica, client) // an end of either side is the end of both
			replica.Close()
		}()
		_, _ = io.Copy(client, replica)
		return
	}
}

// Served are the connections that each replica of the webhook has answered so far.
func (c *Cluster) Served() []int64 {
	var all []int64
	if c.balancer != nil {
		for i := range c.balancer.served {
			all = append(all, c.balancer.served[i].Load())
		}
	}
	return all
}
