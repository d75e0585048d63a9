// Package subresources calls subresources.kubevirt.io as its users do: by Kubernetes' API server, which passes requests on to Kiln's.
package subresources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/poll"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	v1 "kubevirt.io/api/core/v1"
)

// shared is the cluster of all tests; each test has a namespace of its own.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "subresources:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, err
	}
	dir, err := cluster.Dir("kiln-subresources")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	shared, err = cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Overlay: "overlays/apiserver"})
	if err != nil {
		return 0, err
	}
	if err := shared.Catalog(ctx); err != nil {
		return 0, fmt.Errorf("%w\n%s\n%w", err, shared.Logs(), shared.Close())
	}
	if code = m.Run(); code != 0 {
		fmt.Fprintln(os.Stderr, shared.Logs())
	}
	return code, shared.Close()
}

// space is a namespace for one test.
type space struct {
	*testing.T
	name string
	// user makes the requests; empty for the administrator.
	user string
}

func newSpace(t *testing.T) space {
	t.Helper()
	t.Parallel()
	return spaceOf(t)
}

func spaceOf(t *testing.T) space {
	t.Helper()
	name := strings.NewReplacer("/", "-", "=", "-").Replace(strings.ToLower(t.Name())) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := shared.MakeNamespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.RemoveNamespace(context.Background(), name) })
	return space{T: t, name: name}
}

// kubectl runs kubectl in the namespace of the test, and fails it with an error.
func (s space) kubectl(input string, args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	stdout, stderr, err := shared.Kubectl(ctx, input, append([]string{"--namespace", s.name}, args...)...)
	if err != nil {
		s.Fatalf("kubectl %v: %v\n%s%s", args, err, stdout, stderr)
	}
	return stdout
}

// reply is an answer of the API.
type reply struct {
	code     int
	text     string
	status   metav1.Status
	warnings []string
}

// call sends a request for a subresource: machines/web/start, or a path below the version.
func (s space) call(verb, path, body string) reply {
	s.Helper()
	access, err := clientcmd.BuildConfigFromFlags("", shared.Kubeconfig)
	if err != nil {
		s.Fatal(err)
	}
	access.Impersonate.UserName = s.user
	client, err := rest.HTTPClientFor(access)
	if err != nil {
		s.Fatal(err)
	}
	request, err := http.NewRequestWithContext(s.Context(), verb, access.Host+s.at(path), bytes.NewReader([]byte(body)))
	if err != nil {
		s.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	answer := reply{code: response.StatusCode, text: string(text), warnings: response.Header["Warning"]}
	_ = json.Unmarshal(text, &answer.status) // an answer that is no Status has none
	return answer
}

// at is the URL path of a subresource.
func (s space) at(path string) string {
	base := "/apis/subresources.kubevirt.io/v1"
	switch kind, rest, _ := strings.Cut(path, "/"); kind {
	case "vm":
		return base + "/namespaces/" + s.name + "/virtualmachines/" + rest
	case "vmi":
		return base + "/namespaces/" + s.name + "/virtualmachineinstances/" + rest
	case "namespace":
		return base + "/namespaces/" + s.name + "/" + rest
	}
	return base + "/" + path
}

// expect calls, and compares status code and words.
func (s space) expect(verb, path, body string, code int, words string) reply {
	s.Helper()
	answer := s.call(verb, path, body)
	if answer.code != code || !strings.Contains(answer.text, words) {
		s.Errorf("%s %s %.80s: status %d, want %d with '%s': %.300s", verb, path, body, answer.code, code, words, answer.text)
	}
	return answer
}

// read reads an object.
func read[T any](s space, kind, name string) *T {
	s.Helper()
	object := new(T)
	if err := json.Unmarshal([]byte(s.kubectl("", "get", kind, name, "-o", "json")), object); err != nil {
		s.Fatal(err)
	}
	return object
}

// vm reads a VM.
func (s space) vm(name string) *v1.VirtualMachine {
	s.Helper()
	return read[v1.VirtualMachine](s, "vm", name)
}

// vmi waits until a VM has a VMI with another UID than the VMI before, and returns it.
func (s space) vmi(name string, before *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	s.Helper()
	found := &v1.VirtualMachineInstance{}
	s.eventually("VM '"+name+"' has a new VMI", func() bool {
		text := s.kubectl("", "get", "vmi", name, "--ignore-not-found", "-o", "json")
		return json.Unmarshal([]byte(text), found) == nil && found.UID != "" && (before == nil || found.UID != before.UID)
	})
	return found
}

// gone waits until a VM has no VMI.
func (s space) gone(name string) {
	s.Helper()
	s.eventually("VM '"+name+"' has no VMI", func() bool { return s.kubectl("", "get", "vmi", name, "--ignore-not-found", "-o", "name") == "" })
}

// eventually waits until something is so. States say how it is instead.
func (s space) eventually(what string, done func() bool, states ...func() string) {
	s.Helper()
	if poll.Until(time.Minute, done) {
		return
	}
	for _, state := range states {
		what += "; " + state()
	}
	s.Fatalf("did not come to pass: %s", what)
}

// phase writes the phase of a VMI, as its launcher would.
func (s space) phase(name string, phase v1.VirtualMachineInstancePhase, conditions ...v1.VirtualMachineInstanceConditionType) {
	s.Helper()
	var list []string
	for _, kind := range conditions {
		list = append(list, fmt.Sprintf(`{"type":%q,"status":"True"}`, kind))
	}
	s.kubectl("", "patch", "vmi", name, "--subresource=status", "--type=merge",
		fmt.Sprintf(`-p={"status":{"phase":%q,"conditions":[%s]}}`, phase, strings.Join(list, ",")))
}

// make creates a VM of the catalog with a run strategy.
func (s space) make(name string, strategy v1.VirtualMachineRunStrategy) {
	s.Helper()
	s.makeOf(name, strategy, "{name: small}")
}

// makeOf creates a VM with a run strategy and an instancetype.
func (s space) makeOf(name string, strategy v1.VirtualMachineRunStrategy, instancetype string) {
	s.Helper()
	s.kubectl(fmt.Sprintf(`apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s}
spec:
  runStrategy: %s
  instancetype: %s
  preference: {name: linux.sample}
  template:
    spec:
      terminationGracePeriodSeconds: 30
      domain:
        devices:
          disks: [{name: data}]
          interfaces: [{name: default, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]
`, name, strategy, instancetype), "create", "-f", "-")
}
