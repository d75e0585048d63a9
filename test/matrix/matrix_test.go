// Package matrix runs every instancetype of a catalog with every preference of it through stage 1. What a single rule does wrong with one
// combination of fields shows here, without anybody having thought of that combination.
package matrix

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// plain are VMs that set no more than most do: one that names no device, one of Linux, and one of Windows with two networks.
var plain = map[string]string{
	"bare": `
domain: {devices: {}}
volumes: [{name: root, containerDisk: {image: "os:1"}}]`,
	"linux": `
domain:
  devices:
    disks: [{name: root, bootOrder: 1}, {name: cloudinit, disk: {bus: virtio}}]
    interfaces: [{name: default, masquerade: {}}]
    rng: {}
networks: [{name: default, pod: {}}]
volumes: [{name: root, persistentVolumeClaim: {claimName: root}}, {name: cloudinit, cloudInitNoCloud: {userData: "#cloud-config"}}]`,
	"windows": `
domain:
  devices:
    disks: [{name: root}, {name: drivers, cdrom: {}}]
    interfaces: [{name: default, masquerade: {}}, {name: second, bridge: {}}]
    inputs: [{name: tablet, type: tablet}]
networks: [{name: default, pod: {}}, {name: second, multus: {networkName: second}}]
volumes: [{name: root, dataVolume: {name: root}}, {name: drivers, containerDisk: {image: "drivers:1"}}]`,
}

func TestEverySizeWithEveryPreference(t *testing.T) {
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) { everySizeWithEveryPreference(t, set) })
	}
}

func everySizeWithEveryPreference(t *testing.T, set samples.Set) {
	sizes, preferences := catalog(t, set)
	tested, admitted, refused := 0, 0, map[string]int{}
	for name, spec := range plain {
		vm := machine(t, spec)
		for _, size := range sizes {
			for _, preference := range preferences {
				in := admit.Input{Set: instancetype.Set{Instancetype: size, Preference: preference}, Cluster: config.Default()}
				explicit, verdict := admit.VM(vm, nil, in)
				tested++
				if !verdict.Allowed() {
					refused[requirement(t, name+", "+size.Name+", "+preference.Name, verdict.Errors)]++
					continue
				}
				admitted++
				if left := implicit(explicit, size); len(left) > 0 {
					t.Fatalf("%s, %s, %s: not explicit: %v", name, size.Name, preference.Name, left)
				}
				idempotent(t, explicit, in)
			}
		}
	}
	if want := len(sizes) * len(preferences) * len(plain); tested != want || admitted == 0 {
		t.Errorf("%d combinations tested of %d, %d admitted", tested, want, admitted)
	}
	t.Logf("%d sizes x %d preferences x %d guests: %d combinations, %d admitted, explicit and idempotent; refused for %v",
		len(sizes), len(preferences), len(plain), tested, admitted, refused)
}

// requirement is what the preference requires and the combination lacks, which every error must be about.
func requirement(t *testing.T, combination string, errs field.ErrorList) string {
	t.Helper()
	subjects := map[string]bool{}
	for _, err := range errs {
		switch {
		case named(err) && strings.Contains(err.Detail, "architecture '"): // what one of them sets, the other's architecture has not
			subjects["architecture"] = true
		case named(err) && strings.Contains(err.Detail, "sets spec.domain.cpu.model"): // it names a model, and arm64 has the host's own
			subjects["architecture"] = true
		case named(err) && strings.Contains(err.Detail, "threads per core"): // vCPUs as threads, each with a CPU of its own
			subjects["threads"] = true
		case strings.HasSuffix(err.Field, ".architecture") && strings.Contains(err.Detail, "requires"):
			subjects["architecture"] = true
		case err.Field == "spec.instancetype" && strings.Contains(err.Detail, "of memory"):
			subjects["memory"] = true
		case err.Field == "spec.instancetype" && strings.Contains(err.Detail, "requires"):
			subjects["CPU"] = true
		case err.Field == "spec.preference" && strings.Contains(err.Detail, "spreads vCPUs in units"):
			subjects["spread"] = true
		default:
			t.Fatalf("%s: refused, and not for a requirement: %v", combination, err)
		}
	}
	var all []string
	for _, subject := range []string{"CPU", "memory", "architecture", "spread", "threads"} {
		if subjects[subject] {
			all = append(all, subject)
		}
	}
	return strings.Join(all, " and ")
}

