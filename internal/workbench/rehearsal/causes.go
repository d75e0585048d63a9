package rehearsal

import (
	"encoding/json"
	"iter"
	"reflect"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// madeOf is an object that a guest is made of, with its content.
type madeOf struct {
	key catalog.Key
	// revision is the name that a revision of the content has, whether Kiln or KubeVirt made it: KubeVirt names a revision after its VM.
	revision string
}

// causesOf returns why a VM changes: the objects of which it gets another content, and the rules and settings that refuse it.
func (h *rehearser) causesOf(before, after workbench.Reviewed, result *Result) []Cause {
	var causes []Cause
	bases := pin.Read(before.Guest.VM).PinsProfiles()
	was, is := partsOf(before, bases), partsOf(after, bases)
	for _, key := range slices.SortedFunc(mapKeys(was, is), compareKeys) {
		if was[key].revision == is[key].revision {
			continue
		}
		_, touched := h.changed[key]
		if key.Kind == v1alpha1.KindClusterConfiguration {
			touched = h.newConfiguration
		}
		causes = append(causes, Cause{Key: key, From: was[key].revision, To: is[key].revision, Installed: !touched})
	}
	for _, refusal := range result.Refusals {
		key := catalog.Key{Kind: v1alpha1.KindGuestPolicy, Name: refusal.Policy}
		if refusal.Policy == "" {
			continue
		}
		if !slices.ContainsFunc(causes, func(c Cause) bool { return c.Key == key }) {
			causes = append(causes, Cause{Key: key})
		}
	}
	if result.Verdict == Same && len(result.Refusals) == 0 || slices.ContainsFunc(causes, func(c Cause) bool { return !c.Installed }) {
		return causes
	}
	// No pin explains it: what is never pinned does, such as the rules of another KubeVirt, or a HostProfile.
	for _, change := range h.Changes {
		if change.Kind == v1.KubeVirtGroupVersionKind.Kind || change.Kind == kindHostProfile {
			causes = append(causes, Cause{Key: change.Key})
		}
	}
	return causes
}

// mapKeys yields the keys of two maps, each once.
func mapKeys(a, b map[catalog.Key]madeOf) iter.Seq[catalog.Key] {
	return func(yield func(catalog.Key) bool) {
		for key := range a {
			if !yield(key) {
				return
			}
		}
		for key := range b {
			if _, both := a[key]; !both && !yield(key) {
				return
			}
		}
	}
}

// partsOf returns the objects that a guest is made of. A preset or profile that does not match the VM is not among them, although an unpinned VM is reviewed
// with all of its namespace. bases includes the profiles that others extend.
func partsOf(r workbench.Reviewed, bases bool) map[catalog.Key]madeOf {
	parts := map[catalog.Key]madeOf{}
	if r.Guest == nil {
		return parts
	}
	add := func(kind, name, namespace, named string, content any) {
		key := catalog.Key{Kind: kind, Name: name}
		if namespaced[kind] {
			key.Namespace = namespace
		}
		parts[key] = madeOf{key, contentName(kind, name, named, content)}
	}
	in, namespace := r.Guest.Input, r.GetNamespace()
	if one := in.Set.Instancetype; one != nil {
		add(one.Kind, one.Name, namespace, one.Revision, one.Spec)
	}
	if one := in.Set.Preference; one != nil {
		add(one.Kind, one.Name, namespace, one.Revision, one.Spec)
	}
	vmi := r.Guest.Explicit
	for i := range in.Presets {
		one := &in.Presets[i]
		if selects(&one.Spec.Selector, vmi.Labels) {
			add(v1.VirtualMachineInstancePresetGroupVersionKind.Kind, one.Name, namespace, "", one.Spec)
		}
	}
	for _, one := range in.Profiles {
		if one.Spec.Selector == nil && bases || one.Spec.Selector != nil && selects(one.Spec.Selector, vmi.Labels) {
			add(one.Kind, one.Name, namespace, one.Revision, one.Spec)
		}
	}
	if snapshot, err := config.Snapshot(in.Cluster.Defaults); err == nil {
		if taken, err := instancetype.Take(snapshot); err == nil {
			parts[configurationKey] = madeOf{configurationKey, taken.Name}
		}
	}
	return parts
}

// configurationKey is the key of the defaults of the cluster's configuration, to which VMs are pinned.
var configurationKey = catalog.Key{Kind: v1alpha1.KindClusterConfiguration, Name: "configuration"}

// namespaced are the kinds with a namespace that guests are made of.
var namespaced = map[string]bool{
	instancetype.Kinds.Namespaced: true, instancetype.PreferenceKinds.Namespaced: true, v1.VirtualMachineInstancePresetGroupVersionKind.Kind: true,
	v1alpha1.KindGuestProfile: true,
}

// contentName returns the name of a revision with this content: the given name if it has a digest.
func contentName(kind, name, named string, content any) string {
	if instancetype.Addressed(named) {
		return named
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return named
	}
	var spec any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return named
	}
	version := v1beta1.SchemeGroupVersion.String()
	switch kind {
	case v1.VirtualMachineInstancePresetGroupVersionKind.Kind:
		version = v1.GroupVersion.String()
	case v1alpha1.KindGuestProfile, v1alpha1.KindClusterGuestProfile:
		version = v1alpha1.GroupVersion.String()
	}
	taken, err := instancetype.Take(map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec})
	if err != nil {
		return named
	}
	return taken.Name
}

// sameDefaults reports whether VMs are pinned to the same configuration.
func sameDefaults(a, b config.Cluster) bool { return reflect.DeepEqual(a.Defaults, b.Defaults) }

// selects reports whether a selector matches labels. An invalid one matches nothing.
func selects(selector *metav1.LabelSelector, of labels.Set) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(of)
}
