// Package beside runs Kiln beside the real KubeVirt v1.9.0: virt-api and virt-controller, what virt-operator installs, and nodes that are played. First
// KubeVirt runs without Kiln, and gives the answers that tests compare with later. Then Kiln is added.
package beside

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/poll"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// shared is the cluster of most tests; each test has a namespace of its own.
var shared *cluster.Beside

// startTimeout bounds the start. KubeVirt's programs take ten minutes where they must be built.
const startTimeout = 30 * time.Minute

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := cluster.Dir("kiln-beside")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if shared, err = start(ctx, dir, cluster.Options{Guests: "kubevirt", WebhookTimeout: 15}); err != nil {
		return 0, err
	}
	if code = m.Run(); code != 0 {
		fmt.Fprintln(os.Stderr, shared.Logs())
	}
	if flag.Lookup("test.run").Value.String() == "" && code == 0 {
		err = checkRights(shared)
	}
	return code, errors.Join(err, shared.Close())
}

// start starts KubeVirt without Kiln, in a folder.
func start(ctx context.Context, dir string, o cluster.Options) (*cluster.Beside, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	o.Root, o.Dir, o.Progress = root, dir, os.Stderr
	return cluster.StartKubeVirt(ctx, o)
}

// space is a namespace for one test.
type space struct {
	*testing.T
	on   *cluster.Beside
	name string
}

// newSpace makes a namespace in the cluster that has KubeVirt and Kiln.
func newSpace(t *testing.T) space {
	t.Helper()
	withKiln(t)
	return newSpaceOn(t, shared)
}

func newSpaceOn(t *testing.T, on *cluster.Beside) space {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	// A test that runs twice (-count) must not meet its own namespace, which is still going away.
	name = fmt.Sprintf("%s-%s", name[:min(len(name), 40)], strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := on.MakeNamespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return space{t, on, name}
}

func (s space) in(kind string) cluster.In { return cluster.In{Namespace: s.name, Kind: kind} }

// ok ends the test at an error.
func (s space) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// parsed reads an object from YAML.
func (s space) parsed(text string) *unstructured.Unstructured {
	s.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		s.Fatal(err)
	}
	return object
}

// create creates an object in the test's namespace, if its kind has one.
func (s space) create(text string) *unstructured.Unstructured {
	s.Helper()
	object := s.parsed(text)
	if !strings.Contains(object.GetKind(), "Cluster") && object.GetKind() != "CustomResourceDefinition" {
		object.SetNamespace(s.name)
	}
	stored, err := s.on.Create(s.Context(), object)
	s.ok(err)
	return stored
}

// template is a VM's template: a guest of 1 GiB that can be migrated.
const template = `{metadata: {}, spec: {domain: {cpu: {sockets: 1, cores: 1, threads: 1}, memory: {guest: 1Gi},
  devices: {disks: [{name: root, disk: {bus: virtio}}], interfaces: [{name: default, masquerade: {}}]}},
 networks: [{name: default, pod: {}}], volumes: [{name: root, containerDisk: {image: 'registry.example/guest:1'}}]}}`

// manifest is a VM with a run strategy, and further fields of the spec.
func manifest(name string, strategy v1.VirtualMachineRunStrategy, fields string) string {
	text := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + "}\n" +
		"spec:\n runStrategy: " + string(strategy) + "\n template: " + template
	if fields != "" {
		text += "\n " + fields
	}
	return text
}

// vm creates a VM.
func (s space) vm(name string, strategy v1.VirtualMachineRunStrategy, fields string) *unstructured.Unstructured {
	s.Helper()
	return s.create(manifest(name, strategy, fields))
}

// patch merges a patch into a VM, as its owner does.
func (s space) patch(name, patch string) {
	s.Helper()
	s.ok(s.on.MergePatch(s.Context(), s.in("vm"), name, patch))
}

// get reads an object.
func (s space) get(kind, name string) *unstructured.Unstructured {
	s.Helper()
	object, err := s.on.Get(s.Context(), s.in(kind), name)
	s.ok(err)
	return object
}

func as[T any](s space, object *unstructured.Unstructured) *T {
	s.Helper()
	typed := new(T)
	s.ok(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed))
	return typed
}

// machine reads a VM.
func (s space) machine(name string) *v1.VirtualMachine {
	s.Helper()
	return as[v1.VirtualMachine](s, s.get("vm", name))
}

// guest reads a VMI.
func (s space) guest(name string) *v1.VirtualMachineInstance {
	s.Helper()
	return as[v1.VirtualMachineInstance](s, s.get("vmi", name))
}

// patience bounds what a test waits for.
const patience = time.Minute

// eventually waits for what a controller does; not is what there was in its place at the end.
func (s space) eventually(what string, done func() (is bool, not any)) {
	s.Helper()
	var not any
	if poll.Until(patience, func() (is bool) {
		is, not = done()
		return is
	}) {
		return
	}
	shown, err := json.MarshalIndent(not, "", " ")
	if err != nil || string(shown) == "{}" {
		shown = fmt.Append(nil, not)
	}
	s.Fatalf("did not come to pass: %s:\n%s", what, shown)
}

// runs waits until a VM's guest runs, and returns the VMI. If UIDs are given, it waits for a VMI with another UID.
func (s space) runs(name string, other ...string) (vmi *v1.VirtualMachineInstance) {
	s.Helper()
	s.eventually(name+" runs", func() (bool, any) {
		object, err := s.on.Get(s.Context(), s.in("vmi"), name)
		if err != nil {
			return false, errors.Join(err, fmt.Errorf("VM: %v", s.machine(name).Status))
		}
		vmi = as[v1.VirtualMachineInstance](s, object)
		return vmi.Status.Phase == v1.Running && (len(other) == 0 || string(vmi.UID) != other[0]), vmi.Status
	})
	return vmi
}

// gone waits until a VM has no guest.
func (s space) gone(name string) {
	s.Helper()
	s.eventually(name+" has stopped", func() (bool, any) {
		object, err := s.on.Get(s.Context(), s.in("vmi"), name)
		return err != nil, object
	})
}

// events are the messages of a reason in the namespace.
func (s space) events(reason string) (messages []string) {
	s.Helper()
	list, err := s.on.List(s.Context(), s.in("event"), "")
	s.ok(err)
	for _, event := range list.Items {
		if found, _, _ := unstructured.NestedString(event.Object, "reason"); found == reason {
			message, _, _ := unstructured.NestedString(event.Object, "message")
			messages = append(messages, message)
		}
	}
	return messages
}

// noFight fails the test for each write of KubeVirt that was refused in its namespace since Kiln was added.
func (s space) noFight() {
	s.Helper()
	for _, refused := range s.on.Refused() {
		if strings.Contains(refused, " "+s.name+"/") {
			s.Errorf("a node's component was refused: %s", refused)
		}
	}
	for _, failure := range s.failures() {
		if s.name == before.space.name && slices.Contains(before.failures, failure) {
			continue // only virt-controller may lose a race against itself
		}
		s.Error(failure)
	}
}

// failures returns the events about writes of KubeVirt that failed.
func (s space) failures() (all []string) {
	s.Helper()
	for _, reason := range []string{
		"FailedCreate", "FailedUpdate", "HotPlugCPUError", "HotPlugVolumeError", "HotPlugNetworkInterfaceError", "MemoryHotplugError",
	} {
		for _, message := range s.events(reason) {
			all = append(all, "event "+reason+": "+message)
		}
	}
	return all
}
