// Package hypervisor speaks with the libvirt daemon of one machine: it reads the machine's capabilities, defines, starts, stops and removes the
// domains of VMIs with all that libvirt must have beside them, and reports what becomes of them.
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

// Deadlines of the libvirt daemon. Both are above the 30 s that libvirt itself waits for another job of a domain, so that
// its own error comes first: it says more.
const (
	// AskDeadline bounds a question about a domain.
	AskDeadline = 45 * time.Second
	// actDeadline bounds a start or a removal. A guest with much memory in huge pages takes minutes to start.
	actDeadline = 5 * time.Minute
)

// maxIdle is how many connections are kept for later conversations.
const maxIdle = 8

// Libvirt asks the libvirt daemon of this machine. Each conversation has a connection of its own while it lasts. One that
// hangs, say because the disk of a domain is on a server that is gone, holds up no other, and is ended by closing its connection:
// go-libvirt has no other way to give up a call.
type Libvirt struct {
	socket   string
	ask, act time.Duration

	mutex sync.Mutex
	idle  []*line
	// signalled are the domains whose QEMU a signal has ended, until they start again.
	signalled map[libvirt.UUID]bool
}

// line is an open connection.
type line struct {
	conn net.Conn
	rpc  *libvirt.Libvirt
}

// New speaks with the qemu:///system behind a libvirt daemon's unix socket. The daemon need not run yet, and may be started
// anew at any time.
func New(socket string) *Libvirt {
	return &Libvirt{socket: socket, ask: AskDeadline, act: actDeadline}
}

// asking runs a conversation that changes nothing. It ends with ctx, or when its time is over.
func (l *Libvirt) asking(ctx context.Context, work func(*libvirt.Libvirt) error) error {
	return l.within(ctx, l.ask, work)
}

// acting runs a conversation that changes something. It goes on when ctx is cancelled: a launcher that is told to end does
// not leave things half done.
func (l *Libvirt) acting(ctx context.Context, work func(*libvirt.Libvirt) error) error {
	return l.within(context.WithoutCancel(ctx), l.act, work)
}

func (l *Libvirt) within(ctx context.Context, limit time.Duration, work func(*libvirt.Libvirt) error) error {
	ctx, cancel := l.deadline(ctx, limit)
	defer cancel()
	open, err := l.take(ctx)
	if err != nil {
		return err
	}
	listen := context.AfterFunc(ctx, func() { open.conn.Close() })
	err = work(open.rpc)
	cut := !listen()
	var answer libvirt.Error
	switch {
	case cut && err != nil:
		return context.Cause(ctx)
	case cut:
		return nil
	case err != nil && !errors.As(err, &answer):
		open.conn.Close() // it may be the connection that failed
		return err
	}
	l.give(open)
	return err
}

// deadline is a context that says at its end who was silent.
func (l *Libvirt) deadline(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("libvirt at '%s' did not answer within %s", l.socket, limit))
}

// take returns an idle connection, or a new one.
func (l *Libvirt) take(ctx context.Context) (*line, error) {
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
	open := &line{conn, libvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))}
	listen := context.AfterFunc(ctx, func() { conn.Close() })
	err = open.rpc.ConnectToURI(libvirt.QEMUSystem)
	if !listen() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("libvirt at '%s': %w", l.socket, err)
	}
	return open, nil
}

func (l *Libvirt) give(open *line) {
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
	l.idle = slices.DeleteFunc(l.idle, func(open *line) bool {
		if open.rpc.IsConnected() {
			return false
		}
		open.conn.Close()
		return true
	})
}

// Close ends the connections that are idle; guests go on.
func (l *Libvirt) Close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, open := range l.idle {
		open.conn.Close()
	}
	l.idle = nil
}

// tolerate drops errors that say that the work is already done.
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
