package quiesce

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestPendingRequestsAreBounded: a tenant whose guests do not answer has a few pending requests, and other tenants have theirs.
func TestPendingRequestsAreBounded(t *testing.T) {
	var all Requests
	started := 0
	all.Go = func(func()) { started++ }
	for i := range 3 * maxPendingPerNamespace {
		for _, namespace := range []string{"team", "other"} {
			_, _ = all.send(request{types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}, "", actionFreeze}, nil)
		}
	}
	if started != 2*maxPendingPerNamespace {
		t.Errorf("%d guests of two namespaces are asked at a time", started)
	}
}

// TestRequestsEndWithTheManager: when the manager stops, the requests to guests end, and Start returns after the last one.
func TestRequestsEndWithTheManager(t *testing.T) {
	var all Requests
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- all.Start(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		all.mutex.Lock()
		started := all.managerContext != nil
		all.mutex.Unlock()
		if started {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("Start does not begin")
		}
	}
	ended := make(chan error, 1)
	if _, err := all.send(request{guest: guest("web")}, func(ctx context.Context) error {
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped:
		t.Fatal("Start returns while the manager runs")
	case err := <-ended:
		t.Fatalf("the request ends while the manager runs: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	stop()
	for range 2 {
		select {
		case err := <-stopped:
			if err != nil {
				t.Error(err)
			}
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the request ends with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a request outlives the manager")
		}
	}
}