// named reports whether an error is at the user's reference to the instancetype or the preference that it names, or at a field that it fills.
func named(err *field.Error) bool {
	return strings.HasPrefix(err.Detail, "instancetype '") || strings.HasPrefix(err.Detail, "preference '")
}

// implicit are the fields that an explicit VMI would have.
func implicit(vmi *v1.VirtualMachineInstance, size *instancetype.Instancetype) (left []string) {
	spec, domain := vmi.Spec, vmi.Spec.Domain
	given := map[string]bool{
		"architecture": spec.Architecture != "", "machine": domain.Machine.Type != "", "cpu.model": domain.CPU.Model != "",
		"vCPUs": domain.CPU.Sockets*domain.CPU.Cores*domain.CPU.Threads == size.Spec.CPU.Guest, "memory": domain.Memory.Guest.Cmp(size.Spec.Memory.Guest) == 0,
		"eviction": spec.EvictionStrategy != nil, "acpi": domain.Features.ACPI.Enabled != nil, "networks": len(spec.Networks) == len(domain.Devices.Interfaces),
		"disks": len(domain.Devices.Disks) == len(spec.Volumes),
	}
	for _, disk := range domain.Devices.Disks {
		given[disk.Name] = disk.Disk != nil && disk.Disk.Bus != "" || disk.CDRom != nil && disk.CDRom.Bus != "" && disk.CDRom.Tray != ""
	}
	for _, nic := range domain.Devices.Interfaces {
		given[nic.Name] = nic.InterfaceBindingMethod != v1.InterfaceBindingMethod{}
	}
	for _, input := range domain.Devices.Inputs {
		given[input.Name] = input.Bus != "" && input.Type != ""
	}
	for name, ok := range given {
		if !ok {
			left = append(left, name)
		}
	}
	return left
}

// idempotent: the explicit VMI, sent again by a controller or from its own YAML, stays as it is and is legal.
func idempotent(t *testing.T, explicit *v1.VirtualMachineInstance, in admit.Input) {
	t.Helper()
	again, verdict := admit.VMI(explicit, in)
	if !verdict.Allowed() {
		t.Fatalf("%s, %s: what was admitted is refused: %v", in.Set.Instancetype.Name, in.Set.Preference.Name, verdict.Errors)
	}
	// reflect.DeepEqual would also compare the text that a Quantity keeps once it was printed.
	if !equality.Semantic.DeepEqual(explicit, again) {
		t.Fatalf("%s, %s: admitting again changes (-once +twice):\n%s", in.Set.Instancetype.Name, in.Set.Preference.Name, cmp.Diff(explicit, again))
	}
	if judged := admit.Judge(again, in); !judged.Allowed() {
		t.Fatalf("%s, %s: the VM is admitted, its guest refused: %v", in.Set.Instancetype.Name, in.Set.Preference.Name, judged.Errors)
	}
}

func machine(t *testing.T, spec string) *v1.VirtualMachine {
	t.Helper()
	always := v1.RunStrategyAlways
	vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{RunStrategy: &always, Template: &v1.VirtualMachineInstanceTemplateSpec{},
		Instancetype: &v1.InstancetypeMatcher{Name: "any"}, Preference: &v1.PreferenceMatcher{Name: "any"}}}
	if err := yaml.UnmarshalStrict([]byte(spec), &vm.Spec.Template.Spec); err != nil {
		t.Fatal(err)
	}
	return vm
}

func catalog(t *testing.T, set samples.Set) (sizes []*instancetype.Instancetype, preferences []*instancetype.Preference) {
	t.Helper()
	for _, s := range documents[v1beta1.VirtualMachineClusterInstancetype](t, set.Path("catalog", "cluster-instancetypes.yaml")) {
		sizes = append(sizes, &instancetype.Instancetype{Source: instancetype.Source{Kind: s.Kind, Name: s.Name}, Spec: s.Spec})
	}
	for _, p := range documents[v1beta1.VirtualMachineClusterPreference](t, set.Path("catalog", "cluster-preferences.yaml")) {
		preferences = append(preferences, &instancetype.Preference{Source: instancetype.Source{Kind: p.Kind, Name: p.Name}, Spec: p.Spec})
	}
	return sizes, preferences
}

func documents[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(raw), "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		var object T
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, object)
	}
	return all
}
