package launcherserver

import (
	"context"
	"errors"
	"sync"
)

// session is the one client of a console or display. QEMU's socket takes one at a time, and a terminal that somebody forgot must not keep others out: a new
// client takes over.
type session struct {
	mutex sync.Mutex
	// end ends the client that is connected, who closes gone then; nil without one.
	end  context.CancelFunc
	gone chan struct{}
}

// errTaken says that a client who takes nothing over has found another.
var errTaken = errors.New("another client is connected, and the request asks to preserve its session")

// errReplaced says that another client came before this one was connected.
var errReplaced = errors.New("another client has taken the connection over")

// take ends the client that is connected, unless preserve is set, and returns a context that ends when the next one comes. The caller calls release when it has
// closed its connection.
func (s *session) take(ctx context.Context, preserve bool) (context.Context, func(), error) { //nolint:revive // a parameter of the request
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
