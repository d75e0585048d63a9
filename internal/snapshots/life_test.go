package snapshots

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"github.com/kilnvm/kiln/test/fakecluster"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// instancetypeRevision returns the revision of an instancetype.
func instancetypeRevision() *appsv1.ControllerRevision {
	draft, err := revision.NewDraft("team", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": instancetype.Kinds.Cluster, "metadata": map[string]any{"name": "small"},
		"spec": map[string]any{"cpu": map[string]any{"guest": int64(1)}}}})
	if err != nil {
		panic(err) // the object is constant
	}
	return draft.Object()
}

// testVM returns a VM with a disk on a claim and a NIC on a secondary network.
func testVM() *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "vm-1", Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{v1alpha1.AnnotationIdentity: "seed", v1alpha1.AnnotationPins: `{"instancetype":"` + instancetypeRevision().Name + `"}`}}}
	vm.Spec.RunStrategy = ptr.To(v1.RunStrategyHalted)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	spec := v1.VirtualMachineInstanceSpec{
		Networks: []v1.Network{{Name: "lan", NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "other/lan"}}}},
		Volumes: []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "root"}}}}},
	}
	spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "lan", MacAddress: "02:00:00:00:00:01"}}
	spec.Domain.Devices.Disks = []v1.Disk{{Name: "root"}}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{Spec: spec}
	return vm
}

func testHardware() *v1alpha1.GuestHardware {
	return &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "hw-1"},
		Spec: v1alpha1.GuestHardwareSpec{Identity: "seed", Hardware: &v1alpha1.HardwareRecord{Defaults: "v1", Digest: "sha256:" + strings.Repeat("0", 64),
			SchemaVersion: 2, CPU: &v1alpha1.GuestCPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "svm"},
				DisabledFeatures: []string{"monitor"}, Topology: v1alpha1.GuestCPUTopology{Sockets: 1, Cores: 2, Threads: 1}, Verified: true},
			UUID: "5d307ca9-b3ef-428c-8861-06e72d69f223", Machine: "pc-q35-9.2", MACs: map[string]string{"lan": "02:00:00:00:00:01"},
			Devices: map[string]v1alpha1.GuestAddress{"disk.root": {PCI: "0000:0b:00.0"}}}},
		Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: "vm-1"}}
}

func testClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "pvc-" + "1"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
}

func testNetwork() *unstructured.Unstructured {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(fakecluster.NetworkKind)
	definition.SetNamespace("other")
	definition.SetName("lan")
	return definition
}

// testObjects returns a VM and all objects that it needs.
func testObjects() []client.Object {
	return []client.Object{testVM(), testHardware(), instancetypeRevision(), testClaim("root"), testNetwork()}
}

func snapshotOf(name string) *api.VirtualMachineSnapshot {
	return &api.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "snap-1"}, Spec: api.VirtualMachineSnapshotSpec{
		Source: corev1.TypedLocalObjectReference{APIGroup: ptr.To("kubevirt.io"), Kind: "VirtualMachine", Name: "web"}}}
}

const alice = `{"username":"alice"}`

func restoreOf(name, target string) *api.VirtualMachineRestore {
	return &api.VirtualMachineRestore{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "r-1",
		Annotations: map[string]string{v1alpha1.AnnotationAsker: alice}}, Spec: api.VirtualMachineRestoreSpec{VirtualMachineSnapshotName: "s",
		Target: corev1.TypedLocalObjectReference{APIGroup: ptr.To("kubevirt.io"), Kind: "VirtualMachine", Name: target}}}
}

// editVM does what owner and boot may do after the snapshot: it changes networks, claim, instancetype and hardware.
func (c *cluster) editVM() {
	c.Helper()
	vm := c.vm("web")
	vm.Spec.Template.Spec.Networks, vm.Spec.Template.Spec.Domain.Devices.Interfaces = nil, nil
	vm.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "new"
	vm.Annotations[v1alpha1.AnnotationPins] = `{"instancetype":"small-other"}`
	c.must(c.Update(c.Context(), vm))
	hardware := c.hardware("web")
	hardware.Spec.Hardware.Devices = map[string]v1alpha1.GuestAddress{"disk.root": {PCI: "0000:01:00.0"}}
	c.must(c.Update(c.Context(), hardware))
}

// conditionTexts returns types, statuses and reasons of conditions as text.
func conditionTexts(all []api.Condition) string {
	var texts []string
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
	}
	return strings.Join(texts, " ")
}

