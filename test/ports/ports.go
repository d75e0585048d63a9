// Package ports gives tests ports of this machine for the servers that they start.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The kernel may give a port that it has chosen (":0") to another listener or to an outgoing connection before the server listens on it. These ports are
// below the range from which Linux chooses (ip_local_port_range), and below the range of node ports.
const (
	first = 20000
	last  = 29999
	// attempts bounds the search.
	attempts = 1000
)

// reserved has the sockets of the ports that this process has given out. Without it the garbage collector would close them.
var reserved struct {
	sync.Mutex
	sockets []net.Listener
}

// Free returns a port of a host on which nothing listens. Until this process ends, no other call returns the port, in any process.
func Free(host string) (port int, err error) {
	for range attempts {
		port = first + rand.IntN(last-first+1)
		if err = claimPort(host, port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port of host '%s' from %d to %d: %w", host, first, last, err)
}

// claimPort reserves a port on which nothing listens.
func claimPort(host string, port int) error {
	socket, err := reserveName(port)
	if err != nil {
		return err // given out already
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.sockets = append(reserved.sockets, socket)
	return listener.Close()
}

// reserveName takes a name that one process of this network namespace can have. It is an abstract socket: it leaves no file, and ends with its process, however
// that ends.
func reserveName(port int) (net.Listener, error) {
	return net.Listen("unix", fmt.Sprintf("@kiln-test-port-%d", port))
}

// Address returns HOST:PORT with a port of Free.
func Address(host string) (string, error) {
	port, err := Free(host)
	return net.JoinHostPort(host, strconv.Itoa(port)), err
}
