package startcheck

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

var now = time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)

// timeAgo is a time before now.
func timeAgo(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// metaOf is the metadata of an object of namespace shop.
func metaOf(name, uid string, age time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid), CreationTimestamp: timeAgo(age)}
}

// vmWithoutVMI is a VM with run strategy Always without a VMI, that was written 10 seconds ago.
func vmWithoutVMI() Objects {
	vm := &v1.VirtualMachine{ObjectMeta: metaOf("web", "vm", 10*time.Second)}
	vm.Spec.RunStrategy = ptr.To(v1.RunStrategyAlways)
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	return Objects{Namespace: "shop", Name: "web", Now: now, Runtime: RuntimeKubeVirt, VM: Lookup[v1.VirtualMachine]{Object: vm},
		Pods: Lookup[corev1.PodList]{Object: &corev1.PodList{}}, Events: Lookup[corev1.EventList]{Object: &corev1.EventList{}}}
}

// vmiPending is a VM whose VMI has no pod.
func vmiPending() Objects {
	o := vmWithoutVMI()
	o.VMI.Object = &v1.VirtualMachineInstance{ObjectMeta: metaOf("web", "vmi", 10*time.Second)}
	o.VMI.Object.Status.Phase = v1.Pending
	return o
}

// podPending is a VM whose VMI has a pod without a node.
func podPending() Objects {
	o := vmiPending()
	o.VMI.Object.Status.Phase = v1.Scheduling
	pod := corev1.Pod{ObjectMeta: metaOf("virt-launcher-web-x", "pod", 5*time.Second)}
	pod.Labels = map[string]string{v1.AppLabel: "virt-launcher", v1.CreatedByLabel: "vmi"}
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	pod.Status.Phase = corev1.PodPending
	o.Pods.Object.Items = []corev1.Pod{pod}
	o.VMI.Object.Status.ActivePods = map[types.UID]string{"pod": ""}
	return o
}

// podStarting is a VM whose pod has a node, and no containers yet.
func podStarting() Objects {
	o := podPending()
	pod := &o.Pods.Object.Items[0]
	pod.Spec.NodeName = "n1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: timeAgo(5 * time.Second)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "compute", Image: "launcher:1",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	return o
}

// podRunning is a VM whose pod runs, and whose domain does not.
func podRunning() Objects {
	o := podStarting()
	o.VMI.Object.Status.Phase, o.VMI.Object.Status.NodeName = v1.Scheduled, "n1"
	pod := &o.Pods.Object.Items[0]
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, ptr.To(timeAgo(3*time.Second))
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	return o
}

// guestRunning is a VM whose guest runs.
func guestRunning() Objects {
	o := podRunning()
	o.VMI.Object.Status.Phase = v1.Running
	return o
}

// ofKiln makes Kiln the runtime.
func ofKiln(o Objects) Objects {
	o.Runtime = RuntimeKiln
	return o
}

// withChanges changes objects.
func withChanges(o Objects, changes ...func(*Objects)) Objects {
	for _, change := range changes {
		change(&o)
	}
	return o
}

func withStrategy(is v1.VirtualMachineRunStrategy) func(*Objects) {
	return func(o *Objects) { o.VM.Object.Spec.RunStrategy = ptr.To(is) }
}

func withFailure(reason, message string) func(*Objects) {
	return func(o *Objects) {
		o.VM.Object.Status.Conditions = append(o.VM.Object.Status.Conditions, v1.VirtualMachineCondition{Type: v1.VirtualMachineFailure,
			Status: corev1.ConditionTrue, Reason: reason, Message: message})
	}
}

func ofVMI(is v1.VirtualMachineInstanceConditionType, status corev1.ConditionStatus, reason, message string) func(*Objects) {
	return func(o *Objects) {
		o.VMI.Object.Status.Conditions = append(o.VMI.Object.Status.Conditions, v1.VirtualMachineInstanceCondition{Type: is, Status: status, Reason: reason,
			Message: message})
	}
}

func withoutSync(reason, message string) func(*Objects) {
	return ofVMI(v1.VirtualMachineInstanceSynchronized, corev1.ConditionFalse, reason, message)
}