// TestSnapshotAndRestore: a restored VM has the spec, pins and hardware of the snapshot, and is not locked.
func TestSnapshotAndRestore(t *testing.T) {
	c := newCluster(t, nil, testObjects()...)
	before := c.vm("web")
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	of := readObject(c, "s", &api.VirtualMachineSnapshot{})
	if of.Status.Phase != api.Succeeded || !*of.Status.ReadyToUse || of.Status.CreationTime == nil || *of.Status.SourceUID != "vm-1" ||
		conditionTexts(of.Status.Conditions) != "Progressing=False(Completed) Ready=True(Completed)" {
		t.Fatalf("%+v", of.Status)
	}
	volumes := &api.SnapshotVolumesLists{ExcludedVolumes: []string{"root"}}
	if diff := cmp.Diff(volumes, of.Status.SnapshotVolumes); diff != "" || len(of.Status.SourceIndications) != 1 ||
		of.Status.SourceIndications[0].Indication != api.VMSnapshotPartialSnapshotIndication {
		t.Errorf("without VolumeSnapshots the content includes volumes: %v\n%s", of.Status.SourceIndications, diff)
	}
	content := readObject(c, *of.Status.VirtualMachineSnapshotContentName, &api.VirtualMachineSnapshotContent{})
	if content.Annotations[v1alpha1.AnnotationSnapshotState] != "inactive" ||
		!strings.Contains(content.Annotations[v1alpha1.AnnotationPins], instancetypeRevision().Name) {
		t.Errorf("%v", content.Annotations)
	}
	if diff := cmp.Diff(before.Spec, c.vm("web").Spec); diff != "" || len(c.vm("web").Finalizers) > 0 || c.vm("web").Status.SnapshotInProgress != nil {
		t.Errorf("the VM is as it was: %v\n%s", c.vm("web").ObjectMeta, diff)
	}
	c.editVM()
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	c.reconcileAll()
	r := readObject(c, "r", &api.VirtualMachineRestore{})
	if !*r.Status.Complete || r.Status.RestoreTime == nil || conditionTexts(r.Status.Conditions) != "Progressing=False(Completed) Ready=True(Completed)" ||
		!c.hasEvent(v1alpha1.ReasonRestoreComplete) {
		t.Fatalf("%+v", r.Status)
	}
	c.checkRestored(before)
}

// checkRestored fails the test unless the VM and its hardware are as they were at the snapshot.
func (c *cluster) checkRestored(before *v1.VirtualMachine) {
	c.Helper()
	after := c.vm("web")
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || after.Status.RestoreInProgress != nil {
		c.Errorf("restore in progress %v, spec:\n%s", after.Status.RestoreInProgress, diff)
	}
	if after.Annotations[v1alpha1.AnnotationPins] != before.Annotations[v1alpha1.AnnotationPins] || after.Annotations[snapshot.Mark] != "r-r-1" {
		c.Errorf("annotations %v", after.Annotations)
	}
	if diff := cmp.Diff(testHardware().Spec, c.hardware("web").Spec); diff != "" {
		c.Errorf("the hardware is not the hardware of the snapshot:\n%s", diff)
	}
}

// TestCrashes: if a process dies after any of its writes, the next process reaches the same end.
func TestCrashes(t *testing.T) {
	for why, test := range map[string]struct {
		make func(*cluster)
		end  func(*cluster) bool
	}{
		"in place": {func(c *cluster) { c.must(c.Create(c.Context(), restoreOf("r", "web"))) }, func(c *cluster) bool {
			r := readObject(c, "r", &api.VirtualMachineRestore{})
			return r.Status != nil && *r.Status.Complete && c.vm("web").Annotations[snapshot.Mark] == "r-r-1" &&
				cmp.Equal(testHardware().Spec, c.hardware("web").Spec) && c.vm("web").Status.RestoreInProgress == nil
		}},
		"clone": {func(c *cluster) { c.must(c.Create(c.Context(), cloneOf("copy", "web"))) }, func(c *cluster) bool {
			of := readObject(c, "copy", &clone.VirtualMachineClone{})
			return of.Status.Phase == clone.Succeeded && c.vm("two") != nil && c.hardware("two") != nil && of.Status.SnapshotName == nil &&
				len(c.objectNames(&api.VirtualMachineRestoreList{})) == 0 && len(c.objectNames(&api.VirtualMachineSnapshotList{})) == 1
		}},
		"deletion": {func(c *cluster) {
			c.must(c.WithWatch.Delete(c.Context(), readObject(c, "s", &api.VirtualMachineSnapshot{})))
		}, func(c *cluster) bool {
			return len(c.objectNames(&api.VirtualMachineSnapshotList{}))+len(c.objectNames(&api.VirtualMachineSnapshotContentList{})) == 0 &&
				len(c.vm("web").Finalizers) == 0
		}},
	} {
		life := func(t *testing.T, dies int) int {
			c := newCluster(t, nil, testObjects()...)
			c.dieAfter = dies
			c.must(c.Create(t.Context(), snapshotOf("s")))
			c.reconcileAll()
			if of := readObject(c, "s", &api.VirtualMachineSnapshot{}); of.Status.Phase != api.Succeeded || c.vm("web").Status.SnapshotInProgress != nil ||
				len(c.vm("web").Finalizers) > 0 {
				t.Fatalf("dies after write %d: %+v", dies, of.Status)
			}
			if why == "clone" { // this clone needs no claim
				vm := c.vm("web")
				vm.Spec.Template.Spec.Volumes, vm.Spec.Template.Spec.Domain.Devices.Disks = nil, nil
				c.must(c.Update(t.Context(), vm))
			} else {
				c.editVM()
			}
			test.make(c)
			c.reconcileAll()
			if !test.end(c) {
				t.Fatalf("dies after write %d: %v", dies, c.writes)
			}
			return len(c.writes)
		}
		writes := life(t, 0)
		if writes < 10 {
			t.Fatalf("%s: a life has %d writes only", why, writes)
		}
		for dies := range writes {
			t.Run(fmt.Sprint(why, " ", dies+1), func(t *testing.T) { life(t, dies+1) })
		}
	}
}

