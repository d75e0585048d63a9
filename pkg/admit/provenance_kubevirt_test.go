package admit

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// filledByKubeVirt is a VM as KubeVirt's webhook stores one whose owner wrote the memory and the disk.
const filledByKubeVirt = `
metadata: {name: web, namespace: shop, uid: 4dd2a3a7}
spec:
  template:
    metadata: {annotations: {kubevirt.io/pci-topology-version: v3}}
    spec:
      architecture: amd64
      domain:
        firmware: {uuid: 1f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a, serial: 2f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a}
        machine: {type: q35}
        memory: {guest: 1Gi}
        devices: {}
`

const (
	uuidAt, serialAt, machineAt = "spec.domain.firmware.uuid", "spec.domain.firmware.serial", "spec.domain.machine.type"
	archAt, pciAt               = "spec.architecture", "metadata.annotations[kubevirt.io/pci-topology-version]"
)

// byKubectl are the fields that 'kubectl create' manages of the manifest without what KubeVirt fills.
const byKubectl = `{"f:spec":{"f:template":{"f:spec":{"f:domain":{"f:memory":{"f:guest":{}}}}}}}`

func managed(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
}

func applied(manifest string) map[string]string {
	return map[string]string{"kubectl.kubernetes.io/last-applied-configuration": manifest}
}

