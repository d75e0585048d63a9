package review

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/carrier"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const noHostDevice = "no-host-device hardware == null || !hardware.devices.exists(d, d.startsWith('hostdev.'))"

// recordedFor is the GuestHardware of VM 'a' with a host device, which belongs to the VM of a UID.
func recordedFor(t *testing.T, uid, identity string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`{apiVersion: kilnvm.io/v1alpha1, kind: GuestHardware, metadata: {name: a, namespace: team}, spec: {
  identity: "`+identity+`", hardware: {
  defaults: "1", digest: "sha256:`+strings.Repeat("0", 64)+`", machine: pc-q35-7.2, devices: {hostdev.a: {pci: "0000:05:00.0"}}}},
  status: {virtualMachineUID: "`+uid+`"}}`), &object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// TestPoliciesReadHardware: a policy sees the recorded hardware of the VM, and not the hardware of another guest of its name, nor of a template of VMs.
func TestPoliciesReadHardware(t *testing.T) {
	for _, test := range []struct {
		why, owner, identity string
		refused              bool
	}{
		{"the VM's own", "u", "", true},
		{"restored for the VM", "", "seed", true},
		{"of a VM of this name that is gone", "other", "else", false},
		{"restored for another VM", "", "else", false},
	} {
		r := policied(t, inForce(t, noHostDevice), recordedFor(t, test.owner, test.identity))
		vm, old := cpus(t, "2"), cpus(t, "1")
		vm.UID, vm.Annotations = types.UID("u"), map[string]string{"kilnvm.io/identity": "seed"}
		old.UID, old.Annotations = vm.UID, vm.Annotations
		reviewed, err := r.ReviewVM(t.Context(), vm, old, Asker{})
		if err != nil || reviewed.Allowed() == test.refused || test.refused && !strings.Contains(texts(reviewed.Errors), "broken no-host-device") {
			t.Errorf("%s: %v, %s", test.why, err, texts(reviewed.Errors))
		}
		if !test.refused {
			continue
		}
		again := vm.DeepCopy()
		again.Labels = map[string]string{"x": "z"}
		if reviewed, err = r.ReviewVM(t.Context(), again, vm, Asker{}); err != nil || !reviewed.Allowed() {
			t.Errorf("%s: a label of a VM that violates it already: %v, %s", test.why, err, texts(reviewed.Errors))
		}
	}
	r := policied(t, inForce(t, noHostDevice), recordedFor(t, "u", ""))
	vmi := parsed[v1.VirtualMachineInstance](t, `{metadata: {name: a, namespace: team, uid: v, labels: {x: z}, ownerReferences: [
  {apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: u, controller: true}]}, spec: {domain: {devices: {}}}}`)
	adopted := vmi.DeepCopy()
	adopted.OwnerReferences[0].UID = "other"
	verdict, err := r.ReviewVMIUpdate(t.Context(), vmi, adopted, Asker{})
	if err != nil || verdict.Allowed() {
		t.Errorf("a VMI of the VM: %v, %s", err, texts(verdict.Errors))
	}
	kind := carrier.Find(schema.GroupKind{Group: carrier.GroupOfMachines, Kind: "KubevirtMachine"}, nil)
	raw, err := yaml.YAMLToJSON([]byte("{metadata: {name: a}, spec: {virtualMachineTemplate: {spec: {runStrategy: Always, template: {spec: {\n" +
		"  domain: {memory: {guest: 1Gi}, devices: {}}}}}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	carried, err := r.ReviewCarrier(t.Context(), carrier.Object{Kind: *kind, Version: "v1alpha1", Namespace: "team", Raw: raw}, Asker{})
	if err != nil || !carried.Allowed() || len(carried.Guests) != 1 {
		t.Errorf("a machine of this name: %v, %s", err, texts(carried.Errors))
	}
}
