package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/load/creates"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

const (
	// clients is the most creates at once: as many as are due while etcd stands still for a second and more.
	clients = 64
	// slow is how long a create, and a VM until it is complete, may take while all is well.
	slow = 2 * time.Second
	// mends is how long a VM may be incomplete after the last create.
	mends = 2 * time.Minute
)

// trial is the result of one fault.
type trial struct {
	creates.Result
	// begun and mended are the times at which the fault was done, and at which do returned.
	begun, mended time.Time
	seen          *seen
	verdict
}

// tryFault creates VMs, breaks something meanwhile, and looks at all VMs afterwards.
func (s *stage) tryFault(ctx context.Context, number int, f fault) (*trial, error) {
	fmt.Fprintln(os.Stderr, "fault:", f.name)
	space := fmt.Sprintf("faults-%d", number)
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	s.space = space
	t := &trial{}
	var err error
	if t.seen, err = s.watchObjects(ctx, space); err != nil {
		return nil, err
	}
	defer t.seen.stop()
	creating, enough := context.WithCancel(ctx)
	defer enough()
	done := make(chan error, 1)
	go func() {
		var err error
		t.Result, err = creates.Run(creating, s.config, creates.Plan{Clients: clients, Rate: s.rate, Timeout: time.Minute, VM: newVMs(space)})
		done <- err
	}()
	time.Sleep(s.calm)
	t.begun = time.Now()
	broken := f.do(ctx, s)
	t.mended = time.Now()
	tended := s.restartControllers(ctx)
	time.Sleep(s.calm)
	enough()
	if err := cmp.Or(broken, <-done); err != nil {
		return nil, errors.Join(err, tended())
	}
	t.verdict, err = s.awaitComplete(ctx, space, t)
	if err := errors.Join(err, tended()); err != nil {
		return nil, err
	}
	return t, s.cleanUp(ctx, space)
}

// restartControllers restarts controllers that end, every second, until the function is called that it returns. A restart that fails is tried again; its error
// counts if it is the last.
func (s *stage) restartControllers(ctx context.Context) func() error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		for ; ctx.Err() == nil; time.Sleep(time.Second) {
			if tried := s.on.RestartEnded(ctx); ctx.Err() == nil { // else the end of the trial has interrupted it
				err = tried
			}
		}
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// newVMs returns VMs of three instancetypes by their number. Every tenth is started.
func newVMs(space string) func(i int) *v1.VirtualMachine {
	return func(i int) *v1.VirtualMachine {
		kind := creates.Kind{
			Namespace: space, Strategy: v1.RunStrategyHalted, Preference: "linux.sample",
			Instancetype: []string{"tiny", "small", "medium"}[i%3],
		}
		if i%10 == 0 {
			kind.Strategy = v1.RunStrategyAlways
		}
		return kind.VM(fmt.Sprintf("vm-%d", i))
	}
}

// cleanUp mends what the fault left wrong, and removes the namespace.
func (s *stage) cleanUp(ctx context.Context, space string) error {
	if webhook, controller := s.on.Versions(); webhook != "webhook" || controller != "controller" {
		if err := s.runPair(ctx, "webhook", "controller"); err != nil {
			return err
		}
	}
	if err := s.client.CoreV1().Namespaces().Delete(ctx, space, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return retryUntil(ctx, 5*time.Minute, func() error {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, space, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("namespace %s is still there", space)
	})
}

// slowestCreate returns the longest latency of a create that was acknowledged.
func (t *trial) slowestCreate() (longest time.Duration) {
	for _, c := range t.Creates {
		if c.Err == nil {
			longest = max(longest, c.Latency)
		}
	}
	return longest
}

// timeUntilWell returns the time from the end of the fault until the last create that failed or was slow had ended, and the last VM that was slow was complete.
func (t *trial) timeUntilWell() time.Duration {
	last := t.mended
	for _, c := range t.Creates {
		ended := c.Due.Add(c.Latency)
		complete := t.seen.completeAt(c.Name)
		switch {
		case c.Err != nil || c.Latency > slow:
			last = laterOf(last, ended)
		case complete.Sub(ended) > slow:
			last = laterOf(last, complete)
		}
	}
	return last.Sub(t.mended)
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isBad reports whether the fault had an effect that no fault may have.
func (t *trial) isBad(f fault) bool {
	return f.none && len(t.Failures()) > 0 || t.lost+t.stuck+t.unpinned+t.restless > 0
}

func (t *trial) printRow(f fault) {
	failed := fmt.Sprint(len(t.Failures()))
	if f.none {
		failed += " (0 wanted)"
	}
	fmt.Printf("%s | %d | %s | %.2f s | %.1f s | %d | %d | %d | %d | %d\n", f.name, len(t.Creates)-len(t.Failures()), failed,
		t.slowestCreate().Seconds(), t.timeUntilWell().Seconds(), t.lost, t.stuck, t.unpinned, t.restless, t.orphans)
	errs := map[string]int{}
	for _, c := range t.Failures() {
		errs[withoutNames(c.Err)]++
	}
	for _, text := range slices.SortedFunc(maps.Keys(errs), func(a, b string) int { return cmp.Compare(errs[b], errs[a]) }) {
		fmt.Printf("  %d x %s\n", errs[text], text)
	}
	for _, text := range t.examples {
		fmt.Printf("  %s\n", text)
	}
}

var particular = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|localhost)?:\d+|vm-\d+|\?timeout=\w+`)

// withoutNames returns the text of an error without what differs from one VM to the next.
func withoutNames(err error) string {
	text := particular.ReplaceAllString(err.Error(), "*")
	return strings.TrimSpace(text[:min(len(text), 300)])
}
