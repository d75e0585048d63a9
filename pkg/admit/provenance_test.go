package admit

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

const explained = `
metadata: {name: web, namespace: shop}
spec:
  instancetype: {name: medium}
  preference: {inferFromVolume: root}
  template:
    metadata: {labels: {tier: front}}
    spec:
      domain:
        devices:
          disks:
          - {name: root, disk: {bus: sata}}
          - {name: data}
          interfaces: [{name: default, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: root, containerDisk: {image: "os:1"}}, {name: data, emptyDisk: {capacity: 1Gi}}, {name: more, emptyDisk: {capacity: 1Gi}}]
`

func explain1(t *testing.T, preference string) Explanation {
	t.Helper()
	vm := decode[v1.VirtualMachine](t, explained)
	return ExplainVM(&vm, explainedInput(t, preference))
}

func explainedInput(t *testing.T, preference string) Input {
	t.Helper()
	return Input{Cluster: config.Default(), Set: instancetype.Set{
		Instancetype: &instancetype.Instancetype{Source: instancetype.Source{Name: "medium", Revision: "medium-abc"},
			Spec: decode[v1beta1.VirtualMachineInstancetypeSpec](t, `{cpu: {guest: 2}, memory: {guest: 2Gi}}`)},
		Preference: &instancetype.Preference{Source: instancetype.Source{Name: "fedora"}, Spec: decode[v1beta1.VirtualMachinePreferenceSpec](t, preference)},
	}, Presets: []v1.VirtualMachineInstancePreset{decode[v1.VirtualMachineInstancePreset](t, `
metadata: {name: steady}
spec: {selector: {matchLabels: {tier: front}}, domain: {cpu: {cores: 4}, clock: {utc: {}}, devices: {rng: {}}}}
`)}}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, fact := range explain1(t, `{devices: {preferredDiskBus: virtio}}`).Fields {
		got[fact.Path] = leaves.Leaf{Value: fact.Value}.Text() + " " + fact.Origin.String()
	}
	for path, want := range map[string]string{
		"spec.domain.devices.disks[0].disk.bus": `"sata" user`,
		"spec.domain.devices.disks[1].disk.bus": `"virtio" preference fedora, inferred from volume root`,
		// Made for a volume, before the preference.
		"spec.domain.devices.disks[2].disk.bus":                         `"virtio" preference fedora, inferred from volume root`,
		"spec.domain.devices.interfaces[0].masquerade":                  `{} user`,
		"spec.domain.cpu.sockets":                                       `2 instancetype medium@medium-abc`,
		"spec.domain.memory.guest":                                      `"2Gi" instancetype medium@medium-abc`,
		"spec.domain.clock.utc":                                         `{} preset steady`,
		"spec.architecture":                                             `"amd64" default (architecture)`,
		"metadata.annotations[virtualmachinepreset.kubevirt.io/steady]": `"kubevirt.io/v1" preset steady`,
	} {
		if got[path] != want {
			t.Errorf("%s: got %s, want %s", path, got[path], want)
		}
	}
}

// TestFillersAreNoted: with all three sources at once, and defaults that fill what they left open inside of their objects.
func TestFillersAreNoted(t *testing.T) {
	t.Parallel()
	vm := decode[v1.VirtualMachine](t, explained)
	in := explainedInput(t, `{devices: {preferredDiskBus: virtio, preferredTPM: {}}, features: {preferredHyperv: {relaxed: {}, spinlocks: {}}},
		firmware: {preferredUseEfi: true}, clock: {preferredTimer: {hpet: {}}}, cpu: {preferredCPUFeatures: [{name: vmx}]}, annotations: {a: b}}`)
	in.Presets = append(in.Presets, decode[v1.VirtualMachineInstancePreset](t, `
metadata: {name: patient}
spec:
  selector: {matchLabels: {tier: front}}
  domain: {resources: {requests: {cpu: 100m}}, ioThreadsPolicy: auto, devices: {watchdog: {name: dog, i6300esb: {}}}}
`))
	if named := sameFillers(t, &vm, in); named < 12 {
		t.Errorf("%d fields have one of the three sources: the example shows too little", named)
	}
}

