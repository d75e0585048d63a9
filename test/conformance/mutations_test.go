package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
)

// What the reference writes into a VM is looked for in Kiln's VMI, leaf by leaf, wherever it wrote.
func TestCarried(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type list = []any
	disk := func(bus string) object { return object{"name": "a", "disk": object{"bus": bus}} }
	for _, c := range []struct {
		why                  string
		before, after, guest any
		want                 []string
	}{
		{"a leaf that the guest has", object{}, object{"architecture": "amd64"}, object{"architecture": "amd64"}, nil},
		{"a leaf that the guest lacks", object{}, object{"architecture": "amd64"}, object{}, []string{"architecture"}},
		{"another value", object{}, object{"architecture": "amd64"}, object{"architecture": "arm64"}, []string{"architecture"}},
		{"what was there before is the user's, whatever the guest makes of it", object{"cores": 1.0}, object{"cores": 1.0}, object{"cores": 2.0}, nil},
		{"a leaf below what was not there", nil, object{"machine": object{"type": "q35"}}, object{}, []string{"machine.type"}},
		{"an element of a list, beside which the guest has more", object{"disks": list{disk("")}}, object{"disks": list{disk("sata")}},
			object{"disks": list{disk("virtio"), disk("sata")}}, []string{"disks[0].disk.bus"}},
		{"a list that is longer than before", object{"inputs": list{}}, object{"inputs": list{"tablet"}}, object{"inputs": list{}}, []string{"inputs"}},
		{"what was taken away is gone", object{"guest": "1Gi"}, object{}, object{}, nil},
		{"something else in its place is not what was taken away", object{"guest": "1Gi"}, object{}, object{"guest": "2Gi"}, nil},
		{"what was taken away is still there", object{"guest": "1Gi"}, object{}, object{"guest": "1Gi"}, []string{"guest"}},
	} {
		var got []string
		for _, d := range leavesNotCarried("", c.before, c.after, c.guest) {
			got = append(got, d.path)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// An answer without an object means that nothing was patched. One that leaves a field out, or that refuses, says something else.
func TestPatchedNothing(t *testing.T) {
	t.Parallel()
	vmi := json.RawMessage(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"a"},` +
		`"spec":{"domain":{"devices":{}}},"status":{"phase":"Running"}}`)
	vm := json.RawMessage(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a","namespace":"default"},"spec":{"runStrategy":"Halted",` +
		`"template":{"spec":{"architecture":"amd64","domain":{"memory":{"guest":"1.5Gi"},"devices":{}}}}}}`)
	allowed := func(object string) expectation { return expectation{Allowed: true, Object: json.RawMessage(object)} }
	for _, c := range []struct {
		why  string
		give record
		want bool
	}{
		{"a VMI without an object", record{Operation: "UPDATE", VMI: vmi, Expect: allowed("")}, true},
		{"a VMI with the object null", record{Operation: "UPDATE", VMI: vmi, Expect: allowed("null")}, true},
		{"a VMI as it was", record{Operation: "UPDATE", VMI: vmi, Expect: allowed(string(vmi))}, true},
		{"a VMI that was changed", record{Operation: "UPDATE", VMI: vmi, Expect: allowed(`{"metadata":{"name":"b"}}`)}, false},
		{"a VM without an object", record{Kind: "vm", Operation: "UPDATE", VM: vm, Old: vm, Expect: allowed("")}, true},
		{"a VM that was changed", record{Kind: "vm", Operation: "UPDATE", VM: vm, Old: vm,
			Expect: allowed(`{"spec":{"template":{"spec":{"hostname":"h"}}}}`)}, false},
	} {
		if got := replayMutate(c.give, config.Default()); got.agrees != c.want {
			t.Errorf("%s: agrees %v, want %v: %s", c.why, got.agrees, c.want, got.difference)
		}
	}
}
