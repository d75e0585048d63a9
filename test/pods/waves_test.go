package pods

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kilnvm/kiln/test/nightly"
)

// idle returns a pod under the profile 'restricted' that does nothing. It uses the image of the processes that keep the pods' namespaces.
func idle(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: true
  securityContext: {runAsNonRoot: true, runAsUser: 107, runAsGroup: 107, fsGroup: 107, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: compute
    image: docker.io/library/pause:1
    resources: {requests: {cpu: 10m, memory: 16Mi}}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`, name)
}

const (
	wave = 10
	// alone is the number of guests that are started one after the other, before the waves.
	alone = 5
)

// TestWaves: VMS guests (default 10) start in waves of ten, and none is stuck. It prints their stages beside the stages of as many pods that do nothing, and
// the requests that a start costs the API server.
func TestWaves(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "waves")
	w := n.stopwatch()
	count := number("VMS", 10)
	for i := range alone {
		w.start(idlePod, fmt.Sprintf("idle-alone-%d", i))
		w.start(smallest, fmt.Sprintf("vm-alone-%d", i))
	}
	w.compare(t, "alone", "vm-alone-", "idle-alone-", alone)
	for _, kind := range []startable{idlePod, smallest} {
		before := n.requests()
		for first := 0; first < count; first += wave {
			var names []string
			for i := first; i < min(first+wave, count); i++ {
				names = append(names, fmt.Sprintf("%s-wave-%d", kind.prefix, i))
			}
			w.start(kind, names...)
		}
		n.requests().log(t, before, kind.prefix, count)
	}
	w.compare(t, "in waves of ten", "vm-wave-", "idle-wave-", count)
}

// startable is a sort of object, and the stage that says that it has started.
type startable struct {
	prefix, last string
	object       func(name string) string
}

var idlePod, smallest = startable{"idle", "container", idle}, startable{"vm", "running", firmwareOnly}

// start creates objects at once, and waits until each has started.
func (w *stopwatch) start(kind startable, names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.note(name, "created", time.Now())
		w.create(kind.object(name))
	}
	for _, name := range names {
		w.t.eventually(name+" is "+kind.last, func() (string, bool) {
			_, reached := w.at(name, kind.last)
			return fmt.Sprint(w.of(name)), reached
		})
	}
}

// compare prints the medians of the stages of two sorts of objects.
func (w *stopwatch) compare(t *testing.T, what, guests, pods string, count int) {
	t.Helper()
	none := w.median(pods, "container", count)
	started := w.median(guests, "domain", count)
	t.Logf("%s, %d guests: from create to domain started %.2f s (slowest %.2f s), to container started of a pod that does nothing %.2f s (slowest %.2f s): "+
		"ratio %.2f, %.2f s more", what, count, started.Seconds(), w.slowest(guests, "domain", count).Seconds(), none.Seconds(),
		w.slowest(pods, "container", count).Seconds(), float64(started)/float64(none), (started - none).Seconds())
	for _, stage := range stages {
		t.Logf("  %-10s %6.2f s   %6.2f s", stage, w.median(guests, stage, count).Seconds(), w.median(pods, stage, count).Seconds())
	}
}

// median returns the median time from create to a stage; 0 if these objects do not have the stage.
func (w *stopwatch) median(prefix, stage string, count int) time.Duration {
	all := w.times(prefix, stage, count)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)/2]
}

func (w *stopwatch) slowest(prefix, stage string, count int) time.Duration {
	all := w.times(prefix, stage, count)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

func (w *stopwatch) times(prefix, stage string, count int) (all []time.Duration) {
	for i := range count {
		name := fmt.Sprintf("%s%d", prefix, i)
		created, _ := w.at(name, "created")
		if at, reached := w.at(name, stage); reached {
			all = append(all, at.Sub(created))
		}
	}
	slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return all
}

// create sends one object.
func (w *stopwatch) create(text string) {
	w.t.Helper()
	object := parse(w.t, text)
	kind := podKind
	if object.GetKind() == "VirtualMachine" {
		kind = vmKind
	}
	if _, err := w.client.Resource(kind).Namespace(w.t.namespace).Create(context.WithoutCancel(w.t.Context()), object, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// reached are the stages that an object shows.
func reached(object *unstructured.Unstructured) (name string, stages []string) {
	name = object.GetName()
	has := func(fields ...string) bool {
		_, found, _ := unstructured.NestedFieldNoCopy(object.Object, fields...)
		return found
	}
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(object.Object, fields...)
		return s
	}
	switch object.GetKind() {
	case "VirtualMachineInstance":
		stages = append(stages, "vmi")
		if text("status", "phase") == "Running" {
			stages = append(stages, "running")
		}
	case "Pod":
		name = trimGuest(name)
		stages = append(stages, "pod")
		if has("spec", "nodeName") {
			stages = append(stages, "scheduled")
		}
		statuses, _, _ := unstructured.NestedSlice(object.Object, "status", "containerStatuses")
		for _, status := range statuses {
			fields, _ := status.(map[string]any)
			if _, found, _ := unstructured.NestedMap(fields, "state", "running"); found {
				stages = append(stages, "container")
			}
		}
	case "GuestPod":
		stages = append(stages, "guestpod")
		if has("status", "facts") {
			stages = append(stages, "facts")
		}
		if has("spec", "hardware") {
			stages = append(stages, "hardware")
		}
		if text("status", "domain", "state") == "Running" {
			stages = append(stages, "domain")
		}
	}
	return name, stages
}