// TestFilledByKubeVirt: each field that KubeVirt fills names who wrote it, as far as that is known.
func TestFilledByKubeVirt(t *testing.T) {
	t.Parallel()
	const kubevirt, either, user = "KubeVirt", "KubeVirt or user", "user"
	firmware := func(below string) string {
		return `{"f:spec":{"f:template":{"f:spec":{"f:domain":{"f:firmware":` + below + `}}}}}`
	}
	all := func(origin string) map[string]string {
		return map[string]string{uuidAt: origin, serialAt: origin, machineAt: origin, archAt: origin, pciAt: origin, "spec.domain.memory.guest": user}
	}
	but := func(base map[string]string, path, origin string) map[string]string { base[path] = origin; return base }
	web := func(edit func(*v1.VirtualMachine)) v1.VirtualMachine {
		vm := decode[v1.VirtualMachine](t, filledByKubeVirt)
		if edit != nil {
			edit(&vm)
		}
		return vm
	}
	written := func(entries ...metav1.ManagedFieldsEntry) func(*v1.VirtualMachine) {
		return func(vm *v1.VirtualMachine) { vm.ManagedFields = append(entries, managed("kubectl-create", byKubectl)) }
	}
	for _, test := range []struct {
		why  string
		edit func(*v1.VirtualMachine)
		want map[string]string
	}{
		{"nobody manages what a webhook wrote", written(), all(kubevirt)},
		{"nothing tells", nil, all(either)},
		{"the user manages it", written(managed("kubectl-edit", firmware(`{"f:uuid":{}}`))), but(all(kubevirt), uuidAt, user)},
		{"the user manages all around it", written(managed("kubectl-edit", `{"f:spec":{"f:template":{}}}`)), all(user)},
		{"the user manages another field beside it", written(managed("kubectl-edit", firmware(`{".":{},"f:bootloader":{}}`))), all(kubevirt)},
		{"KubeVirt's controller manages it", func(vm *v1.VirtualMachine) {
			written(managed("virt-controller", firmware(`{"f:serial":{}}`)))(vm)
			vm.Spec.Template.Spec.Domain.Firmware.Serial = "of-kubevirt"
		}, all(kubevirt)},
		{"a manager of the status says nothing", func(vm *v1.VirtualMachine) {
			vm.ManagedFields = []metav1.ManagedFieldsEntry{managed("virt-controller", `{"f:status":{}}`), managed("kubectl-create", "no JSON"), {Manager: "a"},
				{Manager: "b", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
		}, all(either)},
		{"what kubectl applied", func(vm *v1.VirtualMachine) {
			vm.Annotations = applied(`{"spec":{"template":{"spec":{"architecture":"amd64","domain":{"firmware":{"uuid":"x"},"machine":1}}}}}`)
		}, but(but(all(either), uuidAt, user), archAt, user)},
		{"kubectl applied no manifest", func(vm *v1.VirtualMachine) { vm.Annotations = applied("[") }, all(either)},
		{"the managers count, and not what was applied before", func(vm *v1.VirtualMachine) {
			written()(vm)
			vm.Annotations = applied(`{"spec":{"template":{"spec":{"architecture":"amd64"}}}}`)
		}, all(kubevirt)},
		{"values that KubeVirt does not give", func(vm *v1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.Firmware = &v1.Firmware{UUID: "1f0c1f6e-6d2a-1c7b-9a43-8f3e1d2c7b6a", Serial: "rack-7"}
			vm.Spec.Template.ObjectMeta.Annotations[v1.PciTopologyVersionAnnotation] = "v2"
			vm.Spec.Template.Spec.Architecture, vm.Spec.Template.Spec.Domain.Machine.Type = "arm64", "virt-9.0"
		}, map[string]string{uuidAt: user, serialAt: user, pciAt: user, machineAt: either, archAt: either, "spec.domain.memory.guest": user}},
		{"values that another webhook may have given", func(vm *v1.VirtualMachine) {
			written()(vm)
			vm.Spec.Template.Spec.Domain.Firmware.Serial, vm.Spec.Template.Spec.Domain.Machine.Type = "rack-7", "pc-q35-9.0"
		}, but(but(all(kubevirt), serialAt, either), machineAt, either)},
		{"the UUID that KubeVirt derives from the name", func(vm *v1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.Firmware.UUID = "d32ff544-f682-571b-8677-3762f07ab8a4"
		}, but(all(either), uuidAt, kubevirt)},
	} {
		vm, in := web(test.edit), Input{Cluster: config.Default()}
		in.Cluster.Limits.KubeVirtGuests = true
		check := func(limits, want string, path string) {
			if got := facts(ExplainVM(&vm, in))[path]; origin(got) != want {
				t.Errorf("%s, %s: %s is of '%s', want '%s'", test.why, limits, path, got, want)
			}
		}
		for path, want := range test.want {
			check("KubeVirt", want, path)
		}
		in.Cluster.Limits.KubeVirtGuests = false
		for path := range test.want {
			check("Kiln", user, path)
		}
	}
}

// origin cuts the value off, which is a text.
func origin(fact string) string { return fact[strings.LastIndex(fact, `" `)+2:] }

// TestFilledFromAPreference: KubeVirt writes what a preference prefers into the VM. What Kiln's webhook writes into an expanded VM looks alike.
func TestFilledFromAPreference(t *testing.T) {
	t.Parallel()
	vm, in := decode[v1.VirtualMachine](t, filledByKubeVirt), explainedInput(t, `{machine: {preferredMachineType: pc-q35-9.0}, preferredArchitecture: arm64}`)
	in.Set.Instancetype, in.Cluster.Limits.KubeVirtGuests = nil, true
	vm.ManagedFields = []metav1.ManagedFieldsEntry{managed("kubectl-create", byKubectl)}
	vm.Spec.Template.Spec.Domain.Machine.Type, vm.Spec.Template.Spec.Architecture = "pc-q35-9.0", "arm64"
	check := func(want map[string]string) {
		t.Helper()
		got := facts(ExplainVM(&vm, in))
		for path, want := range want {
			if origin(got[path]) != want {
				t.Errorf("%s is %s, want of %s", path, got[path], want)
			}
		}
	}
	const because = "KubeVirt, because of preference fedora"
	check(map[string]string{machineAt: because, archAt: because})
	for _, test := range []struct {
		policy v1.InstancetypeReferencePolicy
		want   string
	}{{v1.Reference, because}, {v1.Expand, "KubeVirt or user"}, {v1.ExpandAll, "KubeVirt or user"}} {
		in.Cluster.Policy = test.policy
		check(map[string]string{machineAt: test.want, archAt: test.want, uuidAt: "KubeVirt", pciAt: "KubeVirt"})
	}
	in.Set.Preference = nil
	in.Set.Architecture = "arm64" // of the image
	check(map[string]string{archAt: "KubeVirt or user"})
	in.Cluster.Policy = v1.Reference
	check(map[string]string{archAt: "KubeVirt", machineAt: "KubeVirt or user"})
}

// TestForetold: of a VM that is not stored yet, KubeVirt fills what is a default elsewhere, and chooses the rest then.
func TestForetold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, uid, firmware string
		guests             bool
		origin             string
		notes              int
	}{
		{"KubeVirt will fill it", "", "", true, "KubeVirt", 1},
		{"with a UUID", "", "firmware: {uuid: 1f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a}, ", true, "KubeVirt", 1},
		{"with both", "", "firmware: {uuid: 1f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a, serial: a}, ", true, "KubeVirt", 0},
		{"it is stored without", "4dd2a3a7", "", true, "default (machine)", 0},
		{"Kiln runs the guest", "", "", false, "default (machine)", 0},
	} {
		vm := decode[v1.VirtualMachine](t, `{metadata: {name: web, uid: "`+test.uid+`"}, spec: {template: {spec: {domain: {`+test.firmware+`devices: {}}}}}}`)
		in := Input{Cluster: config.Default()}
		in.Cluster.Limits.KubeVirtGuests = test.guests
		explained := ExplainVM(&vm, in)
		got := facts(explained)
		if origin(got[machineAt]) != test.origin || strings.HasPrefix(origin(got[archAt]), "KubeVirt") != (test.origin == "KubeVirt") ||
			strings.HasPrefix(origin(got[pciAt]), "KubeVirt") != (test.origin == "KubeVirt") || len(explained.Notes) != test.notes {
			t.Errorf("%s: %s, %s, %s, %v", test.why, got[machineAt], got[archAt], got[pciAt], explained.Notes)
		}
		if origin(got["spec.domain.cpu.model"]) != "default (cpu model)" {
			t.Errorf("%s: %s", test.why, got["spec.domain.cpu.model"])
		}
	}
}

// TestVMIsOfKubeVirt: what KubeVirt wrote into a VM is its in the VMI as well.
func TestVMIsOfKubeVirt(t *testing.T) {
	t.Parallel()
	vm, in := decode[v1.VirtualMachine](t, filledByKubeVirt), Input{Cluster: config.Default()}
	in.Cluster.Limits.KubeVirtGuests = true
	vm.ManagedFields = []metav1.ManagedFieldsEntry{managed("kubectl-create", byKubectl)}
	vmi, verdict := VM(&vm, nil, in)
	if vmi == nil {
		t.Fatal(verdict.Errors)
	}
	got := facts(ExplainGuest(vmi, &vm, nil, in))
	for _, path := range []string{uuidAt, serialAt, machineAt, archAt, pciAt} {
		if origin(got[path]) != "KubeVirt" {
			t.Errorf("%s is %s", path, got[path])
		}
	}
}
