package vmsnapshot

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/test/fakecluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func testSnapshot() *api.VirtualMachineSnapshot {
	return &api.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s", UID: "snap-1"}, Spec: api.VirtualMachineSnapshotSpec{
		Source: corev1.TypedLocalObjectReference{APIGroup: ptr.To("kubevirt.io"), Kind: "VirtualMachine", Name: "web"}}}
}

func testContent(ready bool) *api.VirtualMachineSnapshotContent {
	content := &api.VirtualMachineSnapshotContent{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: operation.ContentName("snap-1"), UID: "content-1"}}
	content.Spec.VirtualMachineSnapshotName = ptr.To("s")
	content.Status = &api.VirtualMachineSnapshotContentStatus{ReadyToUse: &ready}
	return content
}

// TestCheckSnapshot: a snapshot begins, fails if it is malformed or late, and goes on otherwise.
func TestCheckSnapshot(t *testing.T) {
	begun := func(ago time.Duration, text operation.ConditionText) *api.VirtualMachineSnapshotStatus {
		at := fakecluster.Start.Add(-ago)
		conditions := operation.SetCondition(nil, api.ConditionReady, operation.ConditionFalse("InProgress", ""), at)
		return &api.VirtualMachineSnapshotStatus{Phase: api.InProgress, Conditions: operation.SetCondition(conditions, api.ConditionProgressing, text, at)}
	}
	progressing := operation.ConditionTrue("InProgress", "")
	for why, test := range map[string]struct {
		kind   string
		status *api.VirtualMachineSnapshotStatus
		phase  api.VirtualMachineSnapshotPhase
		text   string
	}{
		"new":                 {"VirtualMachine", nil, api.InProgress, "the snapshot has begun"},
		"in time":             {"VirtualMachine", begun(4*time.Minute, progressing), api.InProgress, ""},
		"late":                {"VirtualMachine", begun(6*time.Minute, progressing), api.Failed, "was not taken within its failureDeadline"},
		"late, for a reason":  {"VirtualMachine", begun(6*time.Minute, operation.ConditionFalse("Busy", "it is busy")), api.Failed, "failureDeadline: it is busy"},
		"malformed":           {"Pod", begun(0, progressing), api.Failed, "spec.source.kind"},
		"malformed, and late": {"Pod", begun(6*time.Minute, progressing), api.Failed, "spec.source.kind"},
	} {
		of := testSnapshot()
		of.Spec.Source.Kind, of.Status = test.kind, test.status
		cluster, recorder := fakecluster.New(t, of)
		if err := cluster.Live.Get(t.Context(), client.ObjectKeyFromObject(of), of); err != nil {
			t.Fatal(err)
		}
		if _, err := (checkSnapshot{statusWriter{cluster}}).Run(t.Context(), &state{snapshot: of}); err != nil {
			t.Fatal(err)
		}
		got := operation.FindCondition(of.Status.Conditions, api.ConditionProgressing)
		if of.Status.Phase != test.phase || !strings.Contains(got.Message, test.text) || (len(recorder.Events) == 1) != (test.phase == api.Failed) {
			t.Errorf("%s: %+v", why, of.Status)
		}
	}
}

// TestDeleteContent: a content is deleted with its snapshot, unless it can be used and is to be retained. A failed snapshot deletes it in any case.
func TestDeleteContent(t *testing.T) {
	for why, test := range map[string]struct {
		policy   api.DeletionPolicy
		ready    bool
		deleting bool
		deleted  bool
	}{
		"deletion":                  {api.VirtualMachineSnapshotContentDelete, true, true, true},
		"retained":                  {api.VirtualMachineSnapshotContentRetain, true, true, false},
		"retained, but incomplete":  {api.VirtualMachineSnapshotContentRetain, false, true, true},
		"failed":                    {api.VirtualMachineSnapshotContentDelete, false, false, true},
		"failed, with content kept": {api.VirtualMachineSnapshotContentRetain, true, false, true},
	} {
		of, content := testSnapshot(), testContent(test.ready)
		of.Spec.DeletionPolicy = &test.policy
		if test.deleting {
			of.DeletionTimestamp = &metav1.Time{Time: fakecluster.Start}
		}
		cluster, _ := fakecluster.New(t, content)
		if _, err := (deletion{cluster}).deleteContent(t.Context(), &state{snapshot: of, content: content}); err != nil {
			t.Fatal(err)
		}
		key := client.ObjectKeyFromObject(content)
		if found, err := objects.GetOrNil(t.Context(), cluster.Live, key, &api.VirtualMachineSnapshotContent{}); err != nil || (found == nil) != test.deleted {
			t.Errorf("%s: %+v %v", why, found, err)
		}
	}
}

