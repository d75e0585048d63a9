package snapshot

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/yaml"
)

// vmOf reads a VM.
func vmOf(t *testing.T, text string) *v1.VirtualMachine {
	t.Helper()
	vm := &v1.VirtualMachine{}
	if err := yaml.UnmarshalStrict([]byte(text), vm); err != nil {
		t.Fatal(err)
	}
	return vm
}

const demo = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: demo
  namespace: team
  uid: "1"
  labels: {app: web, tier: db}
  annotations:
    kilnvm.io/pins: '{"instancetype":"small-1","presets":["p-1"],"later":"l-1"}'
    kilnvm.io/identity: seed
    kilnvm.io/inference: '["a"]'
    kilnvm.io/generation: "7"
    note: mine
    kubectl.kubernetes.io/last-applied-configuration: '{}'
spec:
  runStrategy: Manual
  instancetype: {name: small}
  template:
    metadata: {labels: {app: web}}
    spec:
      domain:
        firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223, serial: own}
        devices:
          disks: [{name: root}, {name: seed}]
          interfaces:
          - {name: default, masquerade: {}, macAddress: '02:00:00:00:00:01'}
          - {name: lan, bridge: {}}
      networks: [{name: default, pod: {}}, {name: lan, multus: {networkName: lan}}]
      volumes:
      - {name: root, persistentVolumeClaim: {claimName: root}}
      - {name: seed, cloudInitNoCloud: {secretRef: {name: seed}}}
`

// hardware is the record of the VM.
func hardware() *v1alpha1.GuestHardwareSpec {
	return &v1alpha1.GuestHardwareSpec{Identity: "seed", Hardware: &v1alpha1.HardwareRecord{
		Defaults: "v1", Digest: "sha256:" + strings.Repeat("0", 64), UUID: "5d307ca9-b3ef-428c-8861-06e72d69f223", Serial: "own", Machine: "pc-q35-9.2",
		SchemaVersion: 2, CPU: &v1alpha1.GuestCPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "svm"},
			DisabledFeatures: []string{"monitor"}, Topology: v1alpha1.GuestCPUTopology{Sockets: 1, Cores: 2, Threads: 1}, Verified: true},
		VSOCK: "77", MACs: map[string]string{"default": "02:00:00:00:00:01", "lan": "02:00:00:00:00:02"},
		Devices: map[string]v1alpha1.GuestAddress{"disk.root": {PCI: "0000:0b:00.0", Target: "vda"}, "interface.lan": {PCI: "0000:0c:00.0"}},
	}}
}

// kept is a content of the VM, written and read again.
func kept(t *testing.T, m Moment, backups ...api.VolumeBackup) Kept {
	t.Helper()
	source, err := m.Source()
	if err != nil {
		t.Fatal(err)
	}
	content := &api.VirtualMachineSnapshotContent{ObjectMeta: metav1.ObjectMeta{Namespace: m.VM.Namespace, Annotations: m.Annotations("")},
		Spec: api.VirtualMachineSnapshotContentSpec{Source: api.SourceSpec{VirtualMachine: source}, VolumeBackups: backups}}
	object, err := m.Record()
	if err != nil {
		t.Fatal(err)
	}
	var taken instancetype.Snapshot
	if object != nil {
		if taken, err = instancetype.Take(object); err != nil {
			t.Fatal(err)
		}
		content.Annotations = m.Annotations(taken.Name)
	}
	k, err := Read(content)
	if err == nil && k.Revision != "" {
		k, err = k.WithRecord(taken.Data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestContentHoldsTheMoment: what is written is read again, without what is no part of a VM.
func TestContentHoldsTheMoment(t *testing.T) {
	t.Parallel()
	vm := vmOf(t, demo)
	vm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a"}}
	k := kept(t, Moment{VM: vm, Hardware: hardware()})
	if diff := cmp.Diff(hardware(), k.Hardware); diff != "" {
		t.Errorf("the record has changed:\n%s", diff)
	}
	later := hardware()
	later.Hardware.SchemaVersion, later.Hardware.Unknown = 3, map[string]json.RawMessage{"cache": json.RawMessage(`{"bits":48}`)}
	if diff := cmp.Diff(later, kept(t, Moment{VM: vm, Hardware: later}).Hardware); diff != "" {
		t.Errorf("the record of a later version has changed:\n%s", diff)
	}
	if diff := cmp.Diff(vm.Spec, k.VM.Spec); diff != "" {
		t.Errorf("the spec has changed:\n%s", diff)
	}
	if k.VM.Annotations["kubectl.kubernetes.io/last-applied-configuration"] != "" || k.VM.Annotations["note"] != "mine" || len(k.VM.ManagedFields) > 0 {
		t.Errorf("metadata: %+v", k.VM.ObjectMeta)
	}
	if vm.Annotations["kubectl.kubernetes.io/last-applied-configuration"] == "" {
		t.Error("the VM that was given has been changed")
	}
	if none := kept(t, Moment{VM: vm}); none.Revision != "" || none.Hardware != nil {
		t.Errorf("a VM that never ran has the record %+v", none.Hardware)
	}
}

// TestAnnotationsNameEveryRevision: the annotation lists each revision once, even the revisions in keys of a newer release.
func TestAnnotationsNameEveryRevision(t *testing.T) {
	t.Parallel()
	vm := vmOf(t, demo)
	vm.Spec.Preference = &v1.PreferenceMatcher{Name: "linux", RevisionName: "linux-1"}
	vm.Annotations[v1alpha1.AnnotationPins] = `{"instancetype":"(none)","preference":"linux-1","presets":["p-1","p-2"],"later":["l-1"],"odd":7}`
	got := Moment{VM: vm, Running: true}.Annotations("demo-r")
	want := map[string]string{v1alpha1.AnnotationRecord: "demo-r", v1alpha1.AnnotationSnapshotState: "running",
		v1alpha1.AnnotationPins: `{"revisions":["linux-1","l-1","p-1","p-2","demo-r"]}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	vm.Annotations[v1alpha1.AnnotationPins] = "{"
	got = Moment{VM: vm}.Annotations("")
	if got[v1alpha1.AnnotationPins] != `{"revisions":["linux-1"]}` || got[v1alpha1.AnnotationSnapshotState] != "inactive" {
		t.Errorf("%v", got)
	}
}

