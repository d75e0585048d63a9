package cluster

import (
	"net"
	"slices"
	"sync"
)

// balancer hands connections to the endpoints in turn, as a Service does: to one that does not answer any more too, until it is taken out. It tries no
// other one then. Without endpoints a connection is closed.
type balancer struct {
	listener     net.Listener
	disturbances disturbances

	mutex     sync.Mutex
	endpoints []string
	next      int
	// served counts the connections of each endpoint so far, also of endpoints that were taken out.
	served map[string]int64
}

// balance listens on a free port of 127.0.0.1 until its listener is closed. It passes bytes on and ends no TLS: the replicas do.
func balance() (*balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &balancer{listener: listener, served: map[string]int64{}}
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

// add makes an address an endpoint.
func (b *balancer) add(address string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !slices.Contains(b.endpoints, address) {
		b.endpoints = append(b.endpoints, address)
	}
}

// remove takes an endpoint out. Its connections stay, as those through a Service do.
func (b *balancer) remove(address string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.endpoints = slices.DeleteFunc(b.endpoints, func(endpoint string) bool { return endpoint == address })
}

// choose returns the next endpoint, if there is one.
func (b *balancer) choose() (string, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.endpoints) == 0 {
		return "", false
	}
	b.next++
	address := b.endpoints[b.next%len(b.endpoints)]
	b.served[address]++
	return address, true
}

func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	address, found := b.choose()
	if !found {
		return
	}
	replica, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer replica.Close()
	b.disturbances.copyBoth(client, replica, address)
}

// Served are the connections that each replica of the webhook has been given so far.
func (c *Cluster) Served() []int64 {
	if c.balancer == nil {
		return nil
	}
	c.balancer.mutex.Lock()
	defer c.balancer.mutex.Unlock()
	var all []int64
	for _, r := range c.replicas {
		all = append(all, c.balancer.served[r.address])
	}
	return all
}
