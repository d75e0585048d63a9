package virtlauncher

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/poll"
)

// objects are all objects of the cluster as users and programs want them to be, by kind, namespace and name. What the cluster writes about itself is left out:
// statuses, versions of the store, and kinds that have nothing else.
type objects map[string]*unstructured.Unstructured

// written are kinds that change without end, or follow from other objects.
var written = []string{"events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpoints", "endpointslices.discovery.k8s.io", "componentstatuses"}

// objects reads them all. While a definition is being removed, or an API of KubeVirt's or Kiln's does not answer, not all kinds that are named can be read: then
// it asks again.
func (g space) objects() objects {
	g.Helper()
	list := unstructured.UnstructuredList{}
	g.eventually("all objects can be read", func() (bool, any) {
		names, err := shared.Kubectl(g.Context(), "api-resources", "--verbs=list,get", "-o", "name")
		if err != nil {
			return false, names
		}
		var kinds []string
		for _, kind := range strings.Fields(names) {
			if !slices.Contains(written, kind) && !strings.Contains(kind, "subresources.") {
				kinds = append(kinds, kind)
			}
		}
		out, err := shared.Kubectl(g.Context(), "get", strings.Join(kinds, ","), "--all-namespaces", "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out[max(0, strings.IndexByte(out, '{')):]), &list) // warnings about old kinds come before it
		}
		return err == nil, []any{err, out[max(0, len(out)-1000):]}
	})
	found := objects{}
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
	return found
}

// presence is how much of Kiln is in the cluster.
type presence int

const (
	gone    presence = iota // all but the revisions that VMs may name, and the policy kiln-parameters, without which Kiln could not be added again
	removed                 // the kinds are still there
	present
)

// unchanged fails the test for each difference between objects and what they are now, except what docs/beside-kubevirt.md says that Kiln changes: annotations
// below kilnvm.io/ of VMs, and rules of roles to which others are aggregated. New objects must be Kiln's. It waits a minute for what Kubernetes writes in
// response, such as the rules of those roles and the APIService of a definition.
func (o objects) unchanged(g space, kiln presence) {
	g.Helper()
	var all []string
	poll.Until(time.Minute, func() bool {
		all = o.differences(g, kiln)
		return len(all) == 0
	})
	for _, difference := range all {
		g.Error(difference)
	}
}

// differences returns a text for each difference that unchanged does not allow.
func (o objects) differences(g space, kiln presence) (all []string) {
	g.Helper()
	now := g.objects()
	for _, key := range slices.Sorted(maps.Keys(o)) {
		is := now[key]
		if is == nil {
			all = append(all, key+" is gone")
			continue
		}
		if kiln == present {
			keepRules(o[key], is)
		}
		if diff := cmp.Diff(withoutAnnotations(o[key]), withoutAnnotations(is)); diff != "" {
			all = append(all, key+" has changed: -before +now\n"+diff)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if o[key] == nil && !kiln.has(g, now[key]) {
			all = append(all, fmt.Sprintf("%s is new: %v", key, now[key].Object))
		}
	}
	return all
}

// keepRules removes from a role that others are aggregated to what it did not have before.
func keepRules(was, is *unstructured.Unstructured) {
	if _, aggregated := is.Object["aggregationRule"]; !aggregated {
		return
	}
	before, _, _ := unstructured.NestedSlice(was.Object, "rules")
	rules, _, _ := unstructured.NestedSlice(is.Object, "rules")
	is.Object["rules"] = slices.DeleteFunc(rules, func(rule any) bool {
		return !slices.ContainsFunc(before, func(other any) bool { return reflect.DeepEqual(rule, other) })
	})
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
func (p presence) has(g space, object *unstructured.Unstructured) bool {
	kind, name, namespace := object.GetKind(), object.GetName(), object.GetNamespace()
	switch {
	case kind == "ControllerRevision" && namespace == g.name, name == "kiln-parameters": // the first is of the VM's pins
		return true
	case p == gone:
		return false
	case (kind == "CustomResourceDefinition" || kind == "APIService") && strings.HasSuffix(name, "kilnvm.io"), // the API server makes the second of the first
		kind == "Namespace" && name == "kiln-system",
		namespace == "kiln-system" && (name == "default" || name == "kube-root-ca.crt"): // which each namespace has
		return true
	case p == removed:
		return false
	}
	if kind == "IPAddress" { // the API server makes one for the address of a Service
		namespace, _, _ = unstructured.NestedString(object.Object, "spec", "parentRef", "namespace")
	}
	return namespace == "kiln-system" || strings.HasPrefix(name, "kiln-") || strings.HasPrefix(object.GetAPIVersion(), "kilnvm.io/")
}
