package admit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"github.com/kilnvm/kiln/pkg/profile"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

func profileOf(t *testing.T, kind, name, spec string) *profile.Profile {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("{apiVersion: kilnvm.io/v1alpha1, kind: " + kind + ", metadata: {name: " + name + "}, spec: " + spec + "}"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Read("", raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func guestProfile(t *testing.T, name, spec string) *profile.Profile {
	return profileOf(t, "GuestProfile", name, spec)
}

// facts are the leaves of an explanation with their origins.
func facts(explanation Explanation) map[string]string {
	found := map[string]string{}
	for _, fact := range explanation.Fields {
		found[fact.Path] = leaves.Leaf{Value: fact.Value}.Text() + " " + fact.Origin.String()
	}
	return found
}

// TestProfilesAreExplained: a field names its profile, and the base that has it.
func TestProfilesAreExplained(t *testing.T) {
	t.Parallel()
	vm, in := decode[v1.VirtualMachine](t, explained), explainedInput(t, `{devices: {preferredDiskBus: virtio, preferredSoundModel: ac97}}`)
	in.Profiles = []*profile.Profile{
		guestProfile(t, "web", `{selector: {matchLabels: {tier: front}}, extends: [{kind: ClusterGuestProfile, name: base}],
			template: {metadata: {labels: {tier: back, zone: web}, annotations: {a: web}},
			spec: {domain: {cpu: {model: Haswell, cores: 7}, clock: {utc: {}, timer: {hpet: {tickPolicy: delay}}}, devices: {sound: {name: audio},
				disks: [{name: more, disk: {bus: sata}, cache: none}]}}}}}`),
		profileOf(t, "ClusterGuestProfile", "base", `{template: {metadata: {labels: {backup: nightly}, annotations: {a: base, b: base}},
			spec: {domain: {machine: {type: q35}, cpu: {model: Penryn}, devices: {rng: {}, disks:
			[{name: root, lun: {}, cache: writeback}, {name: extra, cdrom: {}}]}}, volumes: [{name: extra, emptyDisk: {capacity: 2Gi}}]}}}`),
	}
	in.Profiles[1].Revision = "base-abc"
	got := facts(ExplainVM(&vm, in))
	const web, base = "GuestProfile web", "GuestProfile web, which extends ClusterGuestProfile base@base-abc"
	for path, want := range map[string]string{
		"spec.domain.cpu.model":   `"Haswell" ` + web,
		"spec.domain.cpu.sockets": `2 instancetype medium@medium-abc`,
		"spec.domain.cpu.cores":   `1 instancetype medium@medium-abc`,
		// The VMI has its offset from a preset, with the timer of the profile beside it.
		"spec.domain.clock.utc":                   `{} preset steady`,
		"spec.domain.clock.timer.hpet.tickPolicy": `"delay" ` + web,
		"spec.domain.machine.type":                `"q35" ` + base,
		"spec.domain.devices.rng":                 `{} ` + base,
		"spec.domain.devices.sound.name":          `"audio" ` + web,
		"spec.domain.devices.sound.model":         `"ac97" preference fedora, inferred from volume root`,
		"spec.domain.devices.disks[0].name":       `"root" user`,
		"spec.domain.devices.disks[0].disk.bus":   `"sata" user`,
		"spec.domain.devices.disks[0].cache":      `"writeback" ` + base,
		"spec.domain.devices.disks[2].name":       `"more" ` + web,
		"spec.domain.devices.disks[2].disk.bus":   `"virtio" preference fedora, inferred from volume root`,
		"spec.domain.devices.disks[2].cache":      `"none" ` + web,
		"spec.domain.devices.disks[3].name":       `"extra" ` + base,
		"spec.domain.devices.disks[3].cdrom.bus":  `"sata" default (disk buses)`,
		"spec.volumes[3].emptyDisk.capacity":      `"2Gi" ` + base,
		"metadata.labels[backup]":                 `"nightly" ` + base,
		"metadata.labels[zone]":                   `"web" ` + web,
		"metadata.labels[tier]":                   "", // the owner's
		"metadata.annotations[a]":                 `"web" ` + web,
		"metadata.annotations[b]":                 `"base" ` + base,
		"spec.domain.devices.disks[0].lun":        "",
	} {
		if got[path] != want {
			t.Errorf("%s: got %s, want %s", path, got[path], want)
		}
	}
	if named := sameFillers(t, &vm, in); named < 12 {
		t.Errorf("%d fields are filled by sources: the example shows too little", named)
	}
}

// TestErrorsNameTheProfile: a rule that refuses what a profile filled names the profile, at the labels that select it.
func TestErrorsNameTheProfile(t *testing.T) {
	t.Parallel()
	vm := decode[v1.VirtualMachine](t, explained)
	in := explainedInput(t, `{}`)
	in.Profiles = []*profile.Profile{
		guestProfile(t, "web", `{selector: {}, extends: [{name: base}], template: {spec: {domain: {devices: {disks: [{name: data, cache: none, io: wrong},
			{name: lost}]}}}}}`),
		guestProfile(t, "base", `{template: {spec: {domain: {ioThreadsPolicy: wrong}}}}`),
	}
	vm.Spec.RunStrategy = new(v1.RunStrategyHalted)
	_, verdict := VM(&vm, nil, in)
	want := []string{
		"spec.template.metadata.labels: GuestProfile 'web' sets spec.domain.devices.disks[1].io: ",
		"spec.template.metadata.labels: GuestProfile 'web' sets spec.domain.devices.disks[2].name: ",
		"spec.template.metadata.labels: GuestProfile 'web', which extends GuestProfile 'base', sets spec.domain.ioThreadsPolicy: ",
	}
	for _, err := range verdict.Errors {
		for i, text := range want {
			if strings.HasPrefix(err.Field+": "+err.Detail, text) {
				want[i] = ""
			}
		}
	}
	if strings.Join(want, "") != "" {
		t.Errorf("no error names %q:\n%v", want, verdict.Errors.ToAggregate())
	}
}

// TestProfilesDisagree: the error is at the labels of the template, where the owner of a VM can act.
func TestProfilesDisagree(t *testing.T) {
	t.Parallel()
	vm, in := decode[v1.VirtualMachine](t, explained), explainedInput(t, `{}`)
	in.Profiles = []*profile.Profile{guestProfile(t, "a", `{selector: {}, template: {spec: {schedulerName: a}}}`), guestProfile(t, "b", `{selector: {},
		template: {spec: {schedulerName: b}}}`)}
	vm.Spec.RunStrategy = new(v1.RunStrategyHalted)
	_, verdict := VM(&vm, nil, in)
	if len(verdict.Errors) != 1 || verdict.Errors[0].Field != "spec.template.metadata.labels" || verdict.Errors[0].Origin != "profile/conflict" {
		t.Errorf("got %v", verdict.Errors)
	}
}

// ownedByInstancetype is what an instancetype sets, and claiming a template of a profile that sets all of it to other values.
const (
	ownedByInstancetype = `{cpu: {guest: 2, model: Haswell, dedicatedCPUPlacement: true, isolateEmulatorThread: true, numa: {guestMappingPassthrough: {}},
		realtime: {mask: "0"}, maxSockets: 300},
		memory: {guest: 2Gi, hugepages: {pageSize: 1Gi}, maxGuest: 4Gi, overcommitPercent: 10}, nodeSelector: {zone: a}, schedulerName: s, ioThreadsPolicy: auto,
		ioThreads: {supplementalPoolThreadCount: 2}, launchSecurity: {sev: {}}, gpus: [{name: g, deviceName: x/g}], hostDevices: [{name: h, deviceName: x/h}],
			annotations: {a: own}}`
	claiming = `{nodeSelector: {zone: b, disk: ssd}, schedulerName: other, architecture: s390x, subdomain: filled, domain: {cpu: {cores: 3, model: Penryn,
		dedicatedCpuPlacement: true,
		numa: {guestMappingPassthrough: {}}, realtime: {mask: "1"}, maxSockets: 9}, memory: {guest: 9Gi, hugepages: {pageSize: 2Mi}, maxGuest: 10Gi},
			ioThreadsPolicy: shared,
		ioThreads: {supplementalPoolThreadCount: 9}, launchSecurity: {snp: {}}, resources: {requests: {memory: 3Gi, cpu: "5", example.com/a: "1"},
			limits: {memory: 30Gi, cpu: "5"}},
		devices: {gpus: [{name: g, tag: t}, {name: g2, deviceName: x/g}], hostDevices: [{name: h2, deviceName: x/h}]}}}`
)

// TestInstancetypesKeepTheirFields: a profile fills nothing that would be a conflict if the user had written it, so that a VMI which admission sees
// again has no difference from its instancetype.
func TestInstancetypesKeepTheirFields(t *testing.T) {
	t.Parallel()
	vm, in := decode[v1.VirtualMachine](t, explained), explainedInput(t, `{cpu: {preferredCPUTopology: sockets}}`)
	in.Presets = nil
	in.Set.Instancetype.Spec = decode[v1beta1.VirtualMachineInstancetypeSpec](t, ownedByInstancetype)
	bare := Instance(&vm)
	expandVMI(bare, in, nil)
	in.Profiles = []*profile.Profile{guestProfile(t, "p", `{selector: {}, template: {metadata: {annotations: {a: other}}, spec: `+claiming+`}}`)}
	filled := Instance(&vm)
	if errs := expandVMI(filled, in, nil).errs; len(errs) > 0 {
		t.Fatal(errs)
	}
	if filled.Spec.Subdomain != "filled" || filled.Spec.Architecture != "s390x" || filled.Spec.Domain.Resources.Requests.Name("example.com/a",
		"").String() != "1" {
		t.Errorf("the profile filled nothing: %s", leaves.Leaf{Value: filled.Spec}.Text())
	}
	claimed := Instance(&vm)
	*claimed = *filled.DeepCopy()
	if paths := instancetype.Owned(in.Set, claimed); len(paths) < 14 {
		t.Errorf("the instancetype owns %v: the example shows too little", paths)
	}
	kept := func(vmi *v1.VirtualMachineInstance) []any {
		d := vmi.Spec.Domain
		return []any{vmi.Spec.NodeSelector, vmi.Spec.SchedulerName, d.CPU.Cores, d.CPU.Sockets, d.CPU.Model, d.CPU.MaxSockets, d.CPU.NUMA, d.CPU.Realtime,
			d.Memory, d.IOThreadsPolicy, d.IOThreads,
			d.LaunchSecurity, d.Resources.Limits, d.Resources.Requests.Memory().String(), d.Resources.Requests.Cpu().String(), d.Devices.GPUs, d.Devices.HostDevices,
			vmi.Annotations["a"]}
	}
	if diff := cmp.Diff(kept(bare), kept(filled)); diff != "" {
		t.Errorf("(-without +with the profile)\n%s", diff)
	}
	again, verdict := VMI(filled, in)
	if diff := cmp.Diff(filled, again); diff != "" || !verdict.Allowed() {
		t.Errorf("admission sees the VMI again: %v %s", verdict.Errors, diff)
	}
}
