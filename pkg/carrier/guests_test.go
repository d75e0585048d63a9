package carrier

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// objectOf returns a document as an object in namespace team. more are flags of the administrator.
func objectOf(t *testing.T, document string, more ...string) Object {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	var of struct{ APIVersion, Kind string }
	if err := json.Unmarshal(raw, &of); err != nil {
		t.Fatal(err)
	}
	group, version, _ := strings.Cut(of.APIVersion, "/")
	kinds, err := ParseKinds(more)
	if err != nil {
		t.Fatal(err)
	}
	kind := Find(schema.GroupKind{Group: group, Kind: of.Kind}, kinds)
	if kind == nil {
		t.Fatalf("no carrier: %s", document)
	}
	return Object{Kind: *kind, Version: version, Namespace: "team", Raw: raw}
}

const (
	poolOf = "{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: web, uid: u}, spec: {virtualMachineTemplate: %s}}"
	vmOf   = "{metadata: {name: own, labels: {a: b}, annotations: {c: d}}, spec: {runStrategy: Always, template: {spec: {domain: {devices: {}}}}}}"
	vmiOf  = "{metadata: {labels: {a: b}}, spec: {domain: {devices: {}}}}"
)

// TestGuests: what is made of each kind, where its template is, and its name.
func TestGuests(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, object string
		more        []string
		want        []string
	}{
		{"a pool names its VMs by itself, and owns them", fmt.Sprintf(poolOf, vmOf), nil,
			[]string{"spec.virtualMachineTemplate VM team/web-0 map[a:b] map[c:d] VirtualMachinePool pool.kubevirt.io/v1beta1 u"}},
		{"an older version of a pool", strings.Replace(fmt.Sprintf(poolOf, vmOf), "v1beta1", "v1alpha1", 1), nil,
			[]string{"spec.virtualMachineTemplate VM team/web-0 map[a:b] map[c:d] VirtualMachinePool pool.kubevirt.io/v1alpha1 u"}},
		{"a replica set", "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, metadata: {name: web}, spec: {template: " + vmiOf + "}}", nil,
			[]string{"spec.template VMI team/webxxxxx map[a:b] map[] VirtualMachineInstanceReplicaSet kubevirt.io/v1 "}},
		{"a template", "{apiVersion: template.kubevirt.io/v1beta1, kind: VirtualMachineTemplate, metadata: {name: web}, spec: {virtualMachine: " + vmOf + "}}", nil,
			[]string{"spec.virtualMachine VM team/own map[a:b] map[c:d]"}},
		{"a template of machines", "{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachineTemplate, metadata: {name: web}, spec: {template: " +
			"{spec: {virtualMachineTemplate: " + vmOf + "}}}}", nil, []string{"spec.template.spec.virtualMachineTemplate VM team/web-xxxxx map[a:b] map[c:d]"}},
		{"a machine", "{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachine, metadata: {generateName: web-}, spec: " +
			"{virtualMachineTemplate: " + vmOf + "}}", nil, []string{"spec.virtualMachineTemplate VM team/web-xxxxx map[a:b] map[c:d]"}},
		{"a kind of the administrator, with lists in lists", "{apiVersion: example.org/v1, kind: Stack, metadata: {name: web}, spec: {tiers: [{vms: [{t: " + vmOf +
			"}, {t: null}, 3]}, {}, null, {vms: {t: 1}}, {vms: [{t: {metadata: {generateName: x-}}}]}]}}",
			[]string{"Stack.example.org=virtualmachines:spec.tiers[*].vms[*].t"},
			[]string{"spec.tiers[0].vms[0].t VM team/own map[a:b] map[c:d]", "spec.tiers[4].vms[0].t VM team/x-xxxxx map[] map[]"}},
		{"a kind of the administrator that makes VMIs", "{apiVersion: example.org/v1, kind: Stack, metadata: {name: web}, spec: {t: " + vmiOf + "}}",
			[]string{"Stack.example.org=virtualmachineinstances:spec.t"}, []string{"spec.t VMI team/web map[a:b] map[]"}},
		{"no template", fmt.Sprintf(poolOf, "null"), nil, nil},
		{"no spec", "{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, spec: [1]}", nil, nil},
		{"a template that is a text", fmt.Sprintf(poolOf, "text"), nil,
			[]string{"spec.virtualMachineTemplate: Forbidden: must be a template with metadata and spec"}},
		{"a value of a wrong type", fmt.Sprintf(poolOf, "{spec: {template: {spec: {domain: {devices: {disks: [{}, {name: 3}]}}}}}}"), nil,
			[]string{"spec.virtualMachineTemplate.spec.template.spec.domain.devices.disks[1].name: Invalid value: 3: must be text"}},
		{"a text in the place of an amount", fmt.Sprintf(poolOf, "{spec: {template: {spec: {domain: {memory: {guest: 1GB}}}}}}"), nil,
			[]string{"spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest: Invalid value: \"1GB\""}},
		{"metadata that is a list", fmt.Sprintf(poolOf, "{metadata: [1]}"), nil, []string{"spec.virtualMachineTemplate.metadata: Invalid value"}},
	} {
		guests, err := objectOf(t, test.object, test.more...).Guests()
		if err != nil {
			t.Errorf("%s: %v", test.why, err)
			continue
		}
		var got []string
		for _, guest := range guests {
			got = append(got, inWords(guest))
		}
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", test.why, got, test.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], test.want[i]) {
				t.Errorf("%s: '%s', want '%s'", test.why, got[i], test.want[i])
			}
		}
	}
}

