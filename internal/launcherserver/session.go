package launcherserver

import (
	"context"
	"errors"
	"sync"
)

// session is the only client of a console or display. QEMU's socket accepts one at a time. A new client replaces it, so that a forgotten terminal does not
// keep others out.
type session struct {
	mutex sync.Mutex
	// end disconnects the client, which closes gone then. Both are nil if no client is connected.
	end  context.CancelFunc
	gone chan struct{}
}

// errTaken is the error of a client that preserves the session of another one.
var errTaken = errors.New("another client is connected, and the request asks to preserve its session")

// errReplaced is the error of a client that another one has replaced before it was connected.
var errReplaced = errors.New("another client has taken the connection over")

// takeOver disconnects the current client, or fails if preserve is set. It returns a context that ends when another client takes the session, and a function
// that the caller calls after it has closed its connection.
func (s *session) takeOver(ctx context.Context, preserve bool) (context.Context, func(), error) { //nolint:revive // a parameter of the request
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.end != nil && preserve {
		return nil, nil, errTaken
	}
	if s.end != nil {
		s.end()
		<-s.gone
	}
	ctx, end := context.WithCancel(ctx)
	gone := make(chan struct{})
	s.end, s.gone = end, gone
	release := func() {
		end()
		close(gone)
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.gone == gone {
			s.end, s.gone = nil, nil
		}
	}
	return ctx, release, nil
}