// TestHostileContents: what a backup tool or an administrator may have written is refused with a reason.
func TestHostileContents(t *testing.T) {
	t.Parallel()
	for why, spec := range map[string]api.VirtualMachineSnapshotContentSpec{
		"no source":   {},
		"no name":     {Source: api.SourceSpec{VirtualMachine: &api.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}}}}},
		"no template": {Source: api.SourceSpec{VirtualMachine: &api.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}}},
	} {
		if _, err := Read(&api.VirtualMachineSnapshotContent{Spec: spec}); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
	k := kept(t, Moment{VM: vmOf(t, demo), Hardware: hardware()})
	for why, data := range map[string]string{
		"no JSON":     "{",
		"a size":      `{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineInstancetype","metadata":{"name":"demo"},"spec":{}}`,
		"of another":  `{"apiVersion":"kilnvm.io/v1alpha1","kind":"GuestHardware","metadata":{"name":"other"},"spec":{"hardware":{"defaults":"1","digest":""}}}`,
		"empty":       `{"apiVersion":"kilnvm.io/v1alpha1","kind":"GuestHardware","metadata":{"name":"demo"},"spec":{}}`,
		"no hardware": `{"apiVersion":"kilnvm.io/v1alpha1","kind":"GuestHardware","metadata":{"name":"demo"},"spec":{"hardware":{"defaults":"1","machine":"<x/>"}}}`,
	} {
		if _, err := k.WithRecord([]byte(data)); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
	large := vmOf(t, demo)
	large.Annotations["large"] = strings.Repeat("a", longestVM)
	if _, err := (Moment{VM: large}).Source(); err == nil || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("a VM that no content can hold: %v", err)
	}
}
