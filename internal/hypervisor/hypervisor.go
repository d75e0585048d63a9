// Package hypervisor is the client of one machine's libvirt daemon. It reads the machine's capabilities, defines, starts, stops and
// removes the domains of VMIs with their side documents, and reports their states.
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

// DefaultSocket is where Debian's and Fedora's monolithic libvirt daemon listens.
const DefaultSocket = "/var/run/libvirt/libvirt-sock"

// Deadlines for the libvirt daemon. Both are above the 30 s that libvirt itself waits for another job of a domain: its own error says
// more, and must come first.
const (
	// QueryDeadline bounds a query about a domain.
	QueryDeadline = 45 * time.Second
	// changeDeadline bounds a start or a removal. A guest with much memory in huge pages takes minutes to start.
	changeDeadline = 5 * time.Minute
)

// maxIdle is the number of connections that are kept for later calls.
const maxIdle = 8

// Libvirt is a client of this machine's libvirt daemon. Each call has a connection of its own while it lasts. A call that hangs, for
// example because the server of a disk is gone, delays no other. It is ended by closing its connection: go-libvirt has no other way
// to cancel a call.
type Libvirt struct {
	socket                      string
	uri                         libvirt.ConnectURI
	queryTimeout, changeTimeout time.Duration

	mutex sync.Mutex
	idle  []*connection
	// signalled are the domains whose QEMU a signal has ended, until they start again.
	signalled map[libvirt.UUID]bool
}

// connection is an open connection to the daemon.
type connection struct {
	conn net.Conn
	rpc  *libvirt.Libvirt
}

// New returns a client of qemu:///system behind a libvirt daemon's unix socket. The daemon need not run yet, and may be restarted at any
// time.
func New(socket string) *Libvirt { return connecting(socket, libvirt.QEMUSystem) }

// NewSession is New for qemu:///session: the daemon of one unprivileged user, whose guests run as that user. It has no network filters, makes no devices,
// and tunes nothing by cgroups: backend.InSession leaves the fields of a HostPolicy out that such a daemon refuses.
func NewSession(socket string) *Libvirt { return connecting(socket, libvirt.QEMUSession) }

func connecting(socket string, uri libvirt.ConnectURI) *Libvirt {
	return &Libvirt{socket: socket, uri: uri, queryTimeout: QueryDeadline, changeTimeout: changeDeadline}
}

// query runs calls that change nothing. It ends with ctx, or after queryTimeout.
func (l *Libvirt) query(ctx context.Context, work func(*libvirt.Libvirt) error) error {
	return l.runWithin(ctx, l.queryTimeout, work)
}

// change runs calls that change something, until changeTimeout. It goes on when ctx is cancelled: a launcher that is stopped does not
// leave a change half done.
func (l *Libvirt) change(ctx context.Context, work func(*libvirt.Libvirt) error) error {
	return l.runWithin(context.WithoutCancel(ctx), l.changeTimeout, work)
}

// runWithin runs calls on a connection of their own. An error of the deadline names the socket; calls that end after it without an error have succeeded.
func (l *Libvirt) runWithin(ctx context.Context, limit time.Duration, work func(*libvirt.Libvirt) error) error {
	ctx, cancel := l.deadline(ctx, limit)
	defer cancel()
	open, err := l.acquire(ctx)
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
	l.release(open)
	return err
}

// deadline returns a context whose cause names the socket that did not answer.
func (l *Libvirt) deadline(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("libvirt at '%s' did not answer within %s", l.socket, limit))
}

// acquire returns an idle connection, or a new one.
func (l *Libvirt) acquire(ctx context.Context) (*connection, error) {
	l.mutex.Lock()
	l.prune()
	if last := len(l.idle) - 1; last >= 0 {
		open := l.idle[last]
		l.idle = l.idle[:last]
		l.mutex.Unlock()
		return open, nil
	}
	l.mutex.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", l.socket)
	if err != nil {
		return nil, fmt.Errorf("libvirt at '%s': %w", l.socket, err)
	}
	open := &connection{conn, libvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))}
	stopClosing := context.AfterFunc(ctx, func() { conn.Close() })
	err = open.rpc.ConnectToURI(l.uri)
	if !stopClosing() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("libvirt at '%s': %w", l.socket, err)
	}
	return open, nil
}

// release keeps a connection that works for later calls, up to maxIdle.
func (l *Libvirt) release(open *connection) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.idle) < maxIdle {
		l.idle = append(l.idle, open)
		return
	}
	open.conn.Close()
}

// prune drops the idle connections that the daemon has closed. Its caller holds the mutex.
func (l *Libvirt) prune() {
	l.idle = slices.DeleteFunc(l.idle, func(open *connection) bool {
		if open.rpc.IsConnected() {
			return false
		}
		open.conn.Close()
		return true
	})
}

// Close closes the idle connections. Domains go on.
func (l *Libvirt) Close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, open := range l.idle {
		open.conn.Close()
	}
	l.idle = nil
}

// tolerate drops errors with the given numbers, which mean that the work is already done.
func tolerate(err error, done ...libvirt.ErrorNumber) error {
	var answer libvirt.Error
	if errors.As(err, &answer) {
		for _, number := range done {
			if answer.Code == uint32(number) {
				return nil
			}
		}
	}
	return err
}
