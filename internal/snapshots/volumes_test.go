package snapshots

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// storageObjects returns the test objects with a driver that takes VolumeSnapshots, and two claims of the VM: for a disk, which the VM owns, and for its state.
func storageObjects() []client.Object {
	class := volumesnapshot.NewObject(volumesnapshot.ClassKind)
	class.SetName("snaps")
	class.Object["driver"] = "csi.example.com"
	root, state := testClaim("root"), testClaim(pod.StateName("web"))
	root.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "web", UID: "vm-1"}}
	for _, of := range []*corev1.PersistentVolumeClaim{root, state} {
		of.Spec.StorageClassName = ptr.To("fast")
	}
	return []client.Object{testVM(), testHardware(), instancetypeRevision(), testNetwork(), class, root, state,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "csi.example.com"}}
}

// runDriver does what the snapshot controller and the provisioner do.
func (c *cluster) runDriver() {
	c.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(volumesnapshot.GroupVersion.WithKind("VolumeSnapshotList"))
	c.must(c.List(c.Context(), list))
	for i := range list.Items {
		of := &list.Items[i]
		if _, has := of.Object["status"]; !has {
			of.Object["status"] = map[string]any{"readyToUse": true, "creationTime": "2026-01-01T00:00:00Z", "restoreSize": "2Gi"}
			c.must(c.Update(c.Context(), of))
		}
	}
	var claims corev1.PersistentVolumeClaimList
	c.must(c.List(c.Context(), &claims))
	for i := range claims.Items {
		if claims.Items[i].Status.Phase == "" {
			claims.Items[i].Status.Phase = corev1.ClaimBound
			c.must(c.Status().Update(c.Context(), &claims.Items[i]))
		}
	}
}

// TestVolumes: the claims of a VM and of its state are snapshotted, and restored under KubeVirt's names, whichever write the process dies after.
func TestVolumes(t *testing.T) {
	life := func(t *testing.T, dies int) int {
		c := newCluster(t, withVolumeSnapshots, storageObjects()...)
		c.dieAfter = dies
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll(c.runDriver)
		of := readObject(c, "s", &api.VirtualMachineSnapshot{}).Status
		if of.Phase != api.Succeeded || !*of.ReadyToUse || !slices.Equal(of.SnapshotVolumes.IncludedVolumes, []string{"root", snapshot.State}) ||
			len(of.SourceIndications) > 0 {
			t.Fatalf("dies after write %d: %+v", dies, of)
		}
		c.editVM()
		c.must(c.Create(t.Context(), restoreOf("r", "web")))
		c.reconcileAll(c.runDriver)
		r := readObject(c, "r", &api.VirtualMachineRestore{}).Status
		want := []api.VolumeRestore{
			{VolumeName: "root", PersistentVolumeClaimName: "restore-r-1-root", VolumeSnapshotName: "vmsnapshot-snap-1-volume-root"},
			{VolumeName: snapshot.State, PersistentVolumeClaimName: pod.StateName("web"), VolumeSnapshotName: "vmsnapshot-snap-1-state"},
		}
		if diff := cmp.Diff(want, r.Restores); diff != "" || !*r.Complete {
			t.Fatalf("dies after write %d: %+v\n%s", dies, r, diff)
		}
		if got := c.vm("web").Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; got != "restore-r-1-root" {
			t.Errorf("dies after write %d: the VM uses claim '%s'", dies, got)
		}
		restored, state := readObject(c, "restore-r-1-root", &corev1.PersistentVolumeClaim{}), readObject(c, pod.StateName("web"), &corev1.PersistentVolumeClaim{})
		if restored.Spec.DataSource.Name != "vmsnapshot-snap-1-volume-root" || !metav1.IsControlledBy(restored, c.vm("web")) ||
			restored.Spec.Resources.Requests.Storage().String() != "2Gi" || state.Spec.DataSource == nil || len(state.OwnerReferences) > 0 {
			t.Errorf("dies after write %d: %+v %+v", dies, restored, state)
		}
		if readObject(c, "root", &corev1.PersistentVolumeClaim{}) == nil {
			t.Errorf("dies after write %d: the claim of before is gone", dies)
		}
		return len(c.writes)
	}
	writes := life(t, 0)
	for dies := range writes {
		t.Run(fmt.Sprint(dies+1), func(t *testing.T) { life(t, dies+1) })
	}
}

