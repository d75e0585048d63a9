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
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// size is the revision of an instancetype.
func size() *appsv1.ControllerRevision {
	draft, err := revision.NewDraft("team", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": instancetype.Kinds.Cluster, "metadata": map[string]any{"name": "small"},
		"spec": map[string]any{"cpu": map[string]any{"guest": int64(1)}}}})
	if err != nil {
		panic(err) // a constant
	}
	return draft.Object()
}

// machine is a VM with a disk on a claim and a card on another network.
func machine() *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "vm-1", Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{v1alpha1.AnnotationIdentity: "seed", v1alpha1.AnnotationPins: `{"instancetype":"` + size().Name + `"}`}}}
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

func recorded() *v1alpha1.GuestHardware {
	return &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "hw-1"},
		Spec: v1alpha1.GuestHardwareSpec{Identity: "seed", Hardware: &v1alpha1.HardwareRecord{Defaults: "v1", Digest: "sha256:" + strings.Repeat("0", 64),
			UUID: "5d307ca9-b3ef-428c-8861-06e72d69f223", Machine: "pc-q35-9.2", MACs: map[string]string{"lan": "02:00:00:00:00:01"},
			Devices: map[string]v1alpha1.GuestAddress{"disk.root": {PCI: "0000:0b:00.0"}}}},
		Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: "vm-1"}}
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "pvc-" + "1"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
}

func lan() *unstructured.Unstructured {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(fakecluster.NetworkKind)
	definition.SetNamespace("other")
	definition.SetName("lan")
	return definition
}

