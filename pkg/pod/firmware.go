package pod

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.firmware, and the state of devices.tpm.
// A kernel comes from an image. Variables of EFI and the state of a TPM that must outlive the pod lie on one claim for each VM: a new pod on another node
// finds the keys that the guest enrolled and sealed.

var firmwareEffects = []Effect{
	{"domain.firmware.bootloader.efi.persistent", Refused, stateReason, func(g guest) []int {
		return onlyIf(g.keepsVariables() && g.StateClass == "")
	}},
	{"domain.devices.tpm.persistent", Refused, stateReason, func(g guest) []int {
		return onlyIf(g.keepsTPM() && g.StateClass == "")
	}},
}

// stateReason completes the path of a field that needs state.
const stateReason = "needs storage that outlives the pod: the administrator must mark a default StorageClass, or name one in vmStateStorageClass of " +
	"KubeVirt's configuration"

// keepsVariables reports whether the variables of EFI outlive the pod.
func (g guest) keepsVariables() bool {
	firmware := g.spec.Domain.Firmware
	return firmware != nil && firmware.Bootloader != nil && firmware.Bootloader.EFI != nil && ptr.Deref(firmware.Bootloader.EFI.Persistent, false)
}

func (g guest) hasTPM() bool {
	tpm := g.spec.Domain.Devices.TPM
	return tpm != nil && ptr.Deref(tpm.Enabled, true)
}

func (g guest) keepsTPM() bool {
	return g.hasTPM() && ptr.Deref(g.spec.Domain.Devices.TPM.Persistent, false)
}

// StateClaim returns the PersistentVolumeClaim for EFI variables and TPM state, which outlive the pods of a VMI; nil if the VMI needs no claim or there is no
// storage class for it. The VM owns the claim, or a VMI without a VM does: the claim stays when the VM is stopped, and is deleted with the VM. It is named
// after the VM (StateName).
func StateClaim(in Input) *corev1.PersistentVolumeClaim {
	g := guest{Input: in, spec: &in.VMI.Spec}
	if !g.keepsVariables() && !g.keepsTPM() || in.StateClass == "" {
		return nil
	}
	meta := stateMeta(in.VMI, StateName(in.VMI.Name))
	if g.encryptsTPM() {
		meta.Annotations = map[string]string{v1alpha1.AnnotationTPMKey: in.KeySecret}
	}
	mode, class := corev1.PersistentVolumeFilesystem, in.StateClass
	return &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeMode: &mode,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: stateSize}},
		},
	}
}

// stateMeta returns the metadata of an object that the VM owns, or a VMI without a VM.
func stateMeta(vmi *v1.VirtualMachineInstance, name string) metav1.ObjectMeta {
	owner := metav1.NewControllerRef(vmi, v1.VirtualMachineInstanceGroupVersionKind)
	if vm := metav1.GetControllerOf(vmi); vm != nil {
		owner = vm
	}
	return metav1.ObjectMeta{Name: name, Namespace: vmi.Namespace, OwnerReferences: []metav1.OwnerReference{*owner}}
}

// stateSize is KubeVirt's.
var stateSize = resource.MustParse("10Mi")

// StateName returns the name of the claim for EFI variables and TPM state of a VM.
func StateName(vm string) string { return fitName(statePrefix+vm, longestName) }

const statePrefix = namePrefix + "state-"

// mountState mounts the claim, and the key of a TPM's state.
func (g guest) mountState(m *mounted) {
	if g.keepsVariables() || g.keepsTPM() {
		m.addVolume(corev1.Volume{Name: "state", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: StateName(g.VMI.Name)},
		}}, corev1.VolumeMount{MountPath: State})
	}
	if g.encryptsTPM() {
		// kubelet gives the file to fsGroup, which may read it too. Without items the launcher says what is wrong with a Secret of other data; with
		// items only kubelet would, in events.
		m.addVolume(corev1.Volume{Name: "key", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: g.KeySecret, DefaultMode: new(int32(0o400))},
		}}, corev1.VolumeMount{MountPath: Key, ReadOnly: true})
	}
}

// kernelImage returns the image of firmware.kernelBoot, nil without one.
func (g guest) kernelImage() *v1.KernelBootContainer {
	if firmware := g.spec.Domain.Firmware; firmware != nil && firmware.KernelBoot != nil {
		return firmware.KernelBoot.Container
	}
	return nil
}

// mountKernel mounts the image.
func (g guest) mountKernel(m *mounted) {
	if image := g.kernelImage(); image != nil {
		m.addImage("kernel", Kernel, corev1.ImageVolumeSource{Reference: image.Image, PullPolicy: image.ImagePullPolicy})
	}
}

// pullSecrets returns the pull secrets of the launcher's image and of all images that are mounted.
func (g guest) pullSecrets() (list []corev1.LocalObjectReference) {
	seen := map[string]bool{}
	add := func(name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			list = append(list, corev1.LocalObjectReference{Name: name})
		}
	}
	for _, secret := range g.PullSecrets {
		add(secret.Name)
	}
	for i := range g.spec.Volumes {
		if disk := g.spec.Volumes[i].ContainerDisk; disk != nil {
			add(disk.ImagePullSecret)
		}
	}
	if image := g.kernelImage(); image != nil {
		add(image.ImagePullSecret)
	}
	return list
}