func withPhase(is v1.VirtualMachineInstancePhase) func(*Objects) {
	return func(o *Objects) { o.VMI.Object.Status.Phase = is }
}

func podUnscheduled(message string) func(*Objects) {
	return func(o *Objects) {
		o.Pods.Object.Items[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: message}}
	}
}

func containerWaits(reason, message string) func(*Objects) {
	return func(o *Objects) {
		o.Pods.Object.Items[0].Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

func withEvent(uid, kind, reason, message string) func(*Objects) {
	return func(o *Objects) {
		o.Events.Object.Items = append(o.Events.Object.Items, corev1.Event{InvolvedObject: corev1.ObjectReference{UID: types.UID(uid)}, Type: kind,
			Reason: reason, Message: message, LastTimestamp: timeAgo(time.Duration(10-len(o.Events.Object.Items)) * time.Second)})
	}
}

// withDisk gives the VM a volume with a claim, and the claim a state: nil for a claim that does not exist.
func withDisk(claim *corev1.PersistentVolumeClaim, dv *cdi.DataVolume) func(*Objects) {
	return func(o *Objects) {
		spec := o.GuestSpec()
		spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}}}
		o.Claims = map[string]Lookup[corev1.PersistentVolumeClaim]{"root": {Object: claim}}
		o.DataVolumes = map[string]Lookup[cdi.DataVolume]{"root": {Object: dv}}
	}
}

func claimIn(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metaOf("root", "claim", time.Minute)}
	c.Spec.StorageClassName, c.Status.Phase = ptr.To("fast"), phase
	return c
}

func dataVolume(phase cdi.DataVolumePhase, change func(*cdi.DataVolume)) *cdi.DataVolume {
	dv := &cdi.DataVolume{ObjectMeta: metaOf("root", "dv", time.Minute)}
	dv.Status.Phase, dv.Status.Progress = phase, "42.0%"
	if change != nil {
		change(dv)
	}
	return dv
}

func withClass(mode storagev1.VolumeBindingMode) func(*Objects) {
	return func(o *Objects) {
		o.Classes = map[string]Lookup[storagev1.StorageClass]{"fast": {Object: &storagev1.StorageClass{VolumeBindingMode: &mode}}}
	}
}

func withReference(r Reference) func(*Objects) {
	return func(o *Objects) { o.References = []Reference{r} }
}

var found = Lookup[metav1.PartialObjectMetadata]{Object: &metav1.PartialObjectMetadata{}}

const deniedPods = "you may not list pods in namespace 'shop'"

func noPods(o *Objects) { o.Pods = Lookup[corev1.PodList]{Denied: deniedPods} }

// situation is a state of a cluster, and what Check says of it.
type situation struct {
	why     string
	objects Objects
	// step is the first step that is not done; empty if all are.
	step  string
	state State
	// cause is in the sentence, and by is who can act.
	cause string
	by    By
	// wrong reports that the exit status is 1.
	wrong bool
}

