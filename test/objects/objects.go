// Package objects compares all objects of a cluster before and after Kiln was added beside KubeVirt.
package objects

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// Objects are all objects of a cluster as users and programs want them to be, by kind, namespace and name. What the cluster writes about itself is left out:
// statuses, versions of the store, and kinds that have nothing else.
type Objects map[string]*unstructured.Unstructured

// written are kinds that change without end, or follow from other objects.
var written = []string{"events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpoints", "endpointslices.discovery.k8s.io", "componentstatuses"}

// Read reads all objects by kubectl.
func Read(kubectl func(args ...string) (string, error)) (Objects, error) {
	out, err := kubectl("api-resources", "--verbs=list,get", "-o", "name")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var kinds []string
	for _, kind := range strings.Fields(out) {
		if !slices.Contains(written, kind) && !strings.Contains(kind, "subresources.") {
			kinds = append(kinds, kind)
		}
	}
	if out, err = kubectl("get", strings.Join(kinds, ","), "--all-namespaces", "-o", "json"); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out[:min(len(out), 2000)])
	}
	list := unstructured.UnstructuredList{}
	if err := json.Unmarshal([]byte(out[max(0, strings.IndexByte(out, '{')):]), &list); err != nil { // warnings about old kinds come before it
		return nil, err
	}
	found := Objects{}
	for i := range list.Items {
		object := &list.Items[i]
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		unstructured.RemoveNestedField(object.Object, "status")
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "kubevirt.io/heartbeat") // of a node, by virt-handler
		if object.GetKind() == "VirtualMachineInstance" {
			object.SetGeneration(0) // it counts changes of the status, too: KubeVirt's definition has no subresource for it
		}
		found[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = object
	}
	return found, nil
}

// Presence is how much of Kiln is in the cluster.
type Presence int

const (
	// Gone is all but the revisions that VMs may name, and the policy kiln-parameters, without which Kiln could not be added again.
	Gone Presence = iota
	// Removed is that the kinds are still there.
	Removed
	// Present is that Kiln is there.
	Present
)

// Differences compares objects with what they are now. It returns each difference, except what docs/explanation/beside-kubevirt.md says that Kiln changes:
// annotations below kilnvm.io/ of VMs, and rules of roles to which others are aggregated. New objects must be Kiln's.
func (o Objects) Differences(now Objects, kiln Presence) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		is := now[key]
		if is == nil {
			all = append(all, key+" is gone")
			continue
		}
		if kiln == Present {
			is = keepRules(o[key], is)
		}
		if diff := cmp.Diff(withoutAnnotations(o[key]), withoutAnnotations(is)); diff != "" {
			all = append(all, key+" has changed: -before +now\n"+diff)
		}
	}
	for _, object := range o.New(now) {
		if !kiln.has(object) {
			all = append(all, fmt.Sprintf("%s %s/%s is new: %v", object.GetKind(), object.GetNamespace(), object.GetName(), object.Object))
		}
	}
	return all
}

// New returns the objects that were not there before, except revisions.
func (o Objects) New(now Objects) (all []*unstructured.Unstructured) {
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if o[key] == nil && !revision(now[key]) {
			all = append(all, now[key])
		}
	}
	return all
}

// revision reports whether an object is a revision of the pins of VMs. A revision of a DaemonSet has a controller.
func revision(object *unstructured.Unstructured) bool {
	return object.GetKind() == "ControllerRevision" && metav1.GetControllerOf(object) == nil
}

// keepRules returns a role that others are aggregated to without what it did not have before, and another object as it is.
func keepRules(was, is *unstructured.Unstructured) *unstructured.Unstructured {
	if _, aggregated := is.Object["aggregationRule"]; !aggregated {
		return is
	}
	before, _, _ := unstructured.NestedSlice(was.Object, "rules")
	rules, _, _ := unstructured.NestedSlice(is.Object, "rules")
	is = is.DeepCopy()
	is.Object["rules"] = slices.DeleteFunc(rules, func(rule any) bool {
		return !slices.ContainsFunc(before, func(other any) bool { return reflect.DeepEqual(rule, other) })
	})
	return is
}

// withoutAnnotations returns a VM without Kiln's annotations, and another object as it is.
func withoutAnnotations(object *unstructured.Unstructured) map[string]any {
	if object.GetKind() != "VirtualMachine" {
		return object.Object
	}
	object = object.DeepCopy()
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, v1alpha1.Prefix) })
	object.SetAnnotations(annotations)
	return object.Object
}

// has reports whether a new object is one of the objects of Kiln.
func (p Presence) has(object *unstructured.Unstructured) bool {
	kind, name, namespace := object.GetKind(), object.GetName(), object.GetNamespace()
	switch {
	case name == "kiln-parameters":
		return true
	case p == Gone:
		return false
	case (kind == "CustomResourceDefinition" || kind == "APIService") && strings.HasSuffix(name, "kilnvm.io"), // the API server makes the second of the first
		kind == "Namespace" && name == "kiln-system",
		namespace == "kiln-system" && (name == "default" || name == "kube-root-ca.crt"): // which each namespace has
		return true
	case p == Removed:
		return false
	}
	if kind == "IPAddress" { // the API server makes one for the address of a Service
		namespace, _, _ = unstructured.NestedString(object.Object, "spec", "parentRef", "namespace")
	}
	return namespace == "kiln-system" || strings.HasPrefix(name, "kiln-") || strings.HasPrefix(object.GetAPIVersion(), "kilnvm.io/")
}
