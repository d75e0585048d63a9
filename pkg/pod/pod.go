// Package pod makes the pod of an explicit VMI: what the guest asks of the cluster. The launcher in that pod finds the VMI's volumes at the paths of
// this package, and runs stages 2 and 3 with them.
package pod

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Input is what a pod is made of.
type Input struct {
	// VMI is explicit, and has its UID.
	VMI *v1.VirtualMachineInstance
	// Record is the hardware record of an earlier boot, nil at the first boot.
	Record *record.Record
	// Claims are the PersistentVolumeClaims of the VMI's namespace that its volumes name, by their names. One that is missing does not exist yet.
	Claims map[string]Claim
	// NetworkResources are the resources that the NetworkAttachmentDefinitions of the VMI's networks ask pods to request, by the networkName of the VMI;
	// empty for one that asks for none (AnnotationResource). One that is missing does not exist.
	NetworkResources map[string]string
	// LimitsDemanded are the resources (cpu, memory) of which a ResourceQuota of the VMI's namespace demands limits. A VMI that sets none gets KubeVirt's:
	// its vCPUs, and twice its memory request.
	LimitsDemanded []corev1.ResourceName
	// KeySecret is the Secret with the key of the TPM's state, as the claim for state names it. Empty leaves the state unencrypted.
	KeySecret string
	Settings
}

// Claim is what the pod must know of a PersistentVolumeClaim.
type Claim struct {
	// Block is true for volumeMode Block: the pod gets a device, not a file system.
	Block bool
	// ReadOnly is true if no access mode of the claim allows writing.
	ReadOnly bool
	// Filling says what fills the claim, in words for the user; empty if it has its content. A guest must not boot from a disk that is half written.
	Filling string
	// Unready is RuleClaimFailed, RuleClaimUnfilled, RuleClaimUnbound, or RuleClaimMissing of a claim that is about to go, where Filling is not empty.
	Unready string
	// Info is for status.volumeStatus of the VMI, where the launcher reads how large a new disk is to be.
	Info v1.PersistentVolumeClaimInfo
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

// Settings are set by the administrator for all pods of a cluster.
type Settings struct {
	// Image is the image of the launcher. PullPolicy and PullSecrets are for it.
	Image       string
	PullPolicy  corev1.PullPolicy
	PullSecrets []corev1.LocalObjectReference
	// Network is how guests reach the network of their pod; empty stands for Passt.
	Network Network
	// Emulate asks for no KVM: developerConfiguration.useEmulation.
	Emulate bool
	// CPUAllocationRatio is the number of vCPUs for each CPU that a pod requests; 0 stands for 10, KubeVirt's default (developerConfiguration).
	CPUAllocationRatio int
	// MemoryOvercommit is how many percent of a pod's memory request its guest gets, where the VMI has no memory request of its own; 0 stands for 100
	// (developerConfiguration.memoryOvercommit).
	MemoryOvercommit int
	// OverheadRatio multiplies the memory overhead; a ratio below 1 stands for 1 (additionalGuestMemoryOverheadRatio).
	OverheadRatio float64
	// StateClass is the storage class of state that outlives a pod: EFI variables and TPM state (vmStateStorageClass). Empty serves none.
	StateClass string
	// Taps says that the NetworkAttachmentDefinitions of the cluster give a pod tap devices that the launcher's account may open, as the CNI plugin tap
	// does with owner 107. Without it no interface has a network of Multus: the launcher may create nothing in its pod's network.
	Taps bool
	// LockedMemory says that containers of the nodes may lock memory without a limit (LimitMEMLOCK=infinity of the container runtime). Without it no VMI
	// has devices that access its memory directly: PCI devices, mediated devices, claims.
	LockedMemory bool
	// PermittedHostDevices is the field of KubeVirt's configuration; nil permits all.
	PermittedHostDevices *v1.PermittedHostDevices
}

// Result is a pod, and what its owner should know.
type Result struct {
	Pod *corev1.Pod
	// Warnings name fields that have no effect in a pod.
	Warnings []string
}

// Container is the name of the only container of a pod, as in KubeVirt.
const Container = "compute"

// Names of the environment variables of the container. The launcher learns from them who it is.
const (
	EnvPodName   = "POD_NAME"
	EnvNamespace = "POD_NAMESPACE"
	EnvPodUID    = "POD_UID"
	EnvNode      = "NODE_NAME"
	EnvVMI       = "VMI_NAME"
	// EnvKeySecret names the Secret that is mounted at Key. It is not set if the TPM's state is not encrypted.
	EnvKeySecret = "TPM_KEY_SECRET"
)

// guest is a VMI on its way into a pod. The VMI is a copy: parts of it become parts of the pod.
type guest struct {
	Input
	spec   *v1.VirtualMachineInstanceSpec
	path   *field.Path
	domain *field.Path
}

// Of returns the pod of a VMI. The errors are fields that would make the guest wrong in a pod, each with the reason. An error of type
// ErrorTypeNotFound is a claim or a NetworkAttachmentDefinition that does not exist yet, or a claim that is being filled: all else being well, the pod can
// be made as soon as they are there.
func Of(in Input) (Result, field.ErrorList) {
	path := field.NewPath("spec")
	in.VMI, in.Network = in.VMI.DeepCopy(), cmp.Or(in.Network, Passt)
	g := guest{Input: in, spec: &in.VMI.Spec, path: path, domain: path.Child("domain")}
	warnings, errs := judge(g)
	storage, missing := g.storage()
	if errs = slices.Concat(errs, missing, g.missingNetworks()); len(errs) > 0 {
		return Result{Warnings: warnings}, errs
	}
	account := Account(in.VMI)
	return Result{Warnings: warnings, Pod: &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(in.VMI.Name), Namespace: in.VMI.Namespace, Labels: g.labels(), Annotations: g.annotations(),
			Finalizers:      []string{v1alpha1.FinalizerGuestPod},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(in.VMI, v1.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: g.placed(corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, // the pod ends with its guest
			Containers:    []corev1.Container{g.container(storage)},
			Volumes:       storage.volumes,
			// The launcher asks the API server with the token of this account.
			ServiceAccountName: account, AutomountServiceAccountToken: new(true),
			SecurityContext:  g.podSecurity(),
			ImagePullSecrets: g.pullSecrets(),
			ResourceClaims:   g.resourceClaims(),
			// Hundreds of variables of a namespace's Services are no business of the launcher's.
			EnableServiceLinks: new(false),
		}),
	}}, nil
}

