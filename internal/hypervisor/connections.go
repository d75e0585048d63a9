package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
)

// Deadlines for the libvirt daemon. Both are longer than the 30 s that libvirt itself waits for another job of a domain: its own error says more, and must
// come first.
const (
	// QueryDeadline bounds a query about a domain.
	QueryDeadline = 45 * time.Second
	// changeDeadline bounds a start or a removal. A guest with much memory in huge pages takes minutes to start.
	changeDeadline = 5 * time.Minute
)

// maxIdle is the number of connections that are kept for later calls.
const maxIdle = 8

// connections are the connections to a libvirt daemon. Each call has its own connection while it lasts, so a call that hangs, for example because the server
// of a disk does not answer, does not delay the others. Closing its connection is go-libvirt's only way to cancel a call.
type connections struct {
	socket                      string
	uri                         libvirt.ConnectURI
	queryTimeout, changeTimeout time.Duration

	mutex sync.Mutex
	idle  []*connection
}

// connection is an open connection to the daemon.
type connection struct {
	conn net.Conn
	rpc  *libvirt.Libvirt
}

// runQuery runs calls that do not change anything. It ends with ctx, or after queryTimeout.
func (c *connections) runQuery(ctx context.Context, work func(*libvirt.Libvirt) error) error {
	return c.runWithin(ctx, c.queryTimeout, work)
}

// runChange runs calls that change something. It ends after changeTimeout, and not with ctx, so that a launcher that is stopped does not leave a change half
// done.
func (c *connections) runChange(ctx context.Context, work func(*libvirt.Libvirt) error) error {
	return c.runWithin(context.WithoutCancel(ctx), c.changeTimeout, work)
}

// runWithin runs calls on a connection of their own. The error after the deadline names the socket. Calls that end after the deadline without an error have
// succeeded.
func (c *connections) runWithin(ctx context.Context, limit time.Duration, work func(*libvirt.Libvirt) error) error {
	ctx, cancel := c.withDeadline(ctx, limit)
	defer cancel()
	open, err := c.acquireConnection(ctx)
	if err != nil {
		return err
	}
	stopClosing := context.AfterFunc(ctx, func() { open.conn.Close() })
	err = work(open.rpc)
	closed := !stopClosing()
	var answer libvirt.Error
	switch {
	case closed && err != nil:
		return context.Cause(ctx)
	case closed:
		return nil
	case err != nil && !errors.As(err, &answer):
		open.conn.Close() // it may be the connection that failed
		return err
	}
	c.releaseConnection(open)
	return err
}

// withDeadline returns a context whose cause names the socket that did not answer.
func (c *connections) withDeadline(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("libvirt at '%s' did not answer within %s", c.socket, limit))
}

// acquireConnection returns an idle connection, or a new one.
func (c *connections) acquireConnection(ctx context.Context) (*connection, error) {
	c.mutex.Lock()
	c.pruneClosed()
	if last := len(c.idle) - 1; last >= 0 {
		open := c.idle[last]
		c.idle = c.idle[:last]
		c.mutex.Unlock()
		return open, nil
	}
	c.mutex.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, fmt.Errorf("libvirt at '%s': %w", c.socket, err)
	}
	open := &connection{conn, libvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))}
	stopClosing := context.AfterFunc(ctx, func() { conn.Close() })
	err = open.rpc.ConnectToURI(c.uri)
	if !stopClosing() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("libvirt at '%s': %w", c.socket, err)
	}
	return open, nil
}

// releaseConnection keeps a connection that works for later calls, up to maxIdle.
func (c *connections) releaseConnection(open *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.idle) < maxIdle {
		c.idle = append(c.idle, open)
		return
	}
	open.conn.Close()
}

// pruneClosed drops the idle connections that the daemon has closed. Its caller holds the mutex.
func (c *connections) pruneClosed() {
	c.idle = slices.DeleteFunc(c.idle, func(open *connection) bool {
		if open.rpc.IsConnected() {
			return false
		}
		open.conn.Close()
		return true
	})
}

// Close closes the idle connections. Domains go on.
func (c *connections) Close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, open := range c.idle {
		open.conn.Close()
	}
	c.idle = nil
}