// inWords describes a guest, or the mistake in its template.
func inWords(g Guest) string {
	if g.Mistake != nil {
		return g.Mistake.Error()
	}
	var of metav1.Object = g.VM
	kind := "VM"
	if g.VMI != nil {
		of, kind = g.VMI, "VMI"
	}
	text := fmt.Sprintf("%s %s %s/%s %v %v", g.Path, kind, of.GetNamespace(), of.GetName(), of.GetLabels(), of.GetAnnotations())
	for _, owner := range of.GetOwnerReferences() {
		text += fmt.Sprintf(" %s %s %s", owner.Kind, owner.APIVersion, owner.UID)
	}
	return text
}

// TestForgedMetadata: what a template says of itself is not true of what is made of it: its namespace, owner, time of deletion, and what only admission writes.
func TestForgedMetadata(t *testing.T) {
	t.Parallel()
	guests, err := objectOf(t, fmt.Sprintf(poolOf, `{metadata: {namespace: other, uid: x, deletionTimestamp: '2020-01-01T00:00:00Z', finalizers: [a], annotations:
  {kilnvm.io/pins: '{"instancetype":"cheap"}', kilnvm.io/identity: x, mine: 1x}, ownerReferences: [{kind: VirtualMachine, name: x, controller: true}]},
  status: {ready: true}, spec: {}}`)).Guests()
	if err != nil || len(guests) != 1 || guests[0].VM == nil {
		t.Fatal(guests, err)
	}
	vm := guests[0].VM
	if vm.Namespace != "team" || vm.UID != "" || vm.DeletionTimestamp != nil || vm.Finalizers != nil || vm.Status.Ready {
		t.Errorf("%+v", vm)
	}
	if diff := cmp.Diff(map[string]string{"mine": "1x"}, vm.Annotations); diff != "" {
		t.Error(diff)
	}
	if len(vm.OwnerReferences) != 1 || vm.OwnerReferences[0].Kind != "VirtualMachinePool" {
		t.Errorf("owners %v", vm.OwnerReferences)
	}
}

// TestMostTemplates: an object of more templates than are judged is refused, so that nobody puts the one that is forbidden behind the others.
func TestMostTemplates(t *testing.T) {
	t.Parallel()
	const kind = "Stack.example.org=virtualmachines:spec.vms[*]"
	for n, refused := range map[int]bool{MostGuests: false, MostGuests + 1: true, 100_000: true} {
		object := objectOf(t, "{apiVersion: example.org/v1, kind: Stack, metadata: {name: web}, spec: {vms: ["+strings.Repeat("{},", n)+"]}}", kind)
		guests, err := object.Guests()
		if (err != nil) != refused || !refused && len(guests) != n || err != nil && (err.Field != "spec.vms" || err.Origin != RuleTooMany) {
			t.Errorf("%d templates: %d, %v", n, len(guests), err)
		}
	}
}

