package operation

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// noted notes its name in the state when it runs.
type noted struct {
	name   string
	result Result
	err    error
}

func (n noted) Run(_ context.Context, ran *[]string) (Result, error) {
	*ran = append(*ran, n.name)
	return n.result, n.err
}

// TestSteps: steps run in their order until one of them waits or fails.
func TestSteps(t *testing.T) {
	broken := errors.New("broken")
	for why, test := range map[string]struct {
		second noted
		ran    []string
		after  time.Duration
		err    error
	}{
		"all are done":  {noted{"second", Done(), nil}, []string{"first", "second", "third"}, 0, nil},
		"one waits":     {noted{"second", RetryAfter(time.Minute), nil}, []string{"first", "second"}, time.Minute, nil},
		"one has ended": {noted{"second", Wait(), nil}, []string{"first", "second"}, 0, nil},
		"one fails":     {noted{"second", Done(), broken}, []string{"first", "second"}, 0, broken},
	} {
		var ran []string
		steps := Steps[*[]string]{noted{"first", Done(), nil}.Run, Steps[*[]string]{test.second.Run}.Run, noted{"third", Done(), nil}.Run}
		after, err := steps.Reconcile(t.Context(), &ran)
		if !slices.Equal(ran, test.ran) || after != test.after || !errors.Is(err, test.err) {
			t.Errorf("%s: %v ran, after %s, %v", why, ran, after, err)
		}
	}
}
