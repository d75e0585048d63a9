package tutorials

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kilnvm/kiln/test/cluster"
)

// written begins the names of the writer's objects.
const written = "written-"

// writer creates, edits and deletes VMs and VMIs in all namespaces until it is ended.
type writer struct {
	t      *testing.T
	on     *cluster.Beside
	cancel context.CancelFunc
	ended  chan struct{}

	mutex                    sync.Mutex
	failed                   []string
	created, edited, deleted int
	longest                  time.Duration // of the creates
}

// kept is how many objects of the writer's exist at a time.
const kept = 30

func startWriter(t *testing.T, on *cluster.Beside) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{t: t, on: on, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		var objects []*unstructured.Unstructured
		for i := 0; ctx.Err() == nil; i++ {
			if made := w.create(i); made != nil {
				w.edit(made)
				objects = append(objects, made)
			}
			if len(objects) > kept {
				w.remove(objects[0])
				objects = objects[1:]
			}
			time.Sleep(100 * time.Millisecond) // the other half of the machine is for what is tested
		}
		for _, object := range objects {
			w.remove(object)
		}
	}()
	t.Cleanup(w.end)
	return w
}

// end ends the writer, and waits until its objects are asked to go.
func (w *writer) end() {
	w.cancel()
	<-w.ended
}

// note counts a write, or keeps its error.
func (w *writer) note(what string, count *int, object *unstructured.Unstructured, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err == nil {
		*count++
		return
	}
	w.failed = append(w.failed, fmt.Sprintf("%s: %s of %s %s/%s: %v", time.Now().UTC().Format(time.TimeOnly), what, object.GetKind(), object.GetNamespace(),
		object.GetName(), err))
}

func (w *writer) create(i int) *unstructured.Unstructured {
	object, err := object(kinds[i%len(kinds)], namespaces[i%len(namespaces)], fmt.Sprintf("%s%05d", written, i))
	if err != nil {
		panic(err) // the text is of this package
	}
	began := time.Now()
	_, err = w.on.Create(context.Background(), object)
	w.note("create", &w.created, object, err)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.longest = max(w.longest, time.Since(began))
	if err != nil {
		return nil
	}
	return object
}

// edit changes the template of a VM, and the labels of a VMI.
func (w *writer) edit(object *unstructured.Unstructured) {
	patch := `{"spec": {"template": {"metadata": {"labels": {"edited": "yes"}}}}}`
	if object.GetKind() == "VirtualMachineInstance" {
		patch = `{"metadata": {"labels": {"edited": "yes"}}}`
	}
	w.note("edit", &w.edited, object, w.on.MergePatch(context.Background(), in(object), object.GetName(), patch))
}

func (w *writer) remove(object *unstructured.Unstructured) {
	w.note("deletion", &w.deleted, object, w.on.Delete(context.Background(), in(object), object.GetName()))
}

func in(object *unstructured.Unstructured) cluster.In {
	return cluster.In{Namespace: object.GetNamespace(), Kind: map[string]string{"VirtualMachine": "vm", "VirtualMachineInstance": "vmi"}[object.GetKind()]}
}

// count returns how many objects were created.
func (w *writer) count() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.created
}

// failures returns what failed.
func (w *writer) failures() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.failed)
}
