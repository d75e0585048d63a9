package cataloginstall

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/catalog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// dropMissing adds the actions for the objects in the cluster that belong to the catalog and are not in had.
func (p *Plan) dropMissing(s State, had map[catalog.Key]bool) {
	var dropped []Action
	for key, live := range s.Objects {
		if p.ownsObject(live) && !had[key] && live.GetDeletionTimestamp() == nil {
			dropped = append(dropped, s.planDrop(live))
		}
	}
	slices.SortFunc(dropped, func(a, b Action) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	p.Actions = append(p.Actions, dropped...)
}

// planDrop returns the action for an object that its catalog no longer has. VMs that refer to the object could start without it, because they are pinned.
// It is kept nevertheless: users can look it up, and 'repin' needs it.
func (s State) planDrop(live *unstructured.Unstructured) Action {
	users := s.usersOf(objectKey(live))
	action := Action{Change: Delete, Key: objectKey(live), VMs: users.VMs, VMIs: users.VMIs, object: live, live: live, dropped: true}
	switch {
	case wasTakenOver(live):
		action.Change, action.Reason, action.object = Release, "existed before the catalog", releasedObject(live)
	case users.None():
	case live.GetLabels()[v1alpha1.LabelLifecycle] == v1alpha1.LifecycleObsolete:
		action.Change, action.Reason = Unchanged, "is obsolete already"
	default:
		action.Change, action.object = Obsolete, markedObsolete(live)
	}
	return action
}

// markedObsolete returns the object to apply: the fields that this manager applied before, because server-side apply removes missing fields, and
// the label. The label is applied, not patched: a version of the catalog that has the object again removes the label.
func markedObsolete(live *unstructured.Unstructured) *unstructured.Unstructured {
	object := appliedObject(live)
	object.SetLabels(withEntry(object.GetLabels(), v1alpha1.LabelLifecycle, v1alpha1.LifecycleObsolete))
	return object
}

// releasedObject returns the object to apply to remove an object from the catalog: the fields that this manager applied before, except the label and the
// annotations of the catalog.
func releasedObject(live *unstructured.Unstructured) *unstructured.Unstructured {
	object := appliedObject(live)
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	delete(labels, v1alpha1.LabelCatalog)
	for _, key := range []string{v1alpha1.AnnotationCatalogVersion, v1alpha1.AnnotationCatalogSource, v1alpha1.AnnotationCatalogTakenOver} {
		delete(annotations, key)
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	return object
}

// appliedObject returns the fields of an object that this manager applied before.
func appliedObject(live *unstructured.Unstructured) *unstructured.Unstructured {
	owned := ownedFields(live)
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(live.GroupVersionKind())
	object.SetNamespace(live.GetNamespace())
	object.SetName(live.GetName())
	object.SetResourceVersion(live.GetResourceVersion())
	object.SetLabels(selectKeys(live.GetLabels(), owned.labels))
	object.SetAnnotations(selectKeys(live.GetAnnotations(), owned.annotations))
	if spec, found := live.DeepCopy().Object["spec"]; found {
		object.Object["spec"] = spec
	}
	return object
}

func selectKeys(all map[string]string, keys []string) map[string]string {
	kept := map[string]string{}
	for _, key := range keys {
		if value, found := all[key]; found {
			kept[key] = value
		}
	}
	return kept
}

// appliedKeys are the keys of labels and annotations that this manager applied.
type appliedKeys struct{ labels, annotations []string }

// ownedFields reads metadata.managedFields. In the format FieldsV1 of Kubernetes, the key of a field is 'f:' and its name.
func ownedFields(live *unstructured.Unstructured) (found appliedKeys) {
	for _, entry := range live.GetManagedFields() {
		if !isOwnEntry(entry) || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels      map[string]any `json:"f:labels"`
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		// Only the API server writes it. If it cannot be parsed, the object is treated as not applied, and is applied again.
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil {
			found = appliedKeys{fieldNames(fields.Metadata.Labels), fieldNames(fields.Metadata.Annotations)}
		}
	}
	return found
}

// fieldNames returns the names of fields. It leaves out the key '.', which means the map itself.
func fieldNames(fields map[string]any) (names []string) {
	for key := range fields {
		if name, found := strings.CutPrefix(key, "f:"); found {
			names = append(names, name)
		}
	}
	return names
}

// wasApplied reports whether an installation has applied an object.
func wasApplied(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), isOwnEntry)
}

func isOwnEntry(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
}
