package cataloginstall

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server-side apply removes a field only if no other manager owns it. Fields that others added to an object of a catalog would remain for ever, and the
// object would differ from the published one.

// managedFields parses the fields of an entry. In the format FieldsV1 of Kubernetes, the key of a field is 'f:' and its name. It returns nil if the
// fields cannot be parsed.
func managedFields(entry metav1.ManagedFieldsEntry) (fields map[string]any) {
	if entry.FieldsV1 == nil || entry.Subresource != "" || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields
}

// splitFields splits fields into those that a catalog sets, which are spec, labels and annotations, and the rest.
func splitFields(fields map[string]any) (parts, rest map[string]any) {
	parts, rest = map[string]any{}, maps.Clone(fields)
	if spec, found := fields["f:spec"]; found {
		parts["f:spec"] = spec
		delete(rest, "f:spec")
	}
	metadata, _ := fields["f:metadata"].(map[string]any)
	ofCatalog, others := map[string]any{}, map[string]any{}
	for name, inner := range metadata {
		if name == "f:labels" || name == "f:annotations" {
			ofCatalog[name] = inner
		} else {
			others[name] = inner
		}
	}
	if len(ofCatalog) > 0 {
		parts["f:metadata"] = ofCatalog
	}
	if delete(rest, "f:metadata"); len(others) > 0 {
		rest["f:metadata"] = others
	}
	return parts, rest
}

// otherManagers returns the other managers that own the spec, labels or annotations of an object; in single quotes, and sorted.
func otherManagers(live *unstructured.Unstructured) []string {
	managers := map[string]bool{}
	for _, entry := range live.GetManagedFields() {
		if parts, _ := splitFields(managedFields(entry)); !isOwnEntry(entry) && len(parts) > 0 {
			managers["'"+entry.Manager+"'"] = true
		}
	}
	return slices.Sorted(maps.Keys(managers))
}

// mergeFields returns the union of two sets of fields. An empty map means that the field itself is in the set. If fields below it are in the set, too, the
// field itself is represented by the key '.'.
func mergeFields(a, b map[string]any) map[string]any {
	merged := map[string]any{}
	maps.Copy(merged, a)
	for key, fields := range b {
		of, _ := fields.(map[string]any)
		if have, found := merged[key].(map[string]any); found {
			itself := (len(have) == 0) != (len(of) == 0)
			if of = mergeFields(have, of); itself {
				of["."] = map[string]any{}
			}
		}
		merged[key] = of
	}
	return merged
}

// takeFields makes the catalog's manager the only manager of the labels, the annotations and the spec of a live object, without changing their values. Then
// applying the object removes the fields that the catalog lacks. It returns the action with the object's new resourceVersion.
func takeFields(ctx context.Context, cluster client.Client, action Action, options ...writeOption) (Action, error) {
	entries, err := soleManager(action.live.GetManagedFields())
	if err != nil || entries == nil {
		return action, err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": action.live.GetResourceVersion()},
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
	})
	if err != nil {
		return action, err
	}
	var patching []client.PatchOption
	for _, option := range options {
		patching = append(patching, option)
	}
	taken := action.live.DeepCopy()
	if err := cluster.Patch(ctx, taken, client.RawPatch(types.JSONPatchType, patch), patching...); err != nil {
		return action, err
	}
	if len(options) == 0 { // a dry run has changed nothing
		action.object = action.object.DeepCopy()
		action.object.SetResourceVersion(taken.GetResourceVersion())
	}
	return action, nil
}

// soleManager returns the entries of an object after the catalog's manager took the fields of all others; nil if others own none.
func soleManager(before []metav1.ManagedFieldsEntry) (after []metav1.ManagedFieldsEntry, err error) {
	own := metav1.ManagedFieldsEntry{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
		APIVersion: v1beta1.SchemeGroupVersion.String()}
	taken, others := map[string]any{}, false
	for _, entry := range before {
		fields := managedFields(entry)
		parts, rest := splitFields(fields)
		switch {
		case isOwnEntry(entry):
			taken = mergeFields(taken, fields)
			continue
		case len(parts) == 0:
			after = append(after, entry)
			continue
		}
		others, taken = true, mergeFields(taken, parts)
		if len(rest) > 0 {
			raw, err := json.Marshal(rest)
			if err != nil {
				return nil, err
			}
			entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
			after = append(after, entry)
		}
	}
	if !others {
		return nil, nil
	}
	raw, err := json.Marshal(taken)
	own.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return append(after, own), err
}

// leftByOthers returns a conflict for each field that remains in an applied object though the catalog does not have it.
func leftByOthers(action Action, answer *unstructured.Unstructured) (left []Conflict) {
	report := func(path ...string) {
		reason := "the catalog does not have " + strings.Join(path, ".")
		if path[0] == "metadata" {
			reason = fmt.Sprintf("the catalog does not have metadata.%s[%s]", path[1], path[2])
		}
		if owners := managersOf(answer, path); len(owners) > 0 {
			reason += ", which is managed by " + strings.Join(owners, ", ")
		}
		left = append(left, Conflict{action.Key, reason})
	}
	has, _ := answer.Object["spec"].(map[string]any)
	wanted, _ := action.object.Object["spec"].(map[string]any)
	reportExtra(has, wanted, []string{"spec"}, report)
	for _, part := range []struct {
		name      string
		has, want map[string]string
	}{{"labels", answer.GetLabels(), action.object.GetLabels()}, {"annotations", answer.GetAnnotations(), action.object.GetAnnotations()}} {
		for _, key := range slices.Sorted(maps.Keys(part.has)) {
			if _, found := part.want[key]; !found && isReadByConsumers(key) {
				report("metadata", part.name, key)
			}
		}
	}
	return left
}

// reportExtra reports the path of each field of has that want does not have.
func reportExtra(has, want map[string]any, at []string, report func(path ...string)) {
	for _, key := range slices.Sorted(maps.Keys(has)) {
		path := append(slices.Clone(at), key)
		wanted, found := want[key]
		inner, isMap := has[key].(map[string]any)
		of, both := wanted.(map[string]any)
		switch {
		case !found:
			report(path...)
		case isMap && both:
			reportExtra(inner, of, path, report)
		}
	}
}

// managersOf returns the other managers that own a field; in single quotes, and sorted.
func managersOf(object *unstructured.Unstructured, path []string) []string {
	managers := map[string]bool{}
	for _, entry := range object.GetManagedFields() {
		fields, found := managedFields(entry), !isOwnEntry(entry)
		for _, name := range path {
			inner, has := fields["f:"+name].(map[string]any)
			fields, found = inner, found && has
		}
		if found {
			managers["'"+entry.Manager+"'"] = true
		}
	}
	return slices.Sorted(maps.Keys(managers))
}
