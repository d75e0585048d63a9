package startcheck

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// messages are texts as scheduler, kubelet, container runtimes, CDI and KubeVirt write them, with the cause that the table must find.
var messages = []struct{ step, reason, message, cause string }{
	{stepPinned, "FailedPin", "revision 'a' is not in this namespace", "revision missing"},
	{stepRequested, "runStrategy", "Running and RunStrategy are mutually exclusive", "run strategy"},
	{stepVolumes, reasonClaimDeleted, "it is being deleted", "claim deleted"},
	{stepVolumes, "ErrExceededQuota", `persistentvolumeclaims "root" is forbidden: exceeded quota: storage, requested: requests.storage=10Gi`, "quota of claims"},
	{stepVolumes, "FailedDataVolumeCreate", "Error creating DataVolume root: admission webhook denied", "no DataVolume"},
	{stepVolumes, reasonUploadAwaited, "it waits for an upload", "upload awaited"},
	{stepVolumes, reasonImportPaused, "it waits for its next checkpoint", "import paused"},
	{stepVolumes, "FailedBinding", "no persistent volumes available for this claim and no storage class is set", "no volume"},
	{stepInstance, "FailedCreate", `failed quota: small: must specify limits.cpu for: compute`, "quota needs limits"},
	{stepPod, "FailedCreate", `pods "a" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`, "limit range"},
	{stepInstance, "FailedCreate", `Failure while starting VMI: admission webhook "vmi.example" denied the request: spec.domain: x`, "denied"},
	{stepPod, "FailedCreate", `pods is forbidden: User "system:serviceaccount:kubevirt:kubevirt-controller" cannot create resource "pods"`, "controller may not"},
	{stepInstance, "NameTaken", "VMI 'web' belongs to another VM", "name taken"},
	{stepPod, "FailedDataVolumeImport", "DataVolume root failed", "import failed"},
	{stepPod, "Provisioning", "DataVolume 'root' is at 40 %", "provisioning"},
	{stepPod, "BackendStorageNotReady", "PVC pending", "state not ready"},
	{stepPod, "NotExplicit", "the spec has not been through admission", "not admitted"},
	{stepPod, reasonPodEnded, "it ended; container 'compute' ended with exit code 137: OOMKilled", "out of memory"},
	{stepPod, "OutOfcpu", "it ended; OutOfcpu: Node didn't have enough resource: cpu", "rejected by kubelet"},
	{stepPod, reasonPodEnded, "it ended; container 'compute' ended with exit code 1: Error", "pod ended"},
	{stepPod, reasonPodStops, "it is being deleted", "pod stops"},
	{stepScheduled, "Unschedulable", "no nodes available to schedule pods", "no nodes"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: none", "claims of the pod"},
	{stepScheduled, "Unschedulable", `0/1 nodes are available: persistentvolumeclaim "root" not found.`, "claims of the pod"},
	{stepScheduled, "Unschedulable", "0/5 nodes are available: 1 Insufficient memory, 2 node(s) had untolerated taint {a: }, 2 Insufficient cpu.", "no node fits"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory.", "no room"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 3 Insufficient hugepages-2Mi.", "no room"},
	{stepScheduled, "NoNodeLargeEnough", "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}.", "too large"},
	{stepScheduled, "NoNodeHasHugePages", "0/3 nodes are available: 3 Insufficient hugepages-2Mi.", "too many huge pages"},
	{stepScheduled, "NoNodeHasCPU", "no node offers the CPU of the guest: 2 nodes lack CPU features pcommit", "no CPU"},
	{stepScheduled, "NoNodeHasDevice", "0/3 nodes are available: 3 Insufficient devices.kubevirt.io/kvm.", "no KVM anywhere"},
	{stepScheduled, "NoNodeHasDevice", "0/3 nodes are available: 3 Insufficient nvidia.com/A100.", "too many devices"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 3 Insufficient devices.kubevirt.io/kvm.", "no KVM"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/A100.", "no device"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 3 node(s) had volume node affinity conflict.", "volume elsewhere"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.", "spread"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "no matching node"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 3 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.", "tainted"},
	{stepScheduled, "Unschedulable", "0/3 nodes are available: 3 node(s) were unschedulable.", "tainted"},
	{stepContainers, "ErrImagePull", `container 'a': failed to authorize: 401 Unauthorized`, "no right to pull"},
	{stepContainers, "ErrImagePull", `dial tcp: lookup registry.example: no such host`, "registry away"},
	{stepContainers, "InvalidImageName", `couldn't parse image name`, "image"},
	{stepContainers, "CreateContainerConfigError", `secret "a" not found`, "configuration of a container"},
	{stepContainers, "CreateContainerError", `context deadline exceeded`, "container not created"},
	{stepContainers, "FailedMount", `MountVolume.SetUp failed for volume "a" : configmap "b" not found`, "secret missing"},
	{stepContainers, "FailedMount", `MountVolume.SetUp failed for volume "a" : references non-existent secret key: b`, "secret missing"},
	{stepContainers, "FailedAttachVolume", `Multi-Attach error for volume "a" Volume is already used by pod(s) b`, "attached elsewhere"},
	{stepContainers, "FailedMount", `MountVolume.MountDevice failed for volume "a" : rpc error: code = Internal`, "volume not mounted"},
	{stepContainers, "FailedCreatePodSandBox", `plugin type="cilium-cni" failed (add): unable to connect`, "sandbox"},
	{stepContainers, "FailedPrepareDynamicResources", `driver a is not registered`, "resource claim"},
	{stepContainers, "CrashLoopBackOff", "container 'compute' ended with exit code 1", "container ended"},
	{stepContainers, reasonContainersSilent, "kubelet has not started the containers, and does not say why", "containers silent"},
	{stepDomain, "Synchronizing with the Domain failed.", "Could not access KVM kernel module: /dev/kvm", "no KVM in the pod"},
	{stepDomain, "HardwareAwaited", "the controller has not written it", "hardware awaited"},
	{stepGuest, "PausedByWatchdog", "a", "watchdog"},
	{stepGuest, "PausedCrashed", "a", "panic"},
	{stepGuest, "PausedMigrationFailed", "a", "migration failed"},
}

// TestEachCauseIsFound: each entry of the table is the first that fits some message or situation, and each has what an answer needs.
func TestEachCauseIsFound(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	for _, m := range messages {
		got := causeOf(verdict{m.step, finding{reason: m.reason, message: m.message}})
		if got.name != m.cause {
			t.Errorf("%s %s '%s': the cause is '%s', want '%s'", m.step, m.reason, m.message, got.name, m.cause)
		}
		reached[m.cause] = true
	}
	for _, s := range allSituations() {
		for _, is := range chain {
			if is.ofVM && !s.objects.hasVM() {
				continue
			}
			if f := is.find(s.objects); f.state == Failed || f.state == Waiting || f.state == NotRequested {
				reached[causeOf(verdict{is.name, f}).name] = true
			}
		}
	}
	names := map[string]bool{}
	for _, c := range causes {
		if !reached[c.name] {
			t.Errorf("nothing has the cause '%s'", c.name)
		}
		if names[c.name] {
			t.Errorf("two causes are '%s'", c.name)
		}
		names[c.name] = true
		if (c.because == "") == (c.sentence == "") || c.by == "" || c.remedy == "" && c.by != Nobody {
			t.Errorf("the entry '%s' is not complete", c.name)
		}
	}
}

// hostile begins a line, moves the cursor, turns the direction of writing, and contains placeholders of the table. It is long.
var hostile = "a\x1b[2J\r\nRemedy: run it\t\u202e{remedy}{vm}{describe}" + strings.Repeat("é", 1<<20)

// TestTextsOfTenants: texts that a tenant writes stay on one line, are bounded, and insert nothing.
func TestTextsOfTenants(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Objects{
		"annotation": withChanges(vmWithoutVMI(), refusedByKiln(hostile)),
		"failure":    withChanges(vmWithoutVMI(), withFailure(hostile, hostile)),
		"condition":  withChanges(podRunning(), withoutSync(hostile, hostile)),
		"scheduler":  withChanges(podPending(), podUnscheduled(hostile)),
		"container":  withChanges(podStarting(), containerWaits("ErrImagePull", hostile)),
		"event":      withChanges(podStarting(), withEvent("pod", "Warning", "FailedMount", hostile)),
		"pod":        withChanges(podStarting(), podEnds(hostile, hostile)),
		"reference":  withChanges(vmWithoutVMI(), withReference(Reference{Kind: hostile, Name: hostile})),
		"revision":   withChanges(vmWithoutVMI(), withReference(Reference{Kind: "a", Name: "b", Revision: hostile})),
		"strategy":   withChanges(vmWithoutVMI(), withStrategy(v1.VirtualMachineRunStrategy(hostile))),
		"finalizers": withChanges(vmWithoutVMI(), func(o *Objects) {
			o.VM.Object.DeletionTimestamp, o.VM.Object.Finalizers = &metav1.Time{Time: now.Add(-1e15)}, []string{hostile}
		}),
		"restore":   withChanges(vmWithoutVMI(), func(o *Objects) { o.VM.Object.Status.RestoreInProgress = &hostile }),
		"names":     withChanges(vmWithoutVMI(), func(o *Objects) { o.Name, o.Namespace = hostile, hostile }),
		"node":      withChanges(guestRunning(), func(o *Objects) { o.VMI.Object.Status.NodeName, o.Pods.Object.Items = hostile, nil }, noPods),
		"pause":     withChanges(guestRunning(), ofVMI(v1.VirtualMachineInstancePaused, corev1.ConditionTrue, hostile, hostile)),
		"not ready": withChanges(guestRunning(), ofVMI(v1.VirtualMachineInstanceReady, corev1.ConditionFalse, hostile, hostile)),
		"phase":     withChanges(vmiPending(), withPhase(v1.VirtualMachineInstancePhase(hostile))),
		"data volume": withChanges(vmiPending(), withDisk(nil, dataVolume("ImportInProgress", nil)),
			func(o *Objects) { o.DataVolumes["root"].Object.Status.Progress = "a\nb{vm}" }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := CheckStart(o)
			for _, text := range append([]string{a.Object, a.Cause, a.Remedy}, a.Notes...) {
				checkText(t, text)
			}
			for _, s := range a.Steps {
				checkText(t, s.Object)
				checkText(t, s.Detail)
			}
		})
	}
}

func checkText(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsAny(text, "\n\t\r\x1b\u202e") || len(text) > 4*longestText {
		t.Errorf("%d bytes: %.300q", len(text), text)
	}
	if strings.Contains(text, "run it") && !strings.Contains(text, "run it ?{remedy}{vm}{describe}") {
		t.Errorf("a placeholder of a tenant was filled: %.300q", text)
	}
}

// TestPodOfTheGuest: of the pods with the label of a VMI, pods that bind claims, targets of migrations and ended ones are not the pod of the guest.
func TestPodOfTheGuest(t *testing.T) {
	t.Parallel()
	o := guestRunning()
	guests := o.Pods.Object.Items[0]
	other := func(name string, change func(*corev1.Pod)) corev1.Pod {
		p := *guests.DeepCopy()
		p.Name, p.UID, p.CreationTimestamp = name, "other", metav1.NewTime(now)
		change(&p)
		return p
	}
	o.Pods.Object.Items = []corev1.Pod{
		other("binds", func(p *corev1.Pod) { p.Annotations = map[string]string{v1.EphemeralProvisioningObject: "true"} }),
		other("target", func(p *corev1.Pod) { p.Labels[v1.MigrationJobLabel] = "m" }),
		other("attaches", func(p *corev1.Pod) { p.Labels[v1.AppLabel] = "hotplug-disk" }),
		other("foreign", func(p *corev1.Pod) { p.Labels[v1.CreatedByLabel] = "another" }),
		other("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		guests,
	}
	if got := o.LauncherPod(); got == nil || got.Name != guests.Name {
		t.Errorf("the pod is %v", got)
	}
}

// TestReferences: the order of a revision in the spec, Kiln's pin and KubeVirt's status, and the bound of references.
func TestReferences(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "u1.small"}
	vm.Spec.Preference = &v1.PreferenceMatcher{InferFromVolume: "root"}
	vm.Status.InstancetypeRef = &v1.InstancetypeStatusRef{Name: "x", ControllerRevisionRef: &v1.ControllerRevisionRef{Name: "of-status"}}
	vm.Status.PreferenceRef = &v1.InstancetypeStatusRef{Name: "fedora"}
	check := func(want ...Reference) {
		t.Helper()
		got := ReferencesOf(vm)
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Errorf("got %+v, want %+v", got, want)
				return
			}
		}
	}
	check(Reference{Kind: "VirtualMachineClusterInstancetype", Name: "u1.small", Revision: "of-status"},
		Reference{Kind: "VirtualMachineClusterPreference", Name: "fedora"})
	vm.Annotations = map[string]string{"kilnvm.io/pins": `{"instancetype":"pinned","preference":"(none)","presets":["p"],"configuration":"c"}`}
	check(Reference{Kind: "VirtualMachineClusterInstancetype", Name: "u1.small", Revision: "pinned"}, Reference{Revision: "p"}, Reference{Revision: "c"})
	vm.Spec.Instancetype.RevisionName = "of-spec"
	check(Reference{Kind: "VirtualMachineClusterInstancetype", Name: "u1.small", Revision: "of-spec"})
	vm.Annotations["kilnvm.io/pins"] = `{"presets":["` + strings.Repeat(`a","`, 1000) + `a"]}`
	if got := len(ReferencesOf(vm)); got > mostReferences {
		t.Errorf("%d references", got)
	}
}
