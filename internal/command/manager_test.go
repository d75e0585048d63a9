package command

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// TestOwnWarnings: warnings of the API server are for people. A process that reads a deprecated kind for its owners logs none, and none about its own access.
func TestOwnWarnings(t *testing.T) {
	var lines bytes.Buffer
	klog.SetLogger(logr.FromSlogHandler(newLogHandler(&lines, 0)))
	t.Cleanup(klog.ClearLogger)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "presets are deprecated"`)
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{"clusters": [{"name": "a", "cluster": {"server": "` + server.URL + `"}}], "contexts": [{"name": "a", "context": {"cluster": "a"}}],
		"current-context": "a"}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	access, err := (&Process{Kubeconfig: file}).readAccess()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.RESTClient().Get().AbsPath("/api").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Process{}).readAccess(); !errors.Is(err, rest.ErrNotInCluster) {
		t.Errorf("without a kubeconfig and a pod: %v", err)
	}
	if lines.Len() > 0 {
		t.Errorf("the log has %s", lines.String())
	}
}