func cloneOf(name, source string) *clone.VirtualMachineClone {
	reference := func(name string) *corev1.TypedLocalObjectReference {
		return &corev1.TypedLocalObjectReference{APIGroup: ptr.To("kubevirt.io"), Kind: "VirtualMachine", Name: name}
	}
	return &clone.VirtualMachineClone{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "c-1",
		Annotations: map[string]string{v1alpha1.AnnotationAsker: alice}},
		Spec: clone.VirtualMachineCloneSpec{Source: reference(source), Target: reference("two"), LabelFilters: []string{"none"}}}
}

// TestDeadline: a snapshot whose VM does not exist fails after its deadline, by the clock of the controller.
func TestDeadline(t *testing.T) {
	c := newCluster(t, nil)
	c.now = c.now.Add(-24 * time.Hour) // the clock of the controller is wrong
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	of := readObject(c, "s", &api.VirtualMachineSnapshot{})
	if conditionTexts(of.Status.Conditions) != "Progressing=False(SourceMissing) Ready=False(InProgress)" {
		t.Errorf("%+v", of.Status)
	}
	c.now = c.now.Add(6 * time.Minute)
	c.reconcileAll()
	if of := readObject(c, "s", &api.VirtualMachineSnapshot{}); of.Status.Phase != api.Failed || !operation.HasFailed(of.Status.Conditions) ||
		!strings.Contains(*of.Status.Error.Message, "failureDeadline") {
		t.Errorf("%+v", of.Status)
	}
}

// TestRunningHardware: a snapshot of a guest with hotplugged resources contains the running hardware beside the record. A restore brings back the record, byte
// for byte. Hardware that an earlier VMI reported is not part of the snapshot.
func TestRunningHardware(t *testing.T) {
	for uid, want := range map[types.UID]bool{"vmi-1": true, "vmi-0": false} {
		c := newCluster(t, nil, append(testObjects(), runningGuest())...)
		hardware := c.hardware("web")
		live := v1alpha1.LiveHardware{VCPUs: 4, MemoryKiB: 2 << 20, Absent: []string{"interface.lan"}}
		hardware.Status.Running = &v1alpha1.HardwareRunning{LiveHardware: live, UID: uid, Digest: "sha256:" + strings.Repeat("4", 64), Cause: "it grew"}
		c.must(c.Status().Update(t.Context(), hardware))
		before := c.vm("web")
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll()
		content := readObject(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
		kept, err := snapshot.Read(content)
		c.must(err)
		kept, err = kept.WithRecord(readObject(c, kept.Revision, &appsv1.ControllerRevision{}).Data.Raw)
		c.must(err)
		if (kept.Live != nil) != want || want && (!cmp.Equal(kept.Live.LiveHardware, live) || kept.Live.Digest != hardware.Status.Running.Digest) ||
			!cmp.Equal(testHardware().Spec, *kept.Hardware) {
			t.Errorf("%s: %+v", uid, kept.Live)
		}
		c.must(c.WithWatch.Delete(t.Context(), runningGuest()))
		c.editVM()
		c.must(c.Create(t.Context(), restoreOf("r", "web")))
		c.reconcileAll()
		c.checkRestored(before)
	}
}
