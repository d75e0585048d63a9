package creates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/load/creates"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
)

// api is an API server that refuses every VM whose number ends with 3, and asks to try again.
type api struct {
	*httptest.Server
	mutex sync.Mutex
	names map[string]int
	peers map[string]bool
}

func serve(t *testing.T) *api {
	t.Helper()
	a := &api{names: map[string]int{}, peers: map[string]bool{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var vm v1.VirtualMachine
		if err := json.NewDecoder(r.Body).Decode(&vm); err != nil || r.Method != http.MethodPost ||
			r.URL.Path != "/apis/kubevirt.io/v1/namespaces/tenant/virtualmachines" {
			http.Error(w, "no create of a VM", http.StatusBadRequest)
			return
		}
		a.mutex.Lock()
		a.names[vm.Name]++
		a.peers[r.RemoteAddr] = true
		a.mutex.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(vm.Name, "3") {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Code: 500, Message: "failed calling webhook: no endpoints"})
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(vm)
	}))
	t.Cleanup(a.Close)
	return a
}

func numbered(i int) *v1.VirtualMachine {
	return creates.Kind{Namespace: "tenant", Instancetype: "u1.small", Strategy: v1.RunStrategyHalted}.VM(fmt.Sprintf("vm-%d", i))
}

// TestFailuresAreCounted: each create is sent once, and each that failed is in the result with its name and its error.
func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	a := serve(t)
	got, err := creates.Run(t.Context(), &rest.Config{Host: a.URL}, creates.Plan{Clients: 4, Total: 30, VM: numbered})
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range got.Failures() {
		failed = append(failed, f.Name)
		if !strings.Contains(f.Err.Error(), "no endpoints") {
			t.Errorf("%s failed with '%v', which is not the server's error", f.Name, f.Err)
		}
	}
	if s := got.Summary(); s.Created != 27 || s.Failed != 3 || len(failed) != 3 || s.P50 <= 0 || s.P50 > s.P99 || s.P99 > s.Max || s.PerSecond <= 0 {
		t.Errorf("summary %+v, failed %v; want 27 created, and vm-3, vm-13, vm-23 failed", s, failed)
	}
	if len(a.names) != 30 || len(a.peers) != 4 {
		t.Errorf("%d names over %d connections, want 30 over 4", len(a.names), len(a.peers))
	}
	for name, times := range a.names {
		if times != 1 {
			t.Errorf("%s was sent %d times", name, times)
		}
	}
}

// TestRate: a create that waits for its client counts from the time at which it was due.
func TestRate(t *testing.T) {
	t.Parallel()
	a := serve(t)
	got, err := creates.Run(t.Context(), &rest.Config{Host: a.URL}, creates.Plan{Clients: 2, Total: 20, Rate: 1000, VM: numbered})
	if err != nil || len(got.Creates) != 20 {
		t.Fatalf("%d creates, %v", len(got.Creates), err)
	}
	first := got.Creates[0].Due
	for _, c := range got.Creates {
		if c.Number == 0 {
			first = c.Due
		}
	}
	for _, c := range got.Creates {
		if after := c.Due.Sub(first); after != time.Duration(c.Number)*time.Millisecond {
			t.Errorf("create %d was due after %s", c.Number, after)
		}
	}
}

// TestEnd: a run without a number of creates ends with its context, and what that interrupts is no failure.
func TestEnd(t *testing.T) {
	t.Parallel()
	a := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	got, err := creates.Run(ctx, &rest.Config{Host: a.URL}, creates.Plan{Clients: 2, VM: func(i int) *v1.VirtualMachine {
		if i == 100 {
			cancel()
		}
		return numbered(i * 10) // no name ends with 3
	}})
	if err != nil || len(got.Creates) == 0 || len(got.Failures()) > 0 {
		t.Errorf("%d creates, failures %v, error %v", len(got.Creates), got.Failures(), err)
	}
}

// TestUnreachable: nobody answers, so that every create fails, and none succeeds by a wrong count.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.Close()
	got, err := creates.Run(t.Context(), &rest.Config{Host: a.URL}, creates.Plan{Total: 3, Timeout: time.Minute, VM: numbered})
	if s := got.Summary(); err != nil || s.Failed != 3 || s.Created != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
