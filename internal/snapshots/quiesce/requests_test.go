package quiesce

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
)

// TestPendingRequestsAreBounded: a tenant whose guests do not answer has a few pending requests, and other tenants have theirs.
func TestPendingRequestsAreBounded(t *testing.T) {
	all := NewRequests()
	started := 0
	all.Go = func(func()) { started++ }
	for i := range 3 * maxPendingPerNamespace {
		for _, namespace := range []string{"team", "other"} {
			_, _ = all.sendRequest(request{types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}, "", actionFreeze}, nil)
		}
	}
	if started != 2*maxPendingPerNamespace {
		t.Errorf("%d guests of two namespaces are asked at a time", started)
	}
}

// TestRequestsEndWithTheManager: when the manager stops, the requests to guests end, including those that were sent before Start. Start returns after the
// last one, and no request is sent afterwards.
func TestRequestsEndWithTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, ended, stopped := NewRequests(), make(chan error, 3), make(chan error, 1)
		send := func(name string) {
			if arrived, err := requests.sendRequest(request{guest: guest(name)}, func(ctx context.Context) error {
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			}); arrived || err != nil {
				t.Errorf("%s has answered: %v", name, err)
			}
		}
		send("before-start")
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		go func() { stopped <- requests.Start(ctx) }()
		synctest.Wait()
		send("running")
		synctest.Wait()
		if len(ended)+len(stopped) > 0 {
			t.Fatalf("while the manager runs, %d requests ended, and Start returned %d times", len(ended), len(stopped))
		}
		stop()
		synctest.Wait()
		if len(ended) != 2 || len(stopped) != 1 {
			t.Fatalf("the manager has stopped: %d requests ended, and Start returned %d times", len(ended), len(stopped))
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("a request ends with %v", err)
			}
		}
		send("stopped")
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("a request is sent after the manager has stopped")
		}
	})
}