// TestBecauseOfAPreference: what others give only because of the preference names both.
func TestBecauseOfAPreference(t *testing.T) {
	t.Parallel()
	because := map[string]string{}
	for _, fact := range explain1(t, `{cpu: {preferredCPUTopology: cores}, features: {preferredHyperv: {relaxed: {}}}}`).Fields {
		if fact.Origin.Because != nil {
			because[fact.Path] = fact.Origin.String()
		}
	}
	want := map[string]string{
		"spec.domain.cpu.cores":                       "instancetype medium@medium-abc, because of preference fedora, inferred from volume root",
		"spec.domain.cpu.maxSockets":                  "default (max sockets), because of preference fedora, inferred from volume root",
		"spec.domain.cpu.sockets":                     "instancetype medium@medium-abc, because of preference fedora, inferred from volume root",
		"spec.domain.features.hyperv.relaxed.enabled": "default (features), because of preference fedora, inferred from volume root",
	}
	if diff := cmp.Diff(want, because); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNotAppliedAndWhy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		preference string
		want       []string
	}{
		// Other disks get the bus, whatever one of them has.
		{`{devices: {preferredDiskBus: scsi, preferredCdromBus: sata}}`, []string{`devices.preferredCdromBus: the VMI has no CD-ROM`}},
		{`{cpu: {preferredCPUTopology: cores, spreadOptions: {ratio: 4}}}`, []string{`cpu.spreadOptions.ratio: preferredCPUTopology is 'cores', not 'spread'`}},
		{`{cpu: {preferredCPUTopology: sockets}}`, []string{`cpu.preferredCPUTopology: the vCPU topology is the same without it`}},
		{`{firmware: {preferredUseBios: true, preferredEfi: {secureBoot: true}, preferredUseEfi: false}}`, []string{
			`firmware.preferredUseEfi: false asks for nothing`, `firmware.preferredEfi.secureBoot: the VMI has another boot loader`}},
		{`{volumes: {preferredStorageClassName: fast}, requirements: {cpu: {guest: 1}}}`, []string{
			`volumes.preferredStorageClassName: it applies to dataVolumeTemplates, which a VMI does not have`,
			`requirements.cpu.guest: it is a requirement, and the VMI meets it`}},
		{`{features: {preferredHyperv: {relaxed: {}}, preferredAcpi: {}}}`, []string{
			`features.preferredAcpi: spec.domain.features.acpi.enabled is true (default (features))`}},
		{`{preferredArchitecture: amd64}`, []string{`preferredArchitecture: spec.architecture is already "amd64" without it`}},
		{`{devices: {preferredInterfaceMasquerade: {}}}`, []string{
			`devices.preferredInterfaceMasquerade: spec.domain.devices.interfaces[0].masquerade is {} (user)`}},
		{`{cpu: {preferredCPUFeatures: [{name: vmx, policy: require}]}, annotations: {a: b}}`, nil},
	} {
		var got []string
		for _, s := range explain1(t, test.preference).NotApplied {
			if s.Origin.Kind == FromPreference {
				got = append(got, s.Field+": "+s.Reason)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.preference, diff)
		}
	}
}

// TestPresetsNotApplied lists what presets would have filled.
func TestPresetsNotApplied(t *testing.T) {
	t.Parallel()
	var presets []string
	for _, s := range explain1(t, `{}`).NotApplied {
		presets = append(presets, s.Origin.String()+": "+s.Field+": "+s.Reason)
	}
	want := []string{
		"preset steady: spec.domain.cpu: the guest already has one",
		"preset steady: spec.domain.devices.rng: presets do not cover it",
	}
	if diff := cmp.Diff(want, presets); diff != "" {
		t.Errorf("presets (-want +got):\n%s", diff)
	}
}

// TestEveryPreferenceHasATarget: a field that a newer API adds must say what it fills, or that it fills nothing.
func TestEveryPreferenceHasATarget(t *testing.T) {
	t.Parallel()
	var known []string
	for _, target := range targets {
		known = append(known, target.preferred)
	}
	fields(reflect.TypeFor[v1beta1.VirtualMachinePreferenceSpec](), "", func(path string) {
		inside := func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+".") }
		if !slices.ContainsFunc(append(known, "cpu", "requirements", "preferSpreadSocketToCoreRatio"), inside) {
			t.Errorf("%s: neither a target nor known to fill nothing", path)
		}
	})
}

// fields visits the JSON paths of the leaves of a type.
func fields(of reflect.Type, at string, visit func(string)) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || leaves.Whole(of) || of.NumField() == 0 {
		visit(at)
		return
	}
	for _, f := range leaves.Fields(of) {
		fields(of.Field(f.Index).Type, strings.Trim(at+"."+f.Name, "."), visit)
	}
}
