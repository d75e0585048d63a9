package snapshots

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// TestHangingAgents: an agent that does not answer keeps no worker, and a tenant asks a few at a time.
func TestHangingAgents(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, append(storage(), talking())...)
	agent := &fakeAgent{refuses: context.DeadlineExceeded}
	c.controller.Agent = agent
	var open []func()
	c.controller.asks.begin = func(work func()) { open = append(open, work) }
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.step(c.driver)
	if after, err := c.controller.snapshot(t.Context(), at("s")); after != answerPoll || err != nil || len(open) != 1 ||
		!strings.HasPrefix(c.quiet(), "Unknown Freezing") {
		t.Fatalf("%s %v, %d questions, %s", after, err, len(open), c.quiet())
	}
	open[0]()
	c.step(c.driver)
	if len(open) != 2 || !strings.HasPrefix(c.quiet(), "False FreezeFailed: context deadline exceeded") ||
		read(c, "s", &api.VirtualMachineSnapshot{}).Status.Phase != api.Succeeded {
		t.Errorf("%d questions, %s", len(open), c.quiet())
	}
	var all asks
	started := 0
	all.begin = func(func()) { started++ }
	for i := range 3 * mostAsked {
		for _, namespace := range []string{"team", "other"} {
			all.ask(question{types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}, "", freezing}, nil)
		}
	}
	if started != 2*mostAsked {
		t.Errorf("%d guests of two namespaces are asked at a time", started)
	}
}

// TestSubresources: requests have KubeVirt's form; each answer is an error in words, and a server that hangs is left.
func TestSubresources(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 100)
		n, _ := r.Body.Read(body)
		got = append(got, r.Method+" "+r.URL.Path+" "+string(body[:n]))
		switch {
		case strings.Contains(r.URL.Path, "/slow/"):
			<-r.Context().Done()
		case strings.Contains(r.URL.Path, "/refuses/"):
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no agent","reason":"Conflict","code":409}`)
		case strings.Contains(r.URL.Path, "/absent/"):
			http.NotFound(w, r)
		case strings.Contains(r.URL.Path, "/down/"):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	agent, err := NewSubresources(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(agent.Freeze(t.Context(), at("web"), 90*time.Second), agent.Thaw(t.Context(), at("web"))); err != nil {
		t.Fatal(err)
	}
	const base = "PUT /apis/subresources.kubevirt.io/v1/namespaces/team/virtualmachineinstances/web/"
	if diff := cmp.Diff([]string{base + `freeze {"unfreezeTimeout":"1m30s"}`, base + "unfreeze "}, got); diff != "" {
		t.Error(diff)
	}
	for name, words := range map[string]string{"refuses": "no agent", "absent": "could not find the requested resource", "down": "unable to handle the request",
		"slow": "deadline exceeded", "..": "invalid"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		got = nil
		if err := agent.Freeze(ctx, at(name), time.Second); err == nil || !strings.Contains(err.Error(), words) || len(got) > 1 {
			t.Errorf("%s: %v, %d requests", name, err, len(got))
		}
		cancel()
	}
}
