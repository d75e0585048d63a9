package instancetype

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"kubevirt.io/api/instancetype/v1beta1"
)

// SameContent reports whether the data of two revisions is one instancetype or one preference: kind, name and spec are equal. The version of the API may
// differ, and so may what a Go client adds: KubeVirt's revisions have empty fields that Kiln's have not. Data that cannot be read is equal to none.
func SameContent(a, b []byte) bool {
	if kind, ok := kindOf(a); ok && slices.Contains(PreferenceKinds.Both(), kind) {
		return sameSpec[v1beta1.VirtualMachinePreferenceSpec](a, b)
	}
	return sameSpec[v1beta1.VirtualMachineInstancetypeSpec](a, b)
}

// SameVersion reports whether the data of two revisions has one apiVersion.
func SameVersion(a, b []byte) bool {
	var one, other stored[struct{}]
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && one.APIVersion == other.APIVersion
}

func kindOf(data []byte) (string, bool) {
	var of stored[struct{}]
	err := json.Unmarshal(data, &of)
	return of.Kind, err == nil
}

func sameSpec[Spec any](a, b []byte) bool {
	var one, other stored[Spec]
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && one.Kind == other.Kind &&
		one.Metadata.Name == other.Metadata.Name && equality.Semantic.DeepEqual(one.Spec, other.Spec)
}
