package pods

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// number of an environment variable, or the default.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

func trimGuest(pod string) string { return strings.TrimPrefix(pod, "guest-") }

// stages of a start, in their usual order. A pod that does nothing has the stages pod, scheduled and container. kubelet reports a container after the
// launcher in it has begun to work.
var stages = []string{"vmi", "pod", "scheduled", "guestpod", "container", "facts", "hardware", "domain", "running"}

// stopwatch notes when a watch of the namespace first shows a stage. The times of objects have seconds alone.
type stopwatch struct {
	t      *tenant
	client dynamic.Interface
	mutex  sync.Mutex
	seen   map[string]map[string]time.Time
}

func (n *tenant) stopwatch() *stopwatch {
	n.Helper()
	w := &stopwatch{t: n, client: admin(n), seen: map[string]map[string]time.Time{}}
	for _, kind := range []schema.GroupVersionResource{vmiKind, podKind, guestPodKind} {
		events, err := w.client.Resource(kind).Namespace(n.namespace).Watch(n.Context(), metav1.ListOptions{})
		if err != nil {
			n.Fatal(err)
		}
		n.Cleanup(events.Stop)
		go func() {
			for event := range events.ResultChan() {
				now := time.Now()
				if object, is := event.Object.(*unstructured.Unstructured); is {
					name, reached := reached(object)
					for _, stage := range reached {
						w.note(name, stage, now)
					}
				}
			}
		}()
	}
	return w
}

// note keeps the first time.
func (w *stopwatch) note(name, stage string, at time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.seen[name] == nil {
		w.seen[name] = map[string]time.Time{}
	}
	if _, noted := w.seen[name][stage]; !noted {
		w.seen[name][stage] = at
	}
}

func (w *stopwatch) at(name, stage string) (time.Time, bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	at, is := w.seen[name][stage]
	return at, is
}

// of returns the stages that an object has reached.
func (w *stopwatch) of(name string) []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Sorted(maps.Keys(w.seen[name]))
}

// counts are the requests that the API server has answered, by verb and resource.
type counts map[string]float64

var requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{([^}]*)\} (\S+)$`)

// apart are resources that are written all the time, whether guests start or not.
var apart = []string{"leases", "nodes"}

// requests reads the metrics of the API server.
func (n *tenant) requests() counts {
	n.Helper()
	text, err := shared.Kubectl(context.WithoutCancel(n.Context()), "get", "--raw", "/metrics")
	if err != nil {
		n.Fatal(err)
	}
	all := counts{}
	for _, match := range requestTotal.FindAllStringSubmatch(text, -1) {
		labels := map[string]string{}
		for _, pair := range strings.Split(match[1], ",") {
			key, value, _ := strings.Cut(pair, "=")
			labels[key] = strings.Trim(value, `"`)
		}
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil || labels["resource"] == "" || slices.Contains(apart, labels["resource"]) {
			continue
		}
		if labels["verb"] == "WATCH" && labels["resource"] != "guestpods" {
			continue // an informer's, which ends and begins by the clock
		}
		name := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			name += "/" + labels["subresource"]
		}
		all[name] += value
	}
	return all
}

// log prints the difference for each start.
func (c counts) log(t testing.TB, before counts, what string, starts int) {
	t.Helper()
	var sum float64
	lines := ""
	for _, name := range slices.Sorted(maps.Keys(c)) {
		each := (c[name] - before[name]) / float64(starts)
		if each < 0.2 {
			continue // of controllers that resynchronise
		}
		sum += each
		lines += fmt.Sprintf("\n  %-45s %5.1f", name, each)
	}
	t.Logf("%s: %.1f requests of the API server a start%s", what, sum, lines)
}
