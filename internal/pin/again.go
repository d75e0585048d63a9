package pin

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// written is the path of the annotation in an entry of managedFields.
var written = "f:metadata.f:annotations.f:" + strings.ReplaceAll(v1alpha1.AnnotationPins, ".", `\.`)

// WithoutAdmissionPins returns a VM that is about to be created. It drops the pins of presets, profiles and configuration if an earlier call of admission
// within the same request has written them: the API server calls admission again when another webhook has changed the VM, perhaps the labels that select
// presets and profiles. Pins of instancetype and preference stay, because they are compared with the names in the spec.
//
// managedFields say who wrote the annotation, because the API server writes them before it calls admission: an annotation that nobody sent was written by
// admission. Without managedFields the annotation counts as sent, for example with a VM from a backup.
func WithoutAdmissionPins(vm *v1.VirtualMachine) *v1.VirtualMachine {
	sent := func(entry metav1.ManagedFieldsEntry) bool {
		return entry.FieldsV1 != nil && gjson.GetBytes(entry.FieldsV1.GetRawBytes(), written).Exists()
	}
	if vm.Annotations[v1alpha1.AnnotationPins] == "" || Parse(vm).Malformed || len(vm.ManagedFields) == 0 || slices.ContainsFunc(vm.ManagedFields, sent) {
		return vm
	}
	pins := Read(vm)
	pins.Presets, pins.Profiles, pins.Bases, pins.Configuration = nil, nil, nil, ""
	again := *vm
	Write(&again, pins)
	return &again
}
