package admission

import (
	"context"
	"encoding/json"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sharing gives out its objects themselves to a caller that asks for no copies, as a manager's cache does.
type sharing struct {
	client.Reader
	objects []*unstructured.Unstructured
	// shared counts the objects that were given out.
	shared int
}

func (s *sharing) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	var asked client.GetOptions
	asked.ApplyOptions(options)
	untyped, ok := into.(*unstructured.Unstructured)
	if !ok || asked.UnsafeDisableDeepCopy == nil || !*asked.UnsafeDisableDeepCopy {
		return s.Reader.Get(ctx, key, into, options...)
	}
	for _, object := range s.objects {
		if client.ObjectKeyFromObject(object) == key && object.GetKind() == untyped.GetKind() {
			*untyped = *object
			s.shared++
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: untyped.GetKind()}, key.Name)
}

// TestNothingWritesIntoTheCache: a review reads instancetypes and preferences without copies, and leaves them as they were. One write would
// change them for every later review.
func TestNothingWritesIntoTheCache(t *testing.T) {
	const (
		size = "{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterInstancetype, spec: {cpu: {guest: 2}, memory: {guest: 1Gi},\n" +
			"  nodeSelector: {a: b}, annotations: {x: 'text'}}, metadata: {name: small, uid: u, resourceVersion: '1', generation: 1, annotations: {\n" +
			"  kilnvm.io/deprecated: '2020-01-01', kilnvm.io/replacement: big}, labels: {instancetype.kubevirt.io/deprecated: 'true'}}}"
		taste = "{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterPreference, metadata: {name: taste, uid: p, resourceVersion: '1'},\n" +
			"  spec: {annotations: {p: q}, clock: {preferredTimer: {hpet: {present: false}}}, devices: {preferredDiskBus: virtio},\n" +
			"  cpu: {preferredCPUTopology: cores, preferredCPUFeatures: [{name: vmx}]}, requirements: {cpu: {guest: 1}}}}"
		machine = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: team}, spec: {runStrategy: Always,\n" +
			"  instancetype: {name: small}, preference: {name: taste}, template: {spec: {domain: {devices: {disks: [{name: a}]}},\n" +
			"  volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}}}}"
	)
	c := newCluster(t, size, taste)
	cache := &sharing{Reader: c.Reviewer.Resolver.Cached}
	for _, document := range []string{size, taste} {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(toJSON(t, document)); err != nil {
			t.Fatal(err)
		}
		cache.objects = append(cache.objects, object)
	}
	c.Reviewer.Resolver.Cached = cache
	before := textOf(t, cache.objects)
	for _, hook := range []string{MutateVM, ValidateVM} {
		if response := ask(t, c.Hooks()[hook], create(t, machine)); !response.Allowed {
			t.Errorf("%s: refused: %+v", hook, response.Result)
		}
		ask(t, c.Hooks()[hook], update(t, machine, machine))
	}
	if after := textOf(t, cache.objects); after != before || cache.shared == 0 {
		t.Errorf("of %d shared objects, the cache holds\n%s\nwant\n%s", cache.shared, after, before)
	}
}

func textOf(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
