package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

var (
	machines  = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	guests    = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	revisions = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}
)

// seen notes when each VM of a namespace became complete, as a watch told it.
type seen struct {
	mutex sync.Mutex
	vms   map[string]time.Time
	vmis  map[string]time.Time
	// pinned are the pins of a VM when it was first complete. Nothing may change them.
	pinned map[string]string
	end    context.CancelFunc
}

func (s *stage) watchObjects(ctx context.Context, space string) (*seen, error) {
	ctx, end := context.WithCancel(ctx)
	n := &seen{vms: map[string]time.Time{}, vmis: map[string]time.Time{}, pinned: map[string]string{}, end: end}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(s.dynamic, 0, space, nil)
	note := func(times map[string]time.Time) func(any) {
		return func(object any) {
			u, ok := object.(*unstructured.Unstructured)
			if !ok || missingParts(u) != "" {
				return
			}
			n.mutex.Lock()
			defer n.mutex.Unlock()
			if !times[u.GetName()].IsZero() {
				return
			}
			times[u.GetName()] = time.Now()
			if u.GetKind() == "VirtualMachine" {
				n.pinned[u.GetName()] = fmt.Sprint(pinsOf(u))
			}
		}
	}
	for resource, times := range map[schema.GroupVersionResource]map[string]time.Time{machines: n.vms, guests: n.vmis} {
		record := note(times)
		handler := cache.ResourceEventHandlerFuncs{AddFunc: record, UpdateFunc: func(_, object any) { record(object) }}
		if _, err := factory.ForResource(resource).Informer().AddEventHandler(handler); err != nil {
			end()
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return n, nil
}

func (n *seen) stop() { n.end() }

// completeAt returns the time at which a VM, and its VMI if it should have one, was first seen complete; zero if it never was.
func (n *seen) completeAt(name string) time.Time {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if guest := n.vmis[name]; !guest.IsZero() && !n.vms[name].IsZero() {
		return laterOf(n.vms[name], guest)
	}
	return n.vms[name]
}

// firstPins are those that a VM had when it was first complete; empty if it never was.
func (n *seen) firstPins(name string) string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.pinned[name]
}

// missingParts says what a VM or VMI lacks; empty if nothing.
func missingParts(object *unstructured.Unstructured) string {
	pinned := pinsOf(object)
	for _, key := range []string{"instancetype", "preference", "presets", "configuration"} {
		if _, found := pinned[key]; !found {
			return "no pin of " + key
		}
	}
	if object.GetAnnotations()["kilnvm.io/identity"] == "" {
		return "no identity"
	}
	field := "printableStatus"
	if object.GetKind() == "VirtualMachineInstance" {
		field = "phase"
	}
	if text, _, _ := unstructured.NestedString(object.Object, "status", field); text == "" {
		return "no status." + field
	}
	return ""
}

func pinsOf(object *unstructured.Unstructured) (pinned map[string]any) {
	_ = json.Unmarshal([]byte(object.GetAnnotations()["kilnvm.io/pins"]), &pinned) // without the annotation there are none
	return pinned
}

// collectNames collects the names of revisions of a pin.
func collectNames(pin any, into map[string]bool) {
	switch pin := pin.(type) {
	case string:
		into[pin] = true
	case []any:
		for _, part := range pin {
			collectNames(part, into)
		}
	case map[string]any:
		for _, part := range pin {
			collectNames(part, into)
		}
	}
}

// listObjects gets all objects of a resource in a namespace.
func (s *stage) listObjects(ctx context.Context, space string, resource schema.GroupVersionResource) (map[string]*unstructured.Unstructured, error) {
	all, err := s.dynamic.Resource(resource).Namespace(space).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	found := map[string]*unstructured.Unstructured{}
	for i := range all.Items {
		found[all.Items[i].GetName()] = &all.Items[i]
	}
	return found, nil
}
