// Package pod makes the pod of an explicit VMI. The launcher in the pod finds the VMI's volumes at the paths of this package, and runs stages 2 and 3 with
// them.
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

// Input is everything that a pod depends on.
type Input struct {
	// VMI is explicit, and has its UID.
	VMI *v1.VirtualMachineInstance
	// Record is the hardware record of an earlier boot, nil at the first boot.
	Record *record.Record
	// CPULabels are the labels of the nodes that offer the CPU of the guest; nil if each node may have it.
	CPULabels map[string]string
	// Claims are the PersistentVolumeClaims that the VMI's volumes name, by their names. A claim that is missing here does not exist yet.
	Claims map[string]Claim
	// NetworkResources has the resource that a NetworkAttachmentDefinition asks pods to request (AnnotationResource), by the networkName of the VMI; empty if it
	// asks for none. A NetworkAttachmentDefinition that is missing here does not exist.
	NetworkResources map[string]string
	// LimitsDemanded are the resources (cpu, memory) for which a ResourceQuota of the VMI's namespace demands limits. A VMI without limits then gets KubeVirt's:
	// its vCPUs, and twice its memory request.
	LimitsDemanded []corev1.ResourceName
	// KeySecret is the name of the Secret with the key of the TPM's state, as the claim for state names it. If it is empty, the state is not encrypted.
	KeySecret string
	Settings
}

// Claim has the facts about a PersistentVolumeClaim that a pod depends on.
type Claim struct {
	// Block is true for volumeMode Block: the pod gets a device, not a file system.
	Block bool
	// ReadOnly is true if no access mode of the claim allows writing.
	ReadOnly bool
	// Filling says in words for the user what fills the claim; empty if the claim has its content. A guest must not boot from a half-written disk.
	Filling string
	// Unready is the origin of the error if Filling is not empty: RuleClaimFailed, RuleClaimUnfilled, RuleClaimUnbound, or RuleClaimMissing if the claim is being
	// deleted.
	Unready string
	// Info is copied into status.volumeStatus of the VMI, where the launcher reads the size of a new disk.
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
	// Emulate means that guests do not use KVM: developerConfiguration.useEmulation.
	Emulate bool
	// CPUAllocationRatio is the number of vCPUs for each CPU that a pod requests; 0 stands for 10, KubeVirt's default (developerConfiguration).
	CPUAllocationRatio int
	// MemoryOvercommit is how many percent of a pod's memory request its guest gets, if the VMI has no memory request of its own; 0 stands for 100
	// (developerConfiguration.memoryOvercommit).
	MemoryOvercommit int
	// OverheadRatio multiplies the memory overhead; a ratio below 1 stands for 1 (additionalGuestMemoryOverheadRatio).
	OverheadRatio float64
	// StateClass is the storage class of EFI variables and TPM state that outlive a pod (vmStateStorageClass). If it is empty, VMIs that need it are refused.
	StateClass string
	// Taps means that the NetworkAttachmentDefinitions of the cluster give a pod tap devices that the launcher's account may open, as the CNI plugin tap does with
	// owner 107. Without it no interface can have a network of Multus, because the launcher may create nothing in its pod's network.
	Taps bool
	// LockedMemory means that containers of the nodes may lock memory without a limit (LimitMEMLOCK=infinity of the container runtime). Without it no VMI can have
	// devices that access its memory directly: PCI devices, mediated devices, claims.
	LockedMemory bool
	// PermittedHostDevices is the field of KubeVirt's configuration; nil permits all.
	PermittedHostDevices *v1.PermittedHostDevices
}

// Result is a pod with warnings for the owner of the VMI.
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
	spec *v1.VirtualMachineInstanceSpec
	path *field.Path
}

// New returns the pod of a VMI. An error names a field that a pod cannot give to the guest, and the reason. An error of type ErrorTypeNotFound is about a claim
// or a NetworkAttachmentDefinition that does not exist yet, or about a claim that is being filled: if all errors are of that type, the pod can be made as soon
// as these objects are ready.
func New(in Input) (Result, field.ErrorList) {
	path := field.NewPath("spec")
	in.VMI, in.Network = in.VMI.DeepCopy(), cmp.Or(in.Network, Passt)
	g := guest{Input: in, spec: &in.VMI.Spec, path: path}
	errs, without := applyEffects(g)
	var warnings []string
	for _, field := range without {
		warnings = append(warnings, field.Path.String()+" "+field.Reason)
	}
	storage, missing := g.mountStorage()
	if errs = slices.Concat(errs, missing, g.missingNetworks()); len(errs) > 0 {
		return Result{Warnings: warnings}, errs
	}
	account := Account(in.VMI)
	return Result{Warnings: warnings, Pod: &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(in.VMI.Name), Namespace: in.VMI.Namespace, Labels: g.podLabels(), Annotations: g.podAnnotations(),
			Finalizers:      []string{v1alpha1.FinalizerGuestPod},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(in.VMI, v1.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: g.addScheduling(corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, // the pod ends with its guest
			Containers:    []corev1.Container{g.launcherContainer(storage)},
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

// launcherContainer runs 'launcher guest'.
func (g guest) launcherContainer(storage mounted) corev1.Container {
	return corev1.Container{
		Name: Container, Image: g.Image, ImagePullPolicy: g.PullPolicy,
		Command: []string{Launcher, "guest"}, Args: g.launcherArguments(),
		Env:             g.launcherEnvironment(),
		Ports:           g.containerPorts(),
		Resources:       g.containerResources(),
		VolumeMounts:    storage.mounts,
		VolumeDevices:   storage.devices,
		ReadinessProbe:  g.containerProbe(g.spec.ReadinessProbe),
		LivenessProbe:   g.containerProbe(g.spec.LivenessProbe),
		SecurityContext: containerSecurity(),
		// A launcher that fails before it can report leaves its last words there.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// launcherArguments tell the launcher the settings of the cluster.
func (g guest) launcherArguments() []string {
	arguments := []string{"--network=" + string(g.Network)}
	if g.Emulate {
		arguments = append(arguments, "--emulate")
	}
	return arguments
}

func (g guest) launcherEnvironment() []corev1.EnvVar {
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

// Account returns the name of the service account of a VMI's pod: serviceAccountName of the VMI, else the account of its first serviceAccount volume, else
// Name. A pod can only have tokens of its own account. The Role of the launcher is bound to the account.
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