func allSituations() []situation {
	quota := `pods "virt-launcher-web-x" is forbidden: exceeded quota: small, requested: limits.memory=2Gi, used: 7Gi, limited: 8Gi`
	return []situation{
		// Nothing is wrong.
		{"runs", guestRunning(), "", "", "The guest runs.", "", false},
		{"runs in Kiln's pod", ofKiln(guestRunning()), "", "", "The guest runs.", "", false},
		{"runs, the caller sees no pods", withChanges(guestRunning(), noPods), "", "", "The guest runs.", "", false},
		{"runs on a bare machine", withChanges(ofKiln(guestRunning()), func(o *Objects) { o.Pods.Object.Items, o.VMI.Object.Status.ActivePods = nil, nil }),
			"", "", "The guest runs.", "", false},
		{"paused by a user", withChanges(guestRunning(), ofVMI(v1.VirtualMachineInstancePaused, corev1.ConditionTrue, "PausedByUser", "VMI was paused by user")),
			"", "", "The guest runs.", "", false},
		{"halted", withChanges(vmWithoutVMI(), withStrategy(v1.RunStrategyHalted)), stepRequested, NotRequested, "is Halted", Owner, false},
		{"halted, and its instancetype is gone", withChanges(vmWithoutVMI(), withStrategy(v1.RunStrategyHalted),
			withReference(Reference{Kind: "VirtualMachineInstancetype", Name: "u1"})),
			stepPinned, Failed, "is Halted", Owner, false},
		{"Manual", withChanges(vmWithoutVMI(), withStrategy(v1.RunStrategyManual)), stepRequested, NotRequested, "nobody has asked for a start", Owner, false},
		{"Manual, started", withChanges(vmWithoutVMI(), withStrategy(v1.RunStrategyManual), withRequest(v1.StartRequest)),
			stepInstance, Waiting, "virt-controller has not made", Nobody, true},
		{"RerunOnFailure after success", withChanges(vmWithoutVMI(), withStrategy(v1.RunStrategyRerunOnFailure),
			func(o *Objects) { o.VM.Object.Status.RunStrategy = v1.RunStrategyRerunOnFailure }),
			stepRequested, NotRequested, "powered off or was stopped", Owner, false},
		{"RerunOnFailure, new", withChanges(vmWithoutVMI(), withStrategy(v1.RunStrategyRerunOnFailure)), stepInstance, Waiting, "has not made", Nobody, true},
		{"Once, succeeded", withChanges(vmiPending(), withStrategy(v1.RunStrategyOnce), withPhase(v1.Succeeded)), stepRequested, NotRequested, "powered off", Owner,
			false},
		{"Once, failed", withChanges(vmiPending(), withStrategy(v1.RunStrategyOnce), withPhase(v1.Failed), ofVMI("Ready", "False", "Crashed", "kernel panic")),
			stepRequested, Failed, "Crashed: kernel panic", Owner, true},
		{"WaitAsReceiver", withChanges(vmWithoutVMI(), withStrategy(v1.RunStrategyWaitAsReceiver)), stepRequested, Waiting, "WaitAsReceiver", Owner, false},
		{"being deleted", withChanges(guestRunning(), func(o *Objects) { o.VM.Object.DeletionTimestamp = ptr.To(timeAgo(5 * time.Second)) }),
			stepRequested, Waiting, "is being deleted", Nobody, false},
		{"deletion hangs", withChanges(vmWithoutVMI(), func(o *Objects) {
			o.VM.Object.DeletionTimestamp, o.VM.Object.Finalizers = ptr.To(timeAgo(time.Hour)), []string{"example.com/never"}
		}), stepRequested, Failed, "VirtualMachine 'web' hangs (finalizers example.com/never)", Admin, true},
		{"being stopped", withChanges(guestRunning(), withStrategy(v1.RunStrategyHalted)), stepRequested, Waiting, "is being stopped", Nobody, false},
		{"restored", withChanges(vmWithoutVMI(), func(o *Objects) { o.VM.Object.Status.RestoreInProgress = ptr.To("r") }),
			stepRequested, Waiting, "restored from a snapshot", Nobody, true},

		// Admission, instancetype, revisions.
		{"refused", withChanges(vmWithoutVMI(), refusedByKiln("spec.template: Required value")),
			stepAdmitted, Failed, "Kiln would refuse the VM: spec.template: Required value", Owner, true},
		{"refused, but a quota keeps it", withChanges(vmWithoutVMI(), refusedByKiln("spec: x"), withFailure("FailedCreate", quota)),
			stepInstance, Failed, "exceeded quota: small", OwnerOrAdmin, true},
		{"refused, and runs", withChanges(guestRunning(), refusedByKiln("spec: x")), "", "", "The guest runs.", "", false},
		{"no instancetype", withChanges(vmWithoutVMI(), withReference(Reference{Kind: "VirtualMachineClusterInstancetype", Name: "u1.small"})), stepPinned, Failed,
			"VirtualMachineClusterInstancetype 'u1.small' does not exist", OwnerOrAdmin, true},
		{"no instancetype, as KubeVirt says", withChanges(vmWithoutVMI(), withReference(Reference{Kind: "VirtualMachineInstancetype", Name: "u1",
			Found: Lookup[metav1.PartialObjectMetadata]{Denied: "no"}}),
			withFailure("FailedFindInstancetype", `virtualmachineinstancetype "u1" not found`)), stepPinned, Failed, `"u1" not found`, OwnerOrAdmin, true},
		{"no revision", withChanges(vmWithoutVMI(), withReference(Reference{Kind: "VirtualMachineClusterInstancetype", Name: "u1.small", Revision: "web-u1"})),
			stepPinned, Failed, "ControllerRevision 'web-u1'", Owner, true},
		{"instancetypes may not be read", withChanges(vmWithoutVMI(), withReference(Reference{Kind: "VirtualMachineClusterInstancetype", Name: "u1",
			Found: Lookup[metav1.PartialObjectMetadata]{
				Denied: "you may not get it in the cluster"}}), withFailure("FailedCreate", quota)), stepPinned, Unknown, "exceeded quota: small", OwnerOrAdmin, true},

		// Volumes and networks.
		{"no claim", withChanges(vmiPending(), withDisk(nil, nil)), stepVolumes, Failed, "PersistentVolumeClaim 'root' does not exist", Owner, true},
		{"claim that waits for the pod", withChanges(podPending(), withDisk(claimIn(corev1.ClaimPending), nil),
			withClass(storagev1.VolumeBindingWaitForFirstConsumer),
			podUnscheduled("0/3 nodes are available: 3 Insufficient memory.")), stepScheduled, Failed, "no node has room", OwnerOrAdmin, true},
		{"the same by an event", withChanges(podPending(), withDisk(claimIn(corev1.ClaimPending), nil),
			withEvent("claim", "Normal", "WaitForFirstConsumer", "waiting for first consumer"),
			podUnscheduled("0/3 nodes are available: 3 Insufficient memory.")), stepScheduled, Failed, "no node has room", OwnerOrAdmin, true},
		{"claim of unknown binding", withChanges(podPending(), withDisk(claimIn(corev1.ClaimPending), nil), func(o *Objects) {
			o.Classes = map[string]Lookup[storagev1.StorageClass]{"fast": {Denied: "you may not get storageclasses in the cluster"}}
		}, podUnscheduled("0/3 nodes are available: 3 Insufficient memory.")), stepVolumes, Unknown, "no node has room", OwnerOrAdmin, true},
		{"claim unbound", withChanges(vmiPending(), withDisk(claimIn(corev1.ClaimPending), nil), withClass(storagev1.VolumeBindingImmediate)),
			stepVolumes, Waiting, "has not made the volume", Nobody, true},
		{"provisioning fails", withChanges(vmiPending(), withDisk(claimIn(corev1.ClaimPending), nil), withEvent("claim", "Warning", "ProvisioningFailed",
			"pool is full")),
			stepVolumes, Failed, "pool is full", OwnerOrAdmin, true},
		{"no storage class", withChanges(vmiPending(), withDisk(claimIn(corev1.ClaimPending), nil)), stepVolumes, Failed, "there is no StorageClass 'fast'",
			OwnerOrAdmin, true},
		{"claim lost", withChanges(vmiPending(), withDisk(claimIn(corev1.ClaimLost), nil)), stepVolumes, Failed, "has lost its PersistentVolume", Admin, true},
		{"import goes on", withChanges(vmiPending(), withDisk(claimIn(corev1.ClaimBound), dataVolume(cdi.ImportInProgress, nil))),
			stepVolumes, Waiting, "ImportInProgress 42.0%", Nobody, true},
		{"import fails again and again", withChanges(vmiPending(), withDisk(claimIn(corev1.ClaimBound), dataVolume(cdi.ImportInProgress, func(dv *cdi.DataVolume) {
			dv.Status.RestartCount = 3
			dv.Status.Conditions = []cdi.DataVolumeCondition{{Type: cdi.DataVolumeRunning, Status: "False", Reason: "Error", Message: "404 Not Found"}}
		}))), stepVolumes, Failed, "404 Not Found", Owner, true},
		{"import failed", withChanges(vmiPending(), withDisk(claimIn(corev1.ClaimBound), dataVolume(cdi.Failed, nil))), stepVolumes, Failed, "its phase is Failed",
			Owner, true},
		{"import waits for the pod", withChanges(podPending(), withDisk(claimIn(corev1.ClaimPending), dataVolume(cdi.WaitForFirstConsumer, nil))),
			stepScheduled, Waiting, "has not chosen a node", Nobody, true},
		{"the same with Kiln", withChanges(ofKiln(vmiPending()), withDisk(claimIn(corev1.ClaimPending), dataVolume(cdi.WaitForFirstConsumer, nil))),
			stepVolumes, Failed, "first consumer", Owner, true},
		{"DataVolume of a template", withChanges(vmWithoutVMI(), withTemplate, withDisk(nil, nil)), stepVolumes, Waiting, "virt-controller has not made it", Nobody,
			true},
		{"DataVolume of a template with Kiln", withChanges(ofKiln(vmWithoutVMI()), withTemplate, withDisk(nil, nil)), stepVolumes, Waiting,
			"Kiln's controller has not made it", Nobody, true},
		{"clone that is not allowed with Kiln", withChanges(ofKiln(vmWithoutVMI()), withTemplate, withDisk(nil, nil),
			withFailure("UnauthorizedDataVolumeCreate", "ServiceAccount 'shop/default' may not clone PersistentVolumeClaim 'golden/image'")),
			stepVolumes, Failed, "may not clone", Admin, true},
		{"old event of a clone with Kiln", withChanges(ofKiln(vmWithoutVMI()), withTemplate, withDisk(nil, nil),
			withEvent("vm", "Warning", "UnauthorizedDataVolumeCreate", "User default cannot clone")), stepVolumes, Waiting, "has not made it", Nobody, true},
		{"nobody fills with Kiln", withChanges(ofKiln(vmWithoutVMI()), withTemplate, withDisk(nil, nil),
			withFailure("FailedDataVolumeCreate", "there is no PersistentVolumeClaim 'root': install Containerized Data Importer (CDI), or create the claim")),
			stepVolumes, Failed, "install Containerized Data Importer", OwnerOrAdmin, true},
		{"populated with its pod with Kiln", withChanges(ofKiln(podPending()), withDisk(claimIn(corev1.ClaimPending), dataVolume(cdi.PendingPopulation, nil))),
			stepScheduled, Waiting, "has not chosen a node", Nobody, true},
		{"clone that is not allowed", withChanges(vmWithoutVMI(), withTemplate, withDisk(nil, nil), withEvent("vm", "Warning", "UnauthorizedDataVolumeCreate",
			"User default cannot clone")),
			stepVolumes, Failed, "cannot clone", Admin, true},
		{"claims may not be read", withChanges(vmiPending(), withDisk(nil, nil), func(o *Objects) {
			o.Claims["root"] = Lookup[corev1.PersistentVolumeClaim]{Denied: "you may not get persistentvolumeclaims in namespace 'shop'"}
		}, withoutSync("FailedPvcNotFound", "PVC shop/root does not exist, waiting for it to appear")),
			stepVolumes, Unknown, "PVC shop/root does not exist", Owner, true},
		{"no network", withChanges(vmiPending(), withMultus(Lookup[metav1.PartialObjectMetadata]{})),
			stepNetworks, Failed, "NetworkAttachmentDefinition 'shop/lan'", OwnerOrAdmin, true},
		{"no Multus", withChanges(vmiPending(), withMultus(Lookup[metav1.PartialObjectMetadata]{Unserved: true})),
			stepNetworks, Failed, "Multus is not installed", OwnerOrAdmin, true},
		{"a network that exists", withChanges(vmiPending(), withMultus(found)), stepPod, Waiting, "has not made its pod yet", Nobody, true},

		// The VMI and its pod.
		{"quota", withChanges(vmWithoutVMI(), withFailure("FailedCreate", quota)), stepInstance, Failed, "exceeded quota: small", OwnerOrAdmin, true},
		{"webhook away", withChanges(vmWithoutVMI(), withFailure("FailedCreate", `Failure while starting VMI: failed calling webhook "x"`)),
			stepInstance, Failed, "a webhook does not answer", Admin, true},
		{"back-off", withChanges(vmWithoutVMI(), func(o *Objects) {
			o.VM.Object.Status.StartFailure = &v1.VirtualMachineStartFailure{ConsecutiveFailCount: 3, RetryAfterTimestamp: ptr.To(metav1.NewTime(now.Add(time.Minute)))}
		}), stepInstance, Waiting, "3 in a row; the next one starts at 2026-11-02T10:01:00Z", Owner, true},
		{"replaced", withChanges(vmiPending(), withPhase(v1.Failed), ofVMI("Ready", "False", "Crashed", "QEMU was killed")),
			stepInstance, Waiting, "QEMU was killed", Nobody, true},
		{"VMI that is stopped first", withChanges(guestRunning(), func(o *Objects) { o.VMI.Object.DeletionTimestamp = ptr.To(timeAgo(time.Second)) }),
			stepInstance, Waiting, "is being stopped", Nobody, true},
		{"VMI whose deletion hangs", withChanges(guestRunning(), func(o *Objects) { o.VMI.Object.DeletionTimestamp = ptr.To(timeAgo(time.Hour)) }),
			stepInstance, Failed, "deletion of VirtualMachineInstance 'web' hangs", Admin, true},
		{"silent controller", withChanges(vmWithoutVMI(), func(o *Objects) { o.VM.Object.CreationTimestamp = timeAgo(time.Hour) }),
			stepInstance, Failed, "does not say why", Admin, true},
		{"VM that was just edited", withChanges(vmWithoutVMI(), func(o *Objects) {
			o.VM.Object.CreationTimestamp = timeAgo(time.Hour)
			o.VM.Object.ManagedFields = []metav1.ManagedFieldsEntry{{Time: ptr.To(timeAgo(time.Second))}}
		}), stepInstance, Waiting, "has not made", Nobody, true},
		{"VMI may not be read", withChanges(vmWithoutVMI(), func(o *Objects) { o.VMI.Denied = "you may not get virtualmachineinstances in namespace 'shop'" }),
			stepInstance, Unknown, "you may not get virtualmachineinstances", Admin, true},
		{"pod refused", withChanges(vmiPending(),
			withoutSync("FailedCreate", `failed to create pod for vmi shop/web, it needs a privileged namespace to run: violates PodSecurity "restricted"`)),
			stepPod, Failed, "Pod Security forbids", OwnerOrAdmin, true},
		{"no Secret", withChanges(ofKiln(vmiPending()), withoutSync("NotPlaceable", "no Secret 'later' in this namespace")),
			stepPod, Failed, "no Secret 'later'", Owner, true},
		{"pod refused, by an event", withChanges(vmiPending(), withEvent("vmi", "Warning", "FailedCreate", "Error creating pod: "+quota)),
			stepPod, Failed, "exceeded quota", OwnerOrAdmin, true},
		{"silent controller of pods", withChanges(vmiPending(), func(o *Objects) { o.VMI.Object.CreationTimestamp = timeAgo(time.Hour) }),
			stepPod, Failed, "has not made its pod, and does not say why", Admin, true},
		{"pod gone", withChanges(podRunning(), func(o *Objects) { o.Pods.Object.Items = nil }), stepPod, Failed, "its pod was deleted", Nobody, true},
		{"pod evicted", withChanges(podStarting(), podEnds("Evicted", "The node was low on resource: memory")), stepPod, Failed, "kubelet evicted", OwnerOrAdmin,
			true},
		{"pods may not be listed", withChanges(vmiPending(), noPods), stepPod, Unknown, "step 'pod' is not known: " + deniedPods, Admin, true},
		{"pods may not be listed, and KubeVirt says why", withChanges(vmiPending(), noPods, withPhase(v1.Scheduling),
			ofVMI("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")),
			stepScheduled, Failed, "no node has room", OwnerOrAdmin, true},
		{"pods may not be listed, and Kiln says why", withChanges(ofKiln(vmiPending()), noPods, withPhase(v1.Scheduling), withoutSync("ErrImagePull",
			"none:1: no such host")),
			stepScheduled, Unknown, "registry of an image", OwnerOrAdmin, true},

		// Scheduler, kubelet, libvirt.
		{"no memory", withChanges(podPending(), podUnscheduled("0/3 nodes are available: 3 Insufficient memory. preemption: 0/3 nodes are available.")),
			stepScheduled, Failed, "no node has room", OwnerOrAdmin, true},
		{"gated", withChanges(podPending(), func(o *Objects) {
			o.Pods.Object.Items[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: "SchedulingGated", Message: "blocked"}}
		}), stepScheduled, Failed, "scheduling gates", Admin, true},
		{"silent scheduler", withChanges(podPending(), func(o *Objects) { o.Pods.Object.Items[0].CreationTimestamp = timeAgo(time.Hour) }),
			stepScheduled, Failed, "the scheduler 'default-scheduler'", Admin, true},
		{"Kiln's volume that is bound", withChanges(ofKiln(podPending()), withoutSync("WaitingForVolumeBinding", "the pod waits for PersistentVolumeClaim 'a'")),
			stepScheduled, Failed, "waits for a volume", Nobody, true},
		{"image", withChanges(podStarting(), containerWaits("ImagePullBackOff", `Back-off pulling image "os:2": not found`)),
			stepContainers, Failed, "an image cannot be pulled", Owner, true},
		{"Secret of a volume", withChanges(podStarting(), withEvent("pod", "Warning", "FailedMount",
			`MountVolume.SetUp failed for volume "a" : secret "keys" not found`)),
			stepContainers, Failed, `secret "keys"`, Owner, true},
		{"NetworkAttachmentDefinition that Multus does not find", withChanges(podStarting(), withEvent("pod", "Warning", "FailedCreatePodSandBox",
			`failed to setup network: network-attachment-definitions.k8s.cni.cncf.io "lan" not found`)), stepContainers, Failed, `"lan" not found`, OwnerOrAdmin, true},
		{"init container fails", withChanges(podStarting(), func(o *Objects) {
			o.Pods.Object.Items[0].Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}}}}
		}), stepContainers, Failed, "container 'init' ended with exit code 2", OwnerOrAdmin, true},
		{"node down", withChanges(podStarting(), func(o *Objects) {
			o.Node.Object = &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: "Unknown", Message: "Kubelet stopped posting node status."}}}}
		}), stepContainers, Failed, "Node 'n1' does not work", Admin, true},
		{"large image", podStarting(), stepContainers, Waiting, "kubelet prepares its containers", Nobody, true},
		{"large image of a disk in a pod of Kiln, whose VMI is Scheduled when the pod has a node", withChanges(ofKiln(podStarting()), withPhase(v1.Scheduled)),
			stepContainers, Waiting, "kubelet prepares its containers", Nobody, true},
		{"the same, events may not be read", withChanges(podStarting(), func(o *Objects) {
			o.Events = Lookup[corev1.EventList]{Denied: "you may not list events in namespace 'shop'"}
		}),
			stepContainers, Waiting, "you may not list events", Nobody, true},
		{"libvirt refuses, KubeVirt", withChanges(podRunning(),
			withoutSync("Synchronizing with the Domain failed.", "server error. command SyncVMI failed: unknown CPU model Haswel")),
			stepDomain, Failed, "unknown CPU model Haswel", OwnerOrAdmin, true},
		{"libvirt refuses, Kiln", withChanges(ofKiln(podRunning()), withoutSync("StartFailed", "unknown CPU model Haswel")),
			stepDomain, Failed, "unknown CPU model Haswel", OwnerOrAdmin, true},
		{"bare machine", withChanges(ofKiln(podRunning()), func(o *Objects) { o.Pods.Object.Items, o.VMI.Object.Status.ActivePods = nil, nil },
			withoutSync("NotBindable", "no bridge 'br0'")),
			stepDomain, Failed, "no bridge 'br0'", OwnerOrAdmin, true},
		{"domain is started", podRunning(), stepDomain, Waiting, "has not started the domain yet", Nobody, true},
		{"domain that is not started", withChanges(podRunning(), func(o *Objects) { o.Pods.Object.Items[0].Status.StartTime = ptr.To(timeAgo(time.Hour)) }),
			stepDomain, Failed, "within 5 minutes", OwnerOrAdmin, true},
		{"node lost", withChanges(podRunning(), withPhase(v1.Unknown), ofVMI("Ready", "False", "NodeUnresponsive", "node stopped")),
			stepDomain, Failed, "does not answer: NodeUnresponsive", Admin, true},
		{"disk is full", withChanges(guestRunning(), ofVMI(v1.VirtualMachineInstancePaused, corev1.ConditionTrue, "PausedIOError", "ENOSPC")),
			stepGuest, Failed, "a disk cannot be read or written: ENOSPC", OwnerOrAdmin, true},
		{"a reason that nobody knows", withChanges(podRunning(), withoutSync("Strange", "moon phase")),
			stepDomain, Failed, "reports 'Strange: moon phase'", OwnerOrAdmin, true},

		// A VMI without a VM, and a VM that may not be read.
		{"VMI alone runs", withChanges(guestRunning(), vmiAlone), "", "", "The guest runs.", "", false},
		{"VMI alone, succeeded", withChanges(vmiPending(), vmiAlone, withPhase(v1.Succeeded)), stepInstance, NotRequested, "powered off", Owner, false},
		{"VMI alone, failed", withChanges(vmiPending(), vmiAlone, withPhase(v1.Failed)), stepInstance, Failed, "nothing starts another one", Owner, true},
		{"VM may not be read", withChanges(podPending(), func(o *Objects) {
			o.VM = Lookup[v1.VirtualMachine]{Denied: "you may not get virtualmachines in namespace 'shop'"}
		},
			podUnscheduled("0/1 nodes are available: 1 Insufficient cpu.")), stepAdmitted, Unknown, "no node has room", OwnerOrAdmin, true},
	}
}

