package operation

import (
	"context"
	"time"
)

// Step is one step of an operation. Each reconcile begins with the first step: a step that was completed in an earlier reconcile must do nothing and return
// Done.
type Step[State any] func(ctx context.Context, state State) (Result, error)

// Result is what follows a step.
type Result struct {
	// done means that the next step runs. Otherwise the steps begin anew after the given time. It is 0 if only an event can lead to another reconcile.
	done  bool
	after time.Duration
}

// Done lets the next step run.
func Done() Result { return Result{done: true} }

// Wait ends a reconcile until an event. A step that returns an error returns the zero Result, too.
func Wait() Result { return Result{} }

// RetryAfter ends a reconcile for the given time, or until an event.
func RetryAfter(after time.Duration) Result { return Result{after: after} }

// Steps are the steps of an operation, in their order. Run is a Step itself.
type Steps[State any] []Step[State]

// Run runs steps until one of them is not done.
func (s Steps[State]) Run(ctx context.Context, state State) (Result, error) {
	for _, step := range s {
		if result, err := step(ctx, state); err != nil || !result.done {
			return result, err
		}
	}
	return Done(), nil
}

// Reconcile runs steps and returns the time until the next reconcile: 0 if only an event can lead to it.
func (s Steps[State]) Reconcile(ctx context.Context, state State) (time.Duration, error) {
	result, err := s.Run(ctx, state)
	return result.after, err
}
