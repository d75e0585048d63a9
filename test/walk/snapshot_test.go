package walk

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// snapshot is the state of objects, files and processes by name, as text or digest.
type snapshot = map[string]string

// processes returns the processes of the cluster and their children.
func (w *world) processes() snapshot {
	found := snapshot{}
	for name, pid := range w.on.Running() {
		found[name] = fmt.Sprint(pid)
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil || !strings.HasPrefix(name, "controlplane") {
			continue // kubectl comes and goes below the others, for their tokens
		}
		found[name+"'s"] = string(children)
	}
	return found
}

// settled is all that is not the tenant's, when nothing changes it any more.
func (w *world) settled() snapshot {
	w.Helper()
	last := w.everything()
	w.eventually("what is not the tenant's rests", func() bool {
		now := w.everything()
		same := len(changes(last, now)) == 0
		last = now
		return same
	})
	return last
}

// restless are kinds that change by themselves: leases are renewed, and events come and go.
var restless = []string{"leases", "events"}

// everything is each object that is not in the tenant's namespace, and each file of others on the machine.
func (w *world) everything() snapshot {
	w.Helper()
	found := snapshot{}
	admin := w.administrator()
	for _, r := range w.served {
		if strings.Contains(r.name, "/") || !slices.Contains(r.verbs, "list") || slices.Contains(restless, r.name) {
			continue
		}
		for _, object := range admin.list(r) {
			if object.GetNamespace() == tenantSpace || r.name == "namespaces" && object.GetName() == tenantSpace {
				continue
			}
			object.SetManagedFields(nil)
			object.SetResourceVersion("")
			raw, err := json.Marshal(object.Object)
			if err != nil {
				w.Fatal(err)
			}
			found[fmt.Sprintf("%s.%s/%s %s/%s", r.name, r.group, r.version, object.GetNamespace(), object.GetName())] = string(raw)
		}
	}
	for _, name := range hostFiles {
		content, err := os.ReadFile(filepath.Join(w.volumes, name))
		found["file "+name] = fmt.Sprintf("%x %v", sha256.Sum256(content), err)
	}
	return found
}

// list returns all objects of a resource. The API server answers 429 while it makes the storage of a CRD anew, such as after a change of its schema.
func (c caller) list(r resource) []unstructured.Unstructured {
	c.Helper()
	var got answer
	c.eventually("a list of "+r.name, func() bool {
		got = c.send(request{method: http.MethodGet, path: r.path("", "")})
		return got.status != http.StatusTooManyRequests
	})
	list := &unstructured.UnstructuredList{}
	if err := json.Unmarshal(got.body, list); got.status != http.StatusOK || err != nil {
		c.Fatalf("listing %s: %d %v", r.name, got.status, err)
	}
	return list.Items
}

// changes says what came, went or is another.
func changes(before, after snapshot) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		switch now, there := after[name]; {
		case !there:
			list = append(list, name+" is gone")
		case now != before[name]:
			list = append(list, fmt.Sprintf("%s was changed:\n%.4000s\n%.4000s", name, before[name], now))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[name]; !there {
			list = append(list, name+" is new")
		}
	}
	return list
}

// TestChanges: objects that appear, disappear or change are reported.
func TestChanges(t *testing.T) {
	before := snapshot{"a": "1", "b": "1", "c": "1"}
	if got := changes(before, before); len(got) > 0 {
		t.Errorf("the same is told to be another: %v", got)
	}
	got := changes(before, snapshot{"a": "1", "b": "2", "d": "1"})
	want := []string{"b was changed:\n1\n2", "c is gone", "d is new"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
