package snapshot

import (
	"maps"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/identity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// Mark is KubeVirt's annotation on a VM and on claims that a restore has written. The generation ID of a VM follows from it.
const Mark = "restore.kubevirt.io/lastRestoreUID"

// MarkOf returns the value of annotation Mark for a restore, in KubeVirt's form.
func MarkOf(restore metav1.Object) string { return restore.GetName() + "-" + string(restore.GetUID()) }

// carriedAnnotations are the annotations that a restore in place takes from the snapshot. All others stay as they are on the existing VM.
var carriedAnnotations = []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationHardware, v1alpha1.AnnotationArchitecture}

// InPlace returns an existing VM with the spec of the snapshot and the volumes that the restore has made. As in KubeVirt, its run strategy, its labels and all
// other annotations stay. Annotation kilnvm.io/record names the hardware record until the VM has its hardware back.
func (k Kept) InPlace(existing *v1.VirtualMachine, restore *api.VirtualMachineRestore) *v1.VirtualMachine {
	vm := existing.DeepCopy()
	strategy, running := vm.Spec.RunStrategy, vm.Spec.Running //nolint:staticcheck // the owner may use the deprecated field
	vm.Spec = *k.VM.Spec.DeepCopy()
	vm.Spec.RunStrategy, vm.Spec.Running = strategy, running //nolint:staticcheck // as above
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	for _, key := range carriedAnnotations {
		if value, had := k.VM.Annotations[key]; had {
			vm.Annotations[key] = value
		} else {
			delete(vm.Annotations, key)
		}
	}
	vm.Annotations[Mark], vm.Annotations[v1alpha1.AnnotationRecord] = MarkOf(restore), k.Revision
	useVolumes(vm, restore)
	return vm
}

// Anew returns the VM that a restore creates. It is halted, as in KubeVirt. If it has the name of the snapshot's VM, it has the identity of that VM. Otherwise
// it is another VM with the same hardware and a new identity, whose seed is the UID of the restore; patches of the restore cannot change the seed.
func (k Kept) Anew(restore *api.VirtualMachineRestore) (*v1.VirtualMachine, field.ErrorList) {
	vm := &v1.VirtualMachine{TypeMeta: k.VM.TypeMeta, Spec: *k.VM.Spec.DeepCopy()}
	vm.Name, vm.Namespace = restore.Spec.Target.Name, k.VM.Namespace
	vm.Labels, vm.Annotations = maps.Clone(k.VM.Labels), maps.Clone(k.VM.Annotations)
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	delete(vm.Annotations, v1alpha1.AnnotationInference) // has the rights of another user
	delete(vm.Annotations, v1alpha1.AnnotationRollout)
	delete(vm.Annotations, v1alpha1.AnnotationRecord) // of a restore under way
	if vm.Spec.Running != nil {                       //nolint:staticcheck // the owner may use the deprecated field
		vm.Spec.Running = new(bool) //nolint:staticcheck // as above
	} else {
		vm.Spec.RunStrategy = ptr.To(v1.RunStrategyHalted)
	}
	if k.Another(restore) {
		delete(vm.Annotations, v1alpha1.AnnotationGeneration)
		removeIdentity(&vm.Spec.Template.Spec)
	}
	useVolumes(vm, restore)
	vm, errs := applyPatches(vm, restore.Spec.Patches, field.NewPath("spec", "patches"))
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	vm.Annotations[Mark] = MarkOf(restore)
	if k.Another(restore) {
		vm.Annotations[v1alpha1.AnnotationIdentity] = string(restore.UID)
	}
	return vm, errs
}

// Another reports whether a restore creates a VM with another name than the VM of the snapshot.
func (k Kept) Another(restore *api.VirtualMachineRestore) bool {
	return restore.Spec.Target.Name != k.VM.Name
}

// removeIdentity removes UUID, serial number and MAC addresses that the owner of a VM has chosen, because two machines would have them.
func removeIdentity(spec *v1.VirtualMachineInstanceSpec) {
	if firmware := spec.Domain.Firmware; firmware != nil {
		firmware.UUID, firmware.Serial = "", ""
	}
	for i := range spec.Domain.Devices.Interfaces {
		spec.Domain.Devices.Interfaces[i].MacAddress = ""
	}
}

// GuestHardware returns the hardware of a restored VM. When restoring into another VM, the result keeps the device addresses of the snapshot's VM but has the
// identity of the other VM. Its vsock context ID, and its digest, which covers the identity, stay empty until the first boot.
func (k Kept) GuestHardware(vm *v1.VirtualMachine, restore *api.VirtualMachineRestore) v1alpha1.GuestHardwareSpec {
	seed := vm.Annotations[v1alpha1.AnnotationIdentity]
	if k.Hardware == nil {
		return v1alpha1.GuestHardwareSpec{Identity: seed}
	}
	hardware := *k.Hardware.DeepCopy()
	if !k.Another(restore) {
		return hardware
	}
	hardware.Identity = seed
	of, own := hardware.Hardware, identityOf(vm, seed, hardware.Hardware)
	of.UUID, of.Serial, of.VSOCK, of.Digest = string(own.Spec.Domain.Firmware.UUID), own.Spec.Domain.Firmware.Serial, "", ""
	for _, nic := range own.Spec.Domain.Devices.Interfaces {
		of.MACs[nic.Name] = nic.MacAddress
	}
	return hardware
}

// identityOf returns a VMI with the identity of a VM, and with an interface for each MAC address of the record: presets and preferences add interfaces that the
// VM does not name.
func identityOf(vm *v1.VirtualMachine, seed string, of *v1alpha1.HardwareRecord) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Spec.Domain.Firmware = vm.Spec.Template.Spec.Domain.Firmware.DeepCopy()
	chosen := map[string]string{}
	for _, nic := range vm.Spec.Template.Spec.Domain.Devices.Interfaces {
		chosen[nic.Name] = nic.MacAddress
	}
	for name := range of.MACs {
		vmi.Spec.Domain.Devices.Interfaces = append(vmi.Spec.Domain.Devices.Interfaces, v1.Interface{Name: name, MacAddress: chosen[name]})
	}
	identity.Fill(vmi, seed)
	return vmi
}