// TestLostVolumeSnapshot: a snapshot whose VolumeSnapshot is gone reports it, and is not restored.
func TestLostVolumeSnapshot(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, storageObjects()...)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll(c.runDriver)
	lost := volumesnapshot.NewObject(volumesnapshot.Kind)
	lost.SetNamespace("team")
	lost.SetName("vmsnapshot-snap-1-volume-root")
	c.must(c.WithWatch.Delete(t.Context(), lost))
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	c.reconcileAll(c.runDriver)
	of, r := readObject(c, "s", &api.VirtualMachineSnapshot{}).Status, readObject(c, "r", &api.VirtualMachineRestore{}).Status
	if *of.ReadyToUse || *of.Error.Message != "VolumeSnapshots 'vmsnapshot-snap-1-volume-root' no longer exist" ||
		operation.FindCondition(r.Conditions, api.ConditionReady).Reason != v1alpha1.ReasonSnapshotNotReady {
		t.Errorf("%+v\n%+v", of, r)
	}
}

// TestForeignVolumeSnapshot: a VolumeSnapshot that somebody else created under the name is not used.
func TestForeignVolumeSnapshot(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, storageObjects()...)
	foreign := volumesnapshot.NewObject(volumesnapshot.Kind)
	foreign.SetNamespace("team")
	foreign.SetName("vmsnapshot-snap-1-volume-root")
	c.must(c.WithWatch.Create(t.Context(), foreign))
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll(c.runDriver)
	of := readObject(c, "s", &api.VirtualMachineSnapshot{}).Status
	if progressing := operation.FindCondition(of.Conditions, api.ConditionProgressing); progressing.Reason != v1alpha1.ReasonNotAdmitted ||
		!strings.Contains(progressing.Message, "it exists, and does not belong to VirtualMachineSnapshotContent") {
		t.Errorf("%+v", of)
	}
	c.must(c.WithWatch.Delete(t.Context(), foreign))
	c.reconcileAll(c.runDriver)
	if of := readObject(c, "s", &api.VirtualMachineSnapshot{}).Status; !ptr.Deref(of.ReadyToUse, false) {
		t.Errorf("%+v", of)
	}
}

// TestSharedClaimName: two volumes are not restored into one claim.
func TestSharedClaimName(t *testing.T) {
	objects := append(storageObjects(), testClaim("more"))
	vm := objects[0].(*v1.VirtualMachine) //nolint:forcetypeassert // the VM is the first object
	vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes, v1.Volume{Name: "more", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "more"}}}})
	objects[len(objects)-1].(*corev1.PersistentVolumeClaim).Spec.StorageClassName = ptr.To("fast") //nolint:forcetypeassert // the claim was appended
	c := newCluster(t, withVolumeSnapshots, objects...)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll(c.runDriver)
	restore := restoreOf("r", "web")
	restore.Spec.VolumeRestoreOverrides = []api.VolumeRestoreOverride{{VolumeName: "root", RestoreName: "one"}, {VolumeName: "more", RestoreName: "one"}}
	c.must(c.Create(t.Context(), restore))
	c.reconcileAll(c.runDriver)
	failure := operation.FindCondition(readObject(c, "r", &api.VirtualMachineRestore{}).Status.Conditions, api.ConditionFailure)
	if failure == nil || !strings.Contains(failure.Message, "volumes 'root' and 'more' would both have PersistentVolumeClaim 'one'") {
		t.Errorf("%+v", failure)
	}
}

// TestWaitingSnapshots: a waiting snapshot is reconciled a second after its deadline at the latest.
func TestWaitingSnapshots(t *testing.T) {
	c := newCluster(t, nil)
	of := snapshotOf("s")
	of.Spec.FailureDeadline = &metav1.Duration{Duration: 24 * time.Hour}
	c.must(c.Create(t.Context(), of))
	c.reconcileAll()
	for passed, want := range map[time.Duration]time.Duration{10 * time.Minute: time.Minute, 23*time.Hour + 59*time.Minute: time.Minute + time.Second} {
		at0 := c.now
		c.now = c.now.Add(passed)
		if after, err := c.reconcilers.snapshot.Reconcile(t.Context(), at("s")); after != want || err != nil {
			t.Errorf("after %s: %s %v", passed, after, err)
		}
		c.now = at0
	}
}

// TestClaimIsTaken: a restore does not overwrite an existing claim, except with the policy InPlace.
func TestClaimIsTaken(t *testing.T) {
	for policy, want := range map[api.VolumeRestorePolicy]bool{api.VolumeRestorePolicyPrefixTargetName: false, api.VolumeRestorePolicyInPlace: true} {
		c := newCluster(t, withVolumeSnapshots, append(storageObjects(), testClaim("web-root"))...)
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll(c.runDriver)
		restore := restoreOf("r", "web")
		restore.Spec.VolumeRestorePolicy = ptr.To(policy)
		c.must(c.Create(t.Context(), restore))
		c.reconcileAll(c.runDriver)
		r := readObject(c, "r", &api.VirtualMachineRestore{}).Status
		if *r.Complete != want || operation.HasFailed(r.Conditions) == want {
			t.Errorf("%s: %+v", policy, r)
		}
		if taken := readObject(c, "web-root", &corev1.PersistentVolumeClaim{}); taken.Spec.DataSource != nil {
			t.Errorf("%s: overwritten", policy)
		}
		if root := readObject(c, "root", &corev1.PersistentVolumeClaim{}); (root.Spec.DataSource != nil) != want {
			t.Errorf("%s: %+v", policy, root)
		}
	}
}