// container runs 'launcher guest'.
func (g guest) container(storage mounted) corev1.Container {
	return corev1.Container{
		Name: Container, Image: g.Image, ImagePullPolicy: g.PullPolicy,
		Command: []string{Launcher, "guest"}, Args: g.arguments(),
		Env:             g.environment(),
		Ports:           g.ports(),
		Resources:       g.resources(),
		VolumeMounts:    storage.mounts,
		VolumeDevices:   storage.devices,
		ReadinessProbe:  g.probe(g.spec.ReadinessProbe),
		LivenessProbe:   g.probe(g.spec.LivenessProbe),
		SecurityContext: containerSecurity(),
		// A launcher that fails before it can report leaves its last words there.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// arguments tell the launcher the settings of the cluster.
func (g guest) arguments() []string {
	arguments := []string{"--network=" + string(g.Network)}
	if g.Emulate {
		arguments = append(arguments, "--emulate")
	}
	return arguments
}

func (g guest) environment() []corev1.EnvVar {
	list := []corev1.EnvVar{{Name: EnvVMI, Value: g.VMI.Name}}
	for _, v := range []struct{ name, field string }{
		{EnvPodName, "metadata.name"}, {EnvNamespace, "metadata.namespace"}, {EnvPodUID, "metadata.uid"}, {EnvNode, "spec.nodeName"},
	} {
		source := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: v.field}}
		list = append(list, corev1.EnvVar{Name: v.name, ValueFrom: source})
	}
	if g.encryptsTPM() {
		list = append(list, corev1.EnvVar{Name: EnvKeySecret, Value: g.KeySecret})
	}
	return append(list, g.networkVariables()...)
}

// Account returns the name of the service account of a VMI's pod: the one that the VMI names, by itself or by a serviceAccount volume, since a pod has
// one account and can have tokens of no other; else Name. The Role of the launcher is bound to it.
func Account(vmi *v1.VirtualMachineInstance) string {
	if vmi.Spec.ServiceAccountName != "" {
		return vmi.Spec.ServiceAccountName
	}
	named := slices.IndexFunc(vmi.Spec.Volumes, func(v v1.Volume) bool { return v.ServiceAccount != nil && v.ServiceAccount.ServiceAccountName != "" })
	if named >= 0 {
		return vmi.Spec.Volumes[named].ServiceAccount.ServiceAccountName
	}
	return Name(vmi.Name)
}