// TestParseKinds: which kinds an administrator may add.
func TestParseKinds(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"Stack.example.org=virtualmachines:spec.machines[*].template": "",
		"Stack.example.org=virtualmachineinstances:spec.vm-template":  "",
		"Stack=virtualmachines:spec.vm":                               "must be KIND.GROUP=RESOURCE:PATH",
		"Stack.example.org=pods:spec.vm":                              "must be virtualmachines or virtualmachineinstances",
		"Stack.example.org=virtualmachines:status.vm":                 "must be a path below spec",
		"Stack.example.org=virtualmachines:spec.vms[0]":               "must be a path below spec",
		"Stack.example.org=virtualmachines:spec.a#(b==1)":             "must be a path below spec",
		"Stack.example.org=virtualmachines:spec.":                     "must be a path below spec",
		"VirtualMachinePool.pool.kubevirt.io=virtualmachines:spec.vm": "known already",
		"VirtualMachine.kubevirt.io=virtualmachines:spec.template":    "judges by itself",
		"GuestPolicy.kilnvm.io=virtualmachines:spec.template":         "judges by itself",
	} {
		kinds, err := ParseKinds([]string{text})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) || err == nil && len(kinds) != 1 {
			t.Errorf("%s: %v, %v", text, kinds, err)
		}
	}
	if _, err := ParseKinds([]string{"A.b=virtualmachines:spec.a", "A.b=virtualmachines:spec.b"}); err == nil {
		t.Error("one kind twice")
	}
	if Find(schema.GroupKind{Group: "kubevirt.io", Kind: "VirtualMachine"}, nil) != nil {
		t.Error("a VM is no carrier")
	}
}

// TestSame: whether an update of a carrier changes what is made of it.
func TestSame(t *testing.T) {
	t.Parallel()
	one := fmt.Sprintf(poolOf, vmOf)
	for object, same := range map[string]bool{
		one: true,
		strings.Replace(one, "spec: {virtualMachineTemplate", "spec: {paused: true, virtualMachineTemplate", 1): true,
		strings.Replace(one, "Always", "Halted", 1):                                                             false,
		strings.Replace(one, "{a: b}", "{a: c}", 1):                                                             false,
		fmt.Sprintf(poolOf, "text"):                                                                             false,
		strings.Replace(one, "metadata: {name: web, uid: u", "metadata: {name: other, uid: u", 1):               false,
	} {
		of := objectOf(t, object)
		of.Old = objectOf(t, one).Raw
		guests, err := of.Guests()
		if err != nil || guests[0].Same(of.OldGuests()[0]) != same {
			t.Errorf("%s: want %t", object, same)
		}
	}
}

// FuzzGuests: no object makes the reader panic, and each template has an object or a mistake.
func FuzzGuests(f *testing.F) {
	f.Add(`{"spec":{"parameters":[{"name":"A","value":"${A}"}],"virtualMachine":{"spec":{"instancetype":{"name":"${A}"}}}}}`)
	f.Add(`{"spec":{"parameters":{"name":1},"virtualMachine":{"metadata":{"name":"${B}","labels":{"${A}":"${{A}}"}}}}}`)
	f.Add(`{"metadata":3,"spec":{"virtualMachine":[[{}]]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		for _, kind := range append(Builtin, Kind{Path: "spec.a[*].b", Makes: v1alpha1.PolicyVirtualMachines, name: ownOrCarrier}) {
			guests, _ := Object{Kind: kind, Raw: []byte(text)}.Guests()
			for _, guest := range guests {
				if (guest.VM == nil) == (guest.VMI == nil) == (guest.Mistake == nil) {
					t.Errorf("%s: %+v", text, guest)
				}
			}
		}
	})
}
