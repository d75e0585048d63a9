package pods

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recording has the values that a field has had in the objects of one kind in a namespace, in their order. A value that comes twice in a row is there once.
type recording struct {
	mutex sync.Mutex
	all   []string
}

// record watches the objects of a kind until the end of the test.
func (n *tenant) record(kind schema.GroupVersionResource, field ...string) *recording {
	n.Helper()
	watch, err := admin(n).Resource(kind).Namespace(n.namespace).Watch(n.Context(), metav1.ListOptions{})
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(watch.Stop)
	r := &recording{}
	go func() {
		for event := range watch.ResultChan() {
			if object, is := event.Object.(*unstructured.Unstructured); is {
				value, _, _ := unstructured.NestedString(object.Object, field...)
				r.add(value)
			}
		}
	}()
	return r
}

func (r *recording) add(value string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.all) == 0 || r.all[len(r.all)-1] != value {
		r.all = append(r.all, value)
	}
}

func (r *recording) values() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.all)
}
