package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/poll"
)

// probe is the image of the tests' containers.
const probe = "docker.io/library/probe:1"

// archived has it, for further nodes.
var archived string

// shared is the node of most tests; each test has a namespace of its own. It is nil where the machine cannot have one.
var shared *Node

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if Incapable() != nil {
		return m.Run(), nil // each test says why it is skipped
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := cluster.Dir("kiln-node-images")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if shared, err = Run(ctx, Options{}); err != nil {
		return 0, err
	}
	archived = filepath.Join(dir, "probe.tar")
	if err = Program(ctx, "./test/node/probe", probe, archived); err == nil {
		err = shared.ImportImage(ctx, archived)
	}
	if err == nil {
		code = m.Run()
	}
	if code != 0 || err != nil {
		fmt.Fprintln(os.Stderr, shared.Logs())
	}
	if failed := shared.Close(); err == nil {
		err = failed
	}
	return code, err
}

// kubectl runs in a namespace, and fails the test if it does.
func kubectl(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := shared.Kubectl(t.Context(), append([]string{"--namespace", namespace}, args...)...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// namespace makes one with objects, which are deleted at the end of the test.
func namespace(t *testing.T, name, objects string) {
	t.Helper()
	kubectl(t, "default", "create", "namespace", name)
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, name, "apply", "-f", file)
	t.Cleanup(func() {
		if t.Failed() {
			events, _ := shared.Kubectl(context.Background(), "--namespace", name, "get", "events,pods", "-o", "wide")
			t.Log(events)
		}
		if out, err := shared.Kubectl(context.Background(), "delete", "namespace", name, "--wait=false"); err != nil {
			t.Error(err, out)
		}
	})
}

// running waits until a pod is ready.
func running(t *testing.T, namespace, pod string) {
	t.Helper()
	kubectl(t, namespace, "wait", "--for=condition=Ready", "--timeout=120s", "pod/"+pod)
}

// eventually polls for two minutes: machines are busy.
func eventually(t *testing.T, what string, check func() (seen string, ok bool)) {
	t.Helper()
	var seen string
	if !poll.Until(2*time.Minute, func() (ok bool) {
		seen, ok = check()
		return ok
	}) {
		t.Fatalf("not within two minutes: %s; last seen: %s", what, seen)
	}
}

func TestReady(t *testing.T) {
	Require(t)
	out := kubectl(t, "default", "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion}{"\n"}{end}`)
	if !strings.Contains(out, "node-1 v1.") {
		t.Errorf("want node-1 with its version, got %q", out)
	}
	t.Logf("ms from start to: %v", shared.Milliseconds)
}
