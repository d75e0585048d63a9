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

// Mark is KubeVirt's annotation of a VM and of claims that a restore has written. The generation ID of a VM follows from it.
const Mark = "restore.kubevirt.io/lastRestoreUID"

// MarkOf is the value of the mark of a restore, as KubeVirt writes it.
func MarkOf(restore metav1.Object) string { return restore.GetName() + "-" + string(restore.GetUID()) }

// carried are the annotations of a VM that are a part of its configuration. The others belong to the VM that exists.
var carried = []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationHardware, v1alpha1.AnnotationArchitecture}

// InPlace returns a VM that exists as it was at the snapshot, with the volumes that the restore has made. As in KubeVirt, its run strategy, its labels
// and all other annotations stay. Until it has its hardware, it names the record.
func (k Kept) InPlace(existing *v1.VirtualMachine, restore *api.VirtualMachineRestore) *v1.VirtualMachine {
	vm := existing.DeepCopy()
	strategy, running := vm.Spec.RunStrategy, vm.Spec.Running //nolint:staticcheck // the owner may use the deprecated field
	vm.Spec = *k.VM.Spec.DeepCopy()
	vm.Spec.RunStrategy, vm.Spec.Running = strategy, running //nolint:staticcheck // as above
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	for _, key := range carried {
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

// Anew returns the VM that a restore creates. One with the name of the snapshot's VM is that VM again. Another one has the same hardware, and an identity of
// its own: its seed is the UID of the restore, whatever the patches of the restore say. It is halted, as in KubeVirt.
func (k Kept) Anew(restore *api.VirtualMachineRestore) (*v1.VirtualMachine, field.ErrorList) {
	vm := &v1.VirtualMachine{TypeMeta: k.VM.TypeMeta, Spec: *k.VM.Spec.DeepCopy()}
	vm.Name, vm.Namespace = restore.Spec.Target.Name, k.VM.Namespace
	vm.Labels, vm.Annotations = maps.Clone(k.VM.Labels), maps.Clone(k.VM.Annotations)
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	delete(vm.Annotations, v1alpha1.AnnotationInference) // what somebody else was allowed to read
	delete(vm.Annotations, v1alpha1.AnnotationRollout)
	delete(vm.Annotations, v1alpha1.AnnotationRecord) // of a restore under way
	if vm.Spec.Running != nil {                       //nolint:staticcheck // the owner may use the deprecated field
		vm.Spec.Running = new(bool) //nolint:staticcheck // as above
	} else {
		vm.Spec.RunStrategy = ptr.To(v1.RunStrategyHalted)
	}
	if k.Another(restore) {
		delete(vm.Annotations, v1alpha1.AnnotationGeneration)
		withoutIdentity(&vm.Spec.Template.Spec)
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

// Another reports whether a restore makes another VM than that of the snapshot.
func (k Kept) Another(restore *api.VirtualMachineRestore) bool {
	return restore.Spec.Target.Name != k.VM.Name
}

// withoutIdentity takes what the owner of a VM has chosen of its identity: two machines would have it.
func withoutIdentity(spec *v1.VirtualMachineInstanceSpec) {
	if firmware := spec.Domain.Firmware; firmware != nil {
		firmware.UUID, firmware.Serial = "", ""
	}
	for i := range spec.Domain.Devices.Interfaces {
		spec.Domain.Devices.Interfaces[i].MacAddress = ""
	}
}

// GuestHardware returns the hardware of a VM that is restored. That of another VM has the places of the devices, and the identity of its VM. The number on
// the host's vsock, and the digest, which covers the identity, are found at its first boot.
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
	of, own := hardware.Hardware, identified(vm, seed, hardware.Hardware)
	of.UUID, of.Serial, of.VSOCK, of.Digest = string(own.Spec.Domain.Firmware.UUID), own.Spec.Domain.Firmware.Serial, "", ""
	for _, nic := range own.Spec.Domain.Devices.Interfaces {
		of.MACs[nic.Name] = nic.MacAddress
	}
	return hardware
}

// identified is a VMI with the identity of a VM, and with a card for each that the record knows: presets and preferences add some that the VM does not name.
func identified(vm *v1.VirtualMachine, seed string, of *v1alpha1.HardwareRecord) *v1.VirtualMachineInstance {
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