// TestClaimOfADataVolume: a restore in place deletes the DataVolume that made the claim, which CDI would make again, if its creator may. The VM owns the
// restored claim, as it owned the DataVolume, and no DataVolume is made of its template again.
func TestClaimOfADataVolume(t *testing.T) {
	for why, permitted := range map[string]bool{"with the right": true, "without it": false} {
		all := storageObjects()
		volume := &unstructured.Unstructured{}
		volume.SetAPIVersion("cdi.kubevirt.io/v1beta1")
		volume.SetKind("DataVolume")
		volume.SetNamespace("team")
		volume.SetName("root")
		volume.SetUID("dv-1")
		for _, of := range all {
			if claim, is := of.(*corev1.PersistentVolumeClaim); is && claim.Name == "root" {
				claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cdi.kubevirt.io/v1beta1", Kind: "DataVolume", Name: "root", UID: "dv-1",
					Controller: ptr.To(true)}}
			}
			if vm, is := of.(*v1.VirtualMachine); is {
				vm.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "root"}}}
				vm.Spec.Template.Spec.Volumes[0].VolumeSource = v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}
			}
		}
		c := newCluster(t, append(slices.Clone(withVolumeSnapshots), volume.GroupVersionKind()), append(all, volume)...)
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll(c.runDriver)
		c.denied["delete datavolumes"] = !permitted
		restore := restoreOf("r", "web")
		restore.Spec.VolumeRestorePolicy = ptr.To(api.VolumeRestorePolicyInPlace)
		c.must(c.Create(t.Context(), restore))
		c.reconcileAll(c.runDriver)
		r, root := readObject(c, "r", &api.VirtualMachineRestore{}).Status, readObject(c, "root", &corev1.PersistentVolumeClaim{})
		left, err := objects.GetOrNil(t.Context(), c.WithWatch, at("root"), volume.DeepCopy())
		if *r.Complete != permitted || err != nil || (left == nil) != permitted {
			t.Errorf("%s: DataVolume %v, %v, %+v", why, left, err, r)
		}
		if !permitted {
			failure := operation.FindCondition(r.Conditions, api.ConditionFailure)
			if failure == nil || !strings.Contains(failure.Message, "may not delete datavolumes") {
				t.Errorf("%s: %+v", why, r.Conditions)
			}
			continue
		}
		owned := slices.ContainsFunc(root.OwnerReferences, func(of metav1.OwnerReference) bool { return of.UID == "vm-1" })
		if root.Spec.DataSource == nil || !owned {
			t.Errorf("%s: %+v", why, root)
		}
		if vm := c.vm("web"); len(vm.Spec.DataVolumeTemplates) > 0 || vm.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim == nil {
			t.Errorf("%s: %+v", why, vm.Spec)
		}
	}
}

// TestMemory: a snapshot of a VM with a memory dump fails with the reason.
func TestMemory(t *testing.T) {
	vm := testVM()
	vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes, v1.Volume{Name: "dump", VolumeSource: v1.VolumeSource{
		MemoryDump: &v1.MemoryDumpVolumeSource{}}})
	c := newCluster(t, nil, vm)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	of := readObject(c, "s", &api.VirtualMachineSnapshot{}).Status
	if failure := operation.FindCondition(of.Conditions, api.ConditionFailure); of.Phase != api.Failed || failure.Reason != v1alpha1.ReasonNotSnapshottable ||
		c.vm("web").Status.SnapshotInProgress != nil {
		t.Errorf("%+v", of)
	}
}

// TestDeletion: a content is deleted with its snapshot, or stays with the policy Retain and can then be deleted by anybody with the right.
func TestDeletion(t *testing.T) {
	for policy, kept := range map[api.DeletionPolicy]bool{api.VirtualMachineSnapshotContentDelete: false, api.VirtualMachineSnapshotContentRetain: true} {
		c := newCluster(t, nil, testObjects()...)
		of := snapshotOf("s")
		of.Spec.DeletionPolicy = ptr.To(policy)
		c.must(c.Create(t.Context(), of))
		c.reconcileAll()
		protected := readObject(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
		c.must(c.WithWatch.Delete(t.Context(), readObject(c, "s", &api.VirtualMachineSnapshot{})))
		c.reconcileAll()
		content := readObject(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
		if len(protected.Finalizers) != 1 || readObject(c, "s", &api.VirtualMachineSnapshot{}) != nil || (content != nil) != kept ||
			content != nil && len(content.Finalizers) > 0 {
			t.Errorf("%s: %v", policy, content)
		}
	}
}
