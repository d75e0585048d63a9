package cataloginstall

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	instancetypeapi "kubevirt.io/api/instancetype"
)

// describeChange returns what applying an object changes, such as 'spec, labels'; empty if nothing.
// The parts are 'spec', 'labels', 'annotations' and 'version', in this order. A change of AnnotationCatalogVersion is 'version', not
// 'annotations'.
func describeChange(live, wanted *unstructured.Unstructured) string {
	var parts []string
	if specDiffers(live, wanted) {
		parts = append(parts, "spec")
	}
	owned := ownedFields(live)
	if metadataChanges(live.GetLabels(), wanted.GetLabels(), owned.labels) {
		parts = append(parts, "labels")
	}
	was, is := live.GetAnnotations(), wanted.GetAnnotations()
	before, after := was[v1alpha1.AnnotationCatalogVersion], is[v1alpha1.AnnotationCatalogVersion]
	if before != after {
		is = withEntry(maps.Clone(is), v1alpha1.AnnotationCatalogVersion, before)
	}
	if metadataChanges(was, is, owned.annotations) {
		parts = append(parts, "annotations")
	}
	if before != after {
		parts = append(parts, "version")
	}
	return strings.Join(parts, ", ")
}

// specDiffers reports whether VMs would be pinned to another revision. Trap: it compares untyped specs, because revisions contain these.
func specDiffers(live, wanted *unstructured.Unstructured) bool {
	before, err := instancetype.Take(live.Object)
	after, failed := instancetype.Take(wanted.Object)
	if cmp.Or(err, failed) != nil { // there are no digests to compare
		return !reflect.DeepEqual(live.Object["spec"], wanted.Object["spec"])
	}
	return before.Name != after.Name
}

// metadataChanges reports whether applying wanted changes labels or annotations: a value differs, or a key that was applied before is no longer wanted.
// owned are the keys that FieldManager applied before. Server-side apply removes such a key if the applied object lacks it.
func metadataChanges(live, wanted map[string]string, owned []string) bool {
	for key, value := range wanted {
		if had, found := live[key]; !found || had != value || !slices.Contains(owned, key) {
			return true
		}
	}
	for key := range live {
		if _, found := wanted[key]; !found && isReadByConsumers(key) {
			return true
		}
	}
	// Every wanted key is owned here, so a longer list has a key that the catalog no longer has.
	return len(owned) > len(wanted)
}

// isReadByConsumers reports whether Kiln, KubeVirt or a dashboard reads this label or annotation of instancetypes and preferences. Other labels and
// annotations of other field managers are kept.
func isReadByConsumers(key string) bool {
	return strings.HasPrefix(key, v1alpha1.Prefix) || strings.HasPrefix(key, instancetypeapi.GroupName+"/")
}