// TestContentsAreProtected: a content keeps its finalizer as long as its snapshot needs it.
func TestContentsAreProtected(t *testing.T) {
	for why, test := range map[string]struct {
		change    func(*api.VirtualMachineSnapshot)
		protected bool
	}{
		"the snapshot works":   {func(*api.VirtualMachineSnapshot) {}, true},
		"it has failed":        {func(of *api.VirtualMachineSnapshot) { of.Status = &api.VirtualMachineSnapshotStatus{Phase: api.Failed} }, false},
		"another of the name":  {func(of *api.VirtualMachineSnapshot) { of.UID = "snap-2" }, false},
		"the snapshot is gone": {func(of *api.VirtualMachineSnapshot) { of.Name = "x" }, false},
		"the snapshot is ended": {func(of *api.VirtualMachineSnapshot) {
			of.Status = &api.VirtualMachineSnapshotStatus{Phase: api.Succeeded}
		}, true},
	} {
		of, content := testSnapshot(), testContent(true)
		content.Finalizers = []string{contentFinalizer}
		test.change(of)
		cluster, _ := fakecluster.New(t, of, content)
		key := client.ObjectKeyFromObject(content)
		if _, err := (&ContentReconciler{cluster}).Reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if found, err := objects.GetOrNil(t.Context(), cluster.Live, key, content); err != nil || (len(found.Finalizers) > 0) != test.protected {
			t.Errorf("%s: %v %v", why, found.Finalizers, err)
		}
	}
}

// TestMemoryDumpVolume: the first volume with a memory dump is found, and a VM without a template has none.
func TestMemoryDumpVolume(t *testing.T) {
	vm := &v1.VirtualMachine{}
	if got := memoryDumpVolume(vm); got != "" {
		t.Errorf("without a template: '%s'", got)
	}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Volumes = []v1.Volume{{Name: "root"}, {Name: "dump", VolumeSource: v1.VolumeSource{MemoryDump: &v1.MemoryDumpVolumeSource{}}}}
	if got := memoryDumpVolume(vm); got != "dump" {
		t.Errorf("got '%s', want 'dump'", got)
	}
}

// TestCopyReadiness: a snapshot is as ready as its content, and says why it is not.
func TestCopyReadiness(t *testing.T) {
	for why, test := range map[string]struct {
		content api.VirtualMachineSnapshotContentStatus
		want    string
	}{
		"ready":          {api.VirtualMachineSnapshotContentStatus{ReadyToUse: ptr.To(true)}, v1alpha1.ReasonCompleted},
		"not ready":      {api.VirtualMachineSnapshotContentStatus{ReadyToUse: ptr.To(false)}, "waits for VolumeSnapshots"},
		"not known":      {api.VirtualMachineSnapshotContentStatus{}, "waits for VolumeSnapshots"},
		"with a mistake": {api.VirtualMachineSnapshotContentStatus{Error: operation.NewError("disk full", fakecluster.Start)}, "disk full"},
	} {
		status := &api.VirtualMachineSnapshotStatus{}
		copyReadiness(status, &test.content, fakecluster.Start)
		got := operation.FindCondition(status.Conditions, api.ConditionReady)
		if got.Reason != test.want && got.Message != test.want || *status.ReadyToUse != ptr.Deref(test.content.ReadyToUse, false) {
			t.Errorf("%s: %+v", why, status)
		}
	}
}