// everything is a VM with all that it needs.
func everything() []client.Object {
	return []client.Object{machine(), recorded(), size(), claim("root"), lan()}
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

// edit is what the owner and a boot do to the VM after the snapshot: another network, claim and size, and other hardware.
func (c *cluster) edit() {
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

// said is a condition of a snapshot or restore as text.
func conditions(all []api.Condition) string {
	var texts []string
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
	}
	return strings.Join(texts, " ")
}

// TestSnapshotAndRestore: VM, pins and hardware are what they were, the generation is another; nothing of the snapshot's lock is left.
func TestSnapshotAndRestore(t *testing.T) {
	c := newCluster(t, nil, everything()...)
	before := c.vm("web")
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.step()
	of := read(c, "s", &api.VirtualMachineSnapshot{})
	if of.Status.Phase != api.Succeeded || !*of.Status.ReadyToUse || of.Status.CreationTime == nil || *of.Status.SourceUID != "vm-1" ||
		conditions(of.Status.Conditions) != "Progressing=False(Completed) Ready=True(Completed)" {
		t.Fatalf("%+v", of.Status)
	}
	volumes := &api.SnapshotVolumesLists{ExcludedVolumes: []string{"root"}}
	if diff := cmp.Diff(volumes, of.Status.SnapshotVolumes); diff != "" || len(of.Status.SourceIndications) != 1 ||
		of.Status.SourceIndications[0].Indication != api.VMSnapshotPartialSnapshotIndication {
		t.Errorf("without VolumeSnapshots the configuration alone is kept: %v\n%s", of.Status.SourceIndications, diff)
	}
	content := read(c, *of.Status.VirtualMachineSnapshotContentName, &api.VirtualMachineSnapshotContent{})
	if content.Annotations[v1alpha1.AnnotationSnapshotState] != "inactive" || !strings.Contains(content.Annotations[v1alpha1.AnnotationPins], size().Name) {
		t.Errorf("%v", content.Annotations)
	}
	if diff := cmp.Diff(before.Spec, c.vm("web").Spec); diff != "" || len(c.vm("web").Finalizers) > 0 || c.vm("web").Status.SnapshotInProgress != nil {
		t.Errorf("the VM is as it was: %v\n%s", c.vm("web").ObjectMeta, diff)
	}
	c.edit()
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	c.step()
	r := read(c, "r", &api.VirtualMachineRestore{})
	if !*r.Status.Complete || r.Status.RestoreTime == nil || conditions(r.Status.Conditions) != "Progressing=False(Completed) Ready=True(Completed)" ||
		!c.event(v1alpha1.ReasonRestoreComplete) {
		t.Fatalf("%+v", r.Status)
	}
	c.restored(before)
}

// restored compares the VM and its hardware with those of the snapshot.
func (c *cluster) restored(before *v1.VirtualMachine) {
	c.Helper()
	after := c.vm("web")
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || after.Status.RestoreInProgress != nil {
		c.Errorf("restore in progress %v, spec:\n%s", after.Status.RestoreInProgress, diff)
	}
	if after.Annotations[v1alpha1.AnnotationPins] != before.Annotations[v1alpha1.AnnotationPins] || after.Annotations[snapshot.Mark] != "r-r-1" {
		c.Errorf("annotations %v", after.Annotations)
	}
	if diff := cmp.Diff(recorded().Spec, c.hardware("web").Spec); diff != "" {
		c.Errorf("the hardware is another one:\n%s", diff)
	}
}

// TestCrashes: a controller that dies after any of its writes leaves what the next one brings to the same end.
func TestCrashes(t *testing.T) {
	for why, test := range map[string]struct {
		make func(*cluster)
		end  func(*cluster) bool
	}{
		"in place": {func(c *cluster) { c.must(c.Create(c.Context(), restoreOf("r", "web"))) }, func(c *cluster) bool {
			r := read(c, "r", &api.VirtualMachineRestore{})
			return r.Status != nil && *r.Status.Complete && c.vm("web").Annotations[snapshot.Mark] == "r-r-1" &&
				cmp.Equal(recorded().Spec, c.hardware("web").Spec) && c.vm("web").Status.RestoreInProgress == nil
		}},
		"clone": {func(c *cluster) { c.must(c.Create(c.Context(), cloneOf("copy", "web"))) }, func(c *cluster) bool {
			of := read(c, "copy", &clone.VirtualMachineClone{})
			return of.Status.Phase == clone.Succeeded && c.vm("two") != nil && c.hardware("two") != nil && of.Status.SnapshotName == nil &&
				len(c.names(&api.VirtualMachineRestoreList{})) == 0 && len(c.names(&api.VirtualMachineSnapshotList{})) == 1
		}},
		"deletion": {func(c *cluster) { c.must(c.WithWatch.Delete(c.Context(), read(c, "s", &api.VirtualMachineSnapshot{}))) }, func(c *cluster) bool {
			return len(c.names(&api.VirtualMachineSnapshotList{}))+len(c.names(&api.VirtualMachineSnapshotContentList{})) == 0 && len(c.vm("web").Finalizers) == 0
		}},
	} {
		life := func(t *testing.T, dies int) int {
			c := newCluster(t, nil, everything()...)
			c.fails = dies
			c.must(c.Create(t.Context(), snapshotOf("s")))
			c.step()
			if of := read(c, "s", &api.VirtualMachineSnapshot{}); of.Status.Phase != api.Succeeded || c.vm("web").Status.SnapshotInProgress != nil ||
				len(c.vm("web").Finalizers) > 0 {
				t.Fatalf("dies after write %d: %+v", dies, of.Status)
			}
			if why == "clone" { // a clone has no other claim
				vm := c.vm("web")
				vm.Spec.Template.Spec.Volumes, vm.Spec.Template.Spec.Domain.Devices.Disks = nil, nil
				c.must(c.Update(t.Context(), vm))
			} else {
				c.edit()
			}
			test.make(c)
			c.step()
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

// TestDeadline: a snapshot whose VM never comes fails, by the clock of the controller.
func TestDeadline(t *testing.T) {
	c := newCluster(t, nil)
	c.now = c.now.Add(-24 * time.Hour) // a wrong clock
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.step()
	if of := read(c, "s", &api.VirtualMachineSnapshot{}); conditions(of.Status.Conditions) != "Progressing=False(SourceMissing) Ready=False(InProgress)" {
		t.Errorf("%+v", of.Status)
	}
	c.now = c.now.Add(6 * time.Minute)
	c.step()
	if of := read(c, "s", &api.VirtualMachineSnapshot{}); of.Status.Phase != api.Failed || !operation.HasFailed(of.Status.Conditions) ||
		!strings.Contains(*of.Status.Error.Message, "failureDeadline") {
		t.Errorf("%+v", of.Status)
	}
}
