package launcherserver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// mostConnections bounds the connections of the server, because each is an open file of the pod. Further ones wait.
	mostConnections = 256
	// mostUnknown bounds the connections whose clients have not shown a certificate yet, and mostOfAddress the ones of a single address. Further ones are
	// closed. Without these bounds, a process that reaches the port could take all connections, and Kiln's API server would get none.
	mostUnknown   = 192
	mostOfAddress = 32
	// acceptRetry is the time after which a failed Accept is repeated.
	acceptRetry = 100 * time.Millisecond
)

// gate is a listener whose connections have passed their TLS handshake.
type gate struct {
	net.Listener
	config *tls.Config
	known  chan net.Conn
	// ended is closed after the listener was closed; err is the error of its Accept.
	ended chan struct{}
	err   error

	mutex   sync.Mutex
	unknown map[string]int
	total   int
}

// newGate returns a listener that accepts the connections of another one after their handshakes.
func newGate(listener net.Listener, config *tls.Config) *gate {
	g := &gate{Listener: netutil.LimitListener(listener, mostConnections), config: config, known: make(chan net.Conn), ended: make(chan struct{}),
		unknown: map[string]int{}}
	go g.acceptAll()
	return g
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case conn := <-g.known:
		return conn, nil
	case <-g.ended:
		return nil, g.err
	}
}

func (g *gate) acceptAll() {
	defer close(g.ended)
	for {
		conn, err := g.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			g.err = err
			return
		}
		if err != nil { // for example too many open files
			time.Sleep(acceptRetry)
			continue
		}
		if !g.countUnknown(conn) {
			conn.Close()
			continue
		}
		go g.doHandshake(conn)
	}
}

// doHandshake does the handshake of a connection.
func (g *gate) doHandshake(conn net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), headerLimit)
	defer cancel()
	secure := tls.Server(conn, g.config)
	err := secure.HandshakeContext(ctx)
	g.forgetUnknown(conn)
	if err != nil {
		conn.Close()
		return
	}
	select {
	case g.known <- secure:
	case <-g.ended:
		conn.Close()
	}
}

// countUnknown counts a connection without a certificate, and reports whether it may stay.
func (g *gate) countUnknown(conn net.Conn) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	address := addressOf(conn)
	if g.total >= mostUnknown || g.unknown[address] >= mostOfAddress {
		return false
	}
	g.total++
	g.unknown[address]++
	return true
}

func (g *gate) forgetUnknown(conn net.Conn) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.total--
	address := addressOf(conn)
	if g.unknown[address]--; g.unknown[address] == 0 {
		delete(g.unknown, address)
	}
}

func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}
