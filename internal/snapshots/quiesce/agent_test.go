package quiesce

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
)

// TestSubresourceAgent: requests have KubeVirt's form; each answer is an error in words, and a server that hangs is left.
func TestSubresourceAgent(t *testing.T) {
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
	agent, err := NewSubresourceAgent(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(agent.Freeze(t.Context(), guest("web"), 90*time.Second), agent.Thaw(t.Context(), guest("web"))); err != nil {
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
		if err := agent.Freeze(ctx, guest(name), time.Second); err == nil || !strings.Contains(err.Error(), words) || len(got) > 1 {
			t.Errorf("%s: %v, %d requests", name, err, len(got))
		}
		cancel()
	}
}

func guest(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: name}
}