func withRequest(action v1.StateChangeRequestAction) func(*Objects) {
	return func(o *Objects) {
		o.VM.Object.Status.StateChangeRequests = []v1.VirtualMachineStateChangeRequest{{Action: action}}
	}
}

func refusedByKiln(text string) func(*Objects) {
	return func(o *Objects) { o.VM.Object.Annotations = map[string]string{v1alpha1.AnnotationRefused: text} }
}

func withTemplate(o *Objects) {
	o.VM.Object.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "root"}}}
}

func withMultus(lan Lookup[metav1.PartialObjectMetadata]) func(*Objects) {
	return func(o *Objects) {
		o.GuestSpec().Networks = []v1.Network{{Name: "lan", NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "lan"}}}}
		o.Networks = map[string]Lookup[metav1.PartialObjectMetadata]{"shop/lan": lan}
	}
}

func podEnds(reason, message string) func(*Objects) {
	return func(o *Objects) {
		status := &o.Pods.Object.Items[0].Status
		status.Phase, status.Reason, status.Message = corev1.PodFailed, reason, message
	}
}

func vmiAlone(o *Objects) { o.VM = Lookup[v1.VirtualMachine]{} }

// TestSituations: the first step that is not done, the cause, who can act, and whether anything is wrong.
func TestSituations(t *testing.T) {
	t.Parallel()
	for _, s := range allSituations() {
		t.Run(s.why, func(t *testing.T) {
			t.Parallel()
			a := CheckStart(s.objects)
			step, state := "", State("")
			for _, is := range a.Steps {
				if is.State != Done {
					step, state = is.Step, is.State
					break
				}
			}
			if step != s.step || state != s.state || !strings.Contains(a.Cause, s.cause) || a.By != s.by || a.AsRequested == s.wrong {
				t.Errorf("%+v\nwant step '%s' %s, '%s', by '%s', wrong %t", a, s.step, s.state, s.cause, s.by, s.wrong)
			}
			checkForm(t, a)
		})
	}
}

// checkForm checks what holds for each answer: one line each, no placeholder, and a remedy or nobody who could act.
func checkForm(t *testing.T, a Answer) {
	t.Helper()
	texts := append([]string{a.Object, a.Cause, a.Remedy}, a.Notes...)
	for _, s := range a.Steps {
		texts = append(texts, s.Object, s.Detail)
		if s.State == Failed && s.Detail == "" {
			t.Errorf("step '%s' failed without a detail", s.Step)
		}
	}
	for _, text := range texts {
		if strings.ContainsAny(text, "\n\t\r\x1b\u202e{}") || len(text) > 4*longestText {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
	if !strings.HasSuffix(a.Cause, ".") || a.Remedy != "" && !strings.HasSuffix(a.Remedy, ".") {
		t.Errorf("no sentence: '%s' '%s'", a.Cause, a.Remedy)
	}
	if !a.AsRequested && a.Remedy == "" && a.By != Nobody || !a.AsRequested && a.By == "" {
		t.Errorf("nobody knows what to do: %+v", a)
	}
}
