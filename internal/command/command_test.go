package command

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestStopped: a process that is asked to end has not failed, and every other error stays one.
func TestStopped(t *testing.T) {
	runs, asked := context.Background(), func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}()
	cancelled, lost := fmt.Errorf("cannot read namespaces: %w", context.Canceled), errors.New("leader election lost")
	for _, c := range []struct {
		ctx       context.Context
		err, want error
	}{
		{runs, nil, nil},
		{runs, cancelled, cancelled}, // something else has ended it, such as a Lease that was lost
		{runs, lost, lost},
		{asked, nil, nil},
		{asked, cancelled, nil},
		{asked, lost, lost},
	} {
		if got := Stopped(c.ctx, c.err); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v of a context that says %v: %v, want %v", c.err, c.ctx.Err(), got, c.want)
		}
	}
}
