// Package pod makes the pod of an explicit VMI: what the guest asks of the cluster. The launcher in that pod finds the VMI's volumes at the paths of
// this package, and runs stages 2 and 3 with them.
package pod

import (
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Input is what a pod is made of.
type Input struct {
	// VMI is explicit, and has its UID.
	VMI *v1.VirtualMachineInstance
	// Record is that of an earlier boot, nil at the first.
	Record *record.Record
	// Claims are the PersistentVolumeClaims of the VMI's namespace that its volumes name, by their names. One that is missing does not exist yet.
	Claims map[string]Claim
	Settings
}

// Claim is what the pod must know of a PersistentVolumeClaim.
type Claim struct {
	// Block is true for volumeMode Block: the pod gets a device, not a file system.
	Block bool
	// ReadOnly is true if no access mode of the claim allows writing.
	ReadOnly bool
}

// Network is how guests reach the network of their pod.
type Network string

// Networks.
const (
	// Passt gives the guest the addresses of the pod. It needs nodes with label v1alpha1.LabelPasst.
	Passt Network = "passt"
	// Slirp is QEMU's own NAT: the guest reaches the network, and is not reached.
	Slirp Network = "slirp"
)

// Settings are those of the cluster and of Kiln's administrator.
type Settings struct {
	// Image is that of the launcher. PullPolicy and PullSecrets are for it.
	Image       string
	PullPolicy  corev1.PullPolicy
	PullSecrets []corev1.LocalObjectReference
	Network     Network
	// Emulate asks for no KVM: developerConfiguration.useEmulation.
	Emulate bool
	// CPUAllocationRatio is the number of vCPUs for each CPU that a pod requests; 0 stands for 10, KubeVirt's default (developerConfiguration).
	CPUAllocationRatio int
	// OverheadRatio multiplies the memory overhead; 0 stands for 1 (additionalGuestMemoryOverheadRatio).
	OverheadRatio float64
	// StateClass is the storage class of state that outlives a pod: EFI variables and TPM state (vmStateStorageClass). Empty serves none.
	StateClass string
}

// Result is a pod, and what its owner should know.
type Result struct {
	Pod *corev1.Pod
	// Warnings name fields that have no effect in a pod.
	Warnings []string
}

// namePrefix begins the names of what belongs to one guest's pod: pod, service account, Role and RoleBinding.
const namePrefix = "guest-"

// Name returns the name of the pod of a VMI, and of the service account, the Role and the RoleBinding of its launcher. A name that would be too long
// is cut and ends in a digest of the whole.
func Name(vmi string) string { panic("TODO") }

// Of returns the pod of a VMI. The errors are fields that would make the guest wrong in a pod, each with the reason.
func Of(in Input) (Result, field.ErrorList) { panic("TODO") }
