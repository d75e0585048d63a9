package guestdiff

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/snapshot"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// snapshotAt is a snapshot of VM web, with its content and its record on a machine type.
func snapshotAt(t *testing.T, name, machine string, at time.Time) []client.Object {
	t.Helper()
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	moment := snapshot.Moment{VM: vm, Hardware: &v1alpha1.GuestHardwareSpec{Hardware: &record.Record{Defaults: "1", Machine: machine,
		Digest: fmt.Sprintf("sha256:%064x", len(machine))}}}
	object, err := moment.Record()
	if err != nil {
		t.Fatal(err)
	}
	draft, err := revision.NewDraft("shop", &unstructured.Unstructured{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	source, err := moment.Source()
	if err != nil {
		t.Fatal(err)
	}
	of := &api.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(at)}}
	of.Spec.Source.Name = "web"
	of.Status = &api.VirtualMachineSnapshotStatus{Phase: api.Succeeded, VirtualMachineSnapshotContentName: ptr.To("content-" + name)}
	content := &api.VirtualMachineSnapshotContent{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "content-" + name,
		Annotations: moment.Annotations(draft.Name)}}
	content.Spec.Source.VirtualMachine = source
	return []client.Object{of, content, draft.Object()}
}

// TestSnapshotStates: a row for each snapshot, the newest first, with what differs from the record.
func TestSnapshotStates(t *testing.T) {
	t.Parallel()
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC)
	objects := snapshotAt(t, "older", "pc-q35-9.2", day)
	objects = append(objects, snapshotAt(t, "newer", "pc-q35-10.0", day.Add(time.Hour))...)
	lost := snapshotAt(t, "lost", "pc-q35-8.2.1", day.Add(-time.Hour))
	other := &api.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}}
	cluster := fake.NewClientBuilder().WithScheme(known).WithObjects(append(objects, lost[0], lost[1], other)...).Build()
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	same := State{Digest: fmt.Sprintf("sha256:%064x", len("pc-q35-9.2")), record: &record.Record{Defaults: "1", Machine: "pc-q35-9.2"}}
	all, err := snapshotStates(t.Context(), cluster, vm, same)
	if err != nil || len(all) != 3 || all[0].Name != "snapshot newer" || all[1].Name != "snapshot older" || all[2].Name != "snapshot lost" {
		t.Fatalf("%v: %+v", err, all)
	}
	if all[0].Cause != "Succeeded, VM inactive" || len(all[0].Changes) != 1 || !strings.Contains(all[0].YAML, "pc-q35-10.0") {
		t.Errorf("%+v", all[0])
	}
	if len(all[1].Changes) > 0 || all[1].Hidden || all[1].Digest != same.Digest {
		t.Errorf("the same hardware: %+v", all[1])
	}
	if all[2].Digest != "" || !strings.Contains(all[2].Cause, "not found") {
		t.Errorf("a record that is gone: %+v", all[2])
	}
	for i := range maxSnapshots {
		if err := cluster.Create(t.Context(), snapshotAt(t, fmt.Sprintf("s-%d", i), "pc-q35-9.2", day)[0]); err != nil {
			t.Fatal(err)
		}
	}
	if all, err = snapshotStates(t.Context(), cluster, vm, same); err != nil || len(all) != maxSnapshots+1 || all[maxSnapshots].Cause != "and 3 older ones" {
		t.Errorf("%v: %d states, %+v", err, len(all), all[len(all)-1])
	}
}
