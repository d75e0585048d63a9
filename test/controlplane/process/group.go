package process

import (
	"context"
	"fmt"
	"time"
)

// Group is processes that need each other: when one ends by itself, nothing works any more.
type Group struct {
	// Ended gets every process that ends.
	Ended chan *Process

	dir     string
	running []*Process
}

// most is more than any group has processes, so that none waits for somebody to hear of its end.
const most = 16

// NewGroup makes a group whose processes run in dir, and have their logs there.
func NewGroup(dir string) *Group { return &Group{Ended: make(chan *Process, most), dir: dir} }

// Start runs a binary. Call it from the main goroutine only, see start.
func (g *Group) Start(binary string, args []string) (*Process, error) {
	p, err := start(binary, g.dir, args)
	if err != nil {
		return nil, err
	}
	g.running = append(g.running, p)
	go func() { <-p.done; g.Ended <- p }()
	return p, nil
}

// Again starts a process that has ended anew. Call it where Start is called.
// Trap: Stop ends it before those that were started earlier and need it. They take longer to end then.
func (g *Group) Again(p *Process) (*Process, error) {
	return g.Start(p.cmd.Path, p.cmd.Args[1:])
}

// Await polls until ready, or until a process has ended or the context is done, which is an error.
func (g *Group) Await(ctx context.Context, ready func() bool) error {
	for !ready() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case p := <-g.Ended:
			return p.Died()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// Stop ends all of them, the last started first: an API server whose etcd is gone hangs.
// It reports those that had to be killed.
func (g *Group) Stop() (complaints []string) {
	for i := len(g.running) - 1; i >= 0; i-- {
		if g.running[i].Stop() {
			complaints = append(complaints, fmt.Sprintf("%s did not stop within %s and was killed", g.running[i].Name, stopGrace))
		}
	}
	g.running = nil
	return complaints
}
