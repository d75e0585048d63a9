// Package e2e drives Kiln from outside: the real kubectl against a real API server that calls the real webhook.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/poll"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// shared is the cluster of all tests; each test has a namespace of its own.
var shared *cluster.Cluster

// startTimeout bounds the start, which takes a minute when the programs must be built.
const startTimeout = 10 * time.Minute

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, err
	}
	dir, err := cluster.Dir("kiln-e2e")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	shared, err = cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Replicas: 2})
	if err != nil {
		return 0, err
	}
	if err := shared.Catalog(ctx); err != nil {
		return 0, fmt.Errorf("%w\n%s\n%w", err, shared.Logs(), shared.Close())
	}
	code = m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, shared.Logs())
	}
	err = used.note(shared)
	if flag.Lookup("test.run").Value.String() == "" && code == 0 {
		err = errors.Join(err, used.check(shared))
	}
	return code, errors.Join(err, shared.Close())
}

// space is a namespace for one test.
type space struct {
	*testing.T
	on   *cluster.Cluster
	name string
}

func newSpace(t *testing.T) space {
	t.Helper()
	t.Parallel()
	return newSpaceOn(t, shared)
}

func newSpaceOn(t *testing.T, on *cluster.Cluster) space {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	// A test that runs twice (-count) must not meet its own namespace, which is still going away.
	name = fmt.Sprintf("%s-%s", name[:min(len(name), 40)], strconv.FormatInt(time.Now().UnixNano(), 36))
	s := space{t, on, name}
	if err := on.MakeNamespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = on.RemoveNamespace(context.Background(), name) })
	return s
}

// answer is the output of a command and its error.
type answer struct {
	stdout, stderr string
	err            error
}

// kubectl runs a command in the namespace of the test. Trap: 'config set-context' of kubectl 1.34 has no -n.
func (s space) kubectl(input string, args ...string) answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	stdout, stderr, err := s.on.Kubectl(ctx, input, append([]string{"--namespace", s.name}, args...)...)
	return answer{stdout, stderr, err}
}

// kubectlAfter is for cleaning up, when the test's own context has ended.
func (s space) kubectlAfter(args ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	stdout, stderr, err := s.on.Kubectl(ctx, "", append([]string{"--namespace", s.name}, args...)...)
	return answer{stdout, stderr, err}
}

func (s space) must(a answer) answer {
	s.Helper()
	if a.err != nil {
		s.Fatalf("%v\n%s%s", a.err, a.stdout, a.stderr)
	}
	return a
}

// established waits until the API server serves a custom resource.
func (s space) established(definition string) {
	s.Helper()
	if err := cluster.Established(s.Context(), s.on.Kubeconfig, definition); err != nil {
		s.Fatal(err)
	}
}

// eventually waits for what a controller does.
func (s space) eventually(what string, done func() bool) {
	s.Helper()
	if !s.soon(done) {
		s.Fatalf("did not come to pass: %s", what)
	}
}

func (s space) soon(done func() bool) bool { return poll.Until(time.Minute, done) }

// field reads a nested value, nil when it is not there.
func field(object *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	return value
}

func mustJSON(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	raw, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// vm is a halted VM of our catalog with changes. No machine of these tests takes it unless the node selector is changed.
func vm(name string, changes ...string) string {
	var out bytes.Buffer
	fmt.Fprintf(&out, `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s}
spec:
  runStrategy: Halted
  instancetype: {name: small}
  preference: {name: linux.sample}
  template:
    spec:
      nodeSelector: {machine: none}
      domain:
        devices:
          disks: [{name: data}]
          interfaces: [{name: default, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]
`, name)
	text := out.String()
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			panic("nothing to change: " + changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return text
}
