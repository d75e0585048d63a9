package render

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

const taken = `
metadata: {name: web, namespace: shop, uid: 7f8f8c5e-0000-4000-8000-000000000001}
spec:
  architecture: amd64
  domain:
    cpu: {cores: 2, model: host-model}
    memory: {guest: 1Gi}
    devices:
      rng: {}
      watchdog: {name: dog, i6300esb: {action: reset}}
      disks: [{name: root, disk: {bus: virtio}}, {name: data, disk: {bus: scsi}}]
      interfaces: [{name: default, masquerade: {}, model: virtio}]
  networks: [{name: default, pod: {}}]
  volumes: [{name: root, containerDisk: {image: "os:1"}}, {name: data, emptyDisk: {capacity: 1Gi}}]
`

func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func takenMachine(t *testing.T) Machine {
	t.Helper()
	return machineOf(t, decode[v1.VirtualMachineInstance](t, taken))
}

// machineOf returns the machine of a VMI as admission completes it, on an assumed host.
func machineOf(t *testing.T, sparse v1.VirtualMachineInstance) Machine {
	t.Helper()
	explicit, verdict := admit.VMI(&sparse, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors)
	}
	return Machine{VMI: explicit, Defaults: config.Default().Frontend, Host: backend.Assumed("amd64"), Bindings: backend.AssumedBindings(explicit)}
}

// runs is the machine as somebody else started it: with a disk that has gone since and left a hole, another identity, and the
// CPU of the host.
func runs(t *testing.T, change func(string) string) *libvirtxml.Domain {
	t.Helper()
	m := takenMachine(t)
	vmi := m.VMI.DeepCopy()
	vmi.UID = "another"
	devices := &vmi.Spec.Domain.Devices
	devices.Disks = append([]v1.Disk{{Name: "gone", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}}}, devices.Disks...)
	vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: "gone", VolumeSource: v1.VolumeSource{EmptyDisk: m.VMI.Spec.Volumes[1].EmptyDisk}})
	first := m
	first.VMI, first.Bindings = vmi, backend.AssumedBindings(vmi)
	old, errs := Domain(first)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	vmi = m.VMI.DeepCopy()
	vmi.UID = "another"
	second := m
	second.VMI, second.Frozen = vmi, &old.Record
	rendered, errs := Domain(second)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	text, err := rendered.Documents.Domain.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	cpu := regexp.MustCompile(`<cpu mode="host-model"[^>]*>`)
	if !cpu.MatchString(text) {
		t.Fatalf("no CPU of the host in\n%s", text)
	}
	text = cpu.ReplaceAllString(text,
		`<cpu mode="custom" match="exact" check="full"><model fallback="forbid">Skylake</model><feature policy="require" name="vmx"/>`)
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(change(text)); err != nil {
		t.Fatal(err)
	}
	return &dom
}

func ungenerated(text string) string {
	return regexp.MustCompile(`<genid>[^<]*</genid>`).ReplaceAllString(text, "")
}

func ignited(text string) string {
	return strings.Replace(text, "</domain>", `<commandline xmlns="http://libvirt.org/schemas/domain/qemu/1.0">
		<arg value="-fw_cfg"></arg><arg value="name=opt/com.coreos/config,file=/run/data.ign"></arg></commandline></domain>`, 1)
}

func untouched(text string) string { return text }

// nameless is a domain whose devices have the aliases of QEMU's own counting.
func nameless(text string) string {
	count := 0
	return regexp.MustCompile(`<alias name="ua-[^"]*">`).ReplaceAllStringFunc(text, func(string) string {
		count++
		return `<alias name="dev` + strings.Repeat("x", count) + `">`
	})
}

func TestCaptureKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(string) string{
		"aliases as Kiln and KubeVirt give them": untouched, "no aliases of ours": nameless, "no generation ID": ungenerated,
		"Ignition as KubeVirt gives it": ignited,
	} {
		running := runs(t, change)
		m := takenMachine(t)
		if running.QEMUCommandline != nil {
			m.VMI.Annotations = map[string]string{v1.IgnitionAnnotation: "{}"}
		}
		taken, errs := Capture(m, running)
		if len(errs) > 0 {
			t.Fatalf("%s: %v", why, errs)
		}
		if c := taken.CPU; c == nil || c.Requested != "host-model" || c.Model != "Skylake" || !slices.Equal(c.Features, []string{"vmx"}) || c.Verified ||
			c.Topology.Cores != 2 || taken.SchemaVersion != 4 {
			t.Errorf("%s: the CPU is %+v, of a record of version %d", why, c, taken.SchemaVersion)
		}
		m.Frozen = &taken
		identity.Recall(m.VMI, &taken)
		next, errs := Domain(m)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if next.Record.Digest != taken.Digest {
			t.Errorf("%s: the next boot has another digest than was captured", why)
		}
		if cpu := next.Frontend.CPU; cpu.Mode != "custom" || cpu.Model.Value != "Skylake" || cpu.Check != "partial" || cmp.Diff(taken.CPU, next.Record.CPU) != "" {
			t.Errorf("%s: the next boot has the CPU %+v, and records %+v", why, cpu, next.Record.CPU)
		}
		got, want := map[string]string{}, map[string]string{}
		for _, d := range abi.Devices(next.Frontend) {
			got[d.Kind+d.Model+d.Bus] += abi.FromLibvirt(*d.Address).String() + " "
		}
		for _, d := range abi.Devices(running) {
			want[d.Kind+d.Model+d.Bus] += abi.FromLibvirt(*d.Address).String() + " "
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: addresses (-running +next boot):\n%s", why, diff)
		}
		if (next.Frontend.GenID != nil) != (running.GenID != nil) || next.Frontend.GenID != nil && next.Frontend.GenID.Value == running.GenID.Value {
			t.Errorf("%s: the device of the generation ID stays as it is, and its value is the VM's: %v, was %v", why, next.Frontend.GenID, running.GenID)
		}
		if next.Frontend.UUID != running.UUID || next.Frontend.Devices.Interfaces[0].MAC.Address != running.Devices.Interfaces[0].MAC.Address {
			t.Errorf("%s: the next boot is another machine: UUID %s, was %s", why, next.Frontend.UUID, running.UUID)
		}
	}
}

func TestCaptureRefusesWhatDoesNotMatch(t *testing.T) {
	t.Parallel()
	replace := func(old, new string) func(string) string {
		return func(text string) string {
			if !strings.Contains(text, old) {
				t.Fatalf("no '%s' in\n%s", old, text)
			}
			return strings.Replace(text, old, new, 1)
		}
	}
	for _, test := range []struct {
		why    string
		change func(string) string
		spec   func(*v1.VirtualMachineInstanceSpec)
		path   string
	}{
		{"more memory than the spec says", replace(`>1048576</memory>`, `>2097152</memory>`), nil, "spec.domain.memory"},
		{"a device that the spec has not", replace(`<rng `, `<sound model="ich9"><alias name="ua-noise"></alias></sound><rng `), nil, "spec.domain.devices.sound"},
		{"a device that does not run", untouched, func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Devices.Inputs = []v1.Input{{Name: "pen", Type: "tablet", Bus: "usb"}}
		}, "spec.domain.devices.inputs[0]"},
		{"another bus", untouched, func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Disks[1].Disk.Bus = "sata" }, "spec.domain.devices.disks[1]"},
		{"another MAC than the user's", untouched, func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Devices.Interfaces[0].MacAddress = "02:00:00:00:00:01"
		}, "spec.domain.devices.interfaces[0]"},
		{"another UUID than the user's", untouched, func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Firmware = &v1.Firmware{UUID: "5d307ca9-b3ef-428c-8861-06e72d69f223"}
		}, "spec.domain.firmware.uuid"},
		{"a configuration for Ignition that the spec has not", ignited, nil, "metadata.annotations[kubevirt.io/ignitiondata]"},
		{"another CPU model", untouched, func(s *v1.VirtualMachineInstanceSpec) { s.Domain.CPU.Model = "Haswell" }, "spec.domain.cpu"},
	} {
		m := takenMachine(t)
		if test.spec != nil {
			test.spec(&m.VMI.Spec)
		}
		_, errs := Capture(m, runs(t, test.change))
		found := false
		for _, err := range errs {
			found = found || err.Type == field.ErrorTypeForbidden && err.Field == test.path
		}
		if !found {
			t.Errorf("%s: want an error at %s, got %v", test.why, test.path, errs)
		}
	}
}

// TestCaptureCPU: the CPU of a running domain is what libvirt made of host-model. It is verified if libvirt has compared all its features.
func TestCaptureCPU(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, model, cpu string
		active          bool
		want            *record.CPU
	}{
		{"a running guest", "host-model", `<cpu mode="custom" match="exact" check="full"><model>EPYC</model><vendor>AMD</vendor>` +
			`<topology sockets="2" cores="3" threads="1"/><feature policy="require" name="svm"/><feature policy="disable" name="monitor"/></cpu>`, true,
			&record.CPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: []string{"svm"}, DisabledFeatures: []string{"monitor"}, Verified: true,
				Topology: record.Topology{Sockets: 2, Cores: 3, Threads: 1}}},
		{"no topology", "host-model", `<cpu mode="custom" check="full"><model>EPYC</model></cpu>`, true,
			&record.CPU{Requested: "host-model", Model: "EPYC", Verified: true, Topology: record.Topology{Sockets: 6, Cores: 1, Threads: 1}}},
		{"features that libvirt has not compared", "host-model", `<cpu mode="custom" check="partial"><model>EPYC</model></cpu>`, true,
			&record.CPU{Requested: "host-model", Model: "EPYC", Topology: record.Topology{Sockets: 6, Cores: 1, Threads: 1}}},
		{"a domain that does not run", "host-model", `<cpu mode="custom" check="full"><model>EPYC</model></cpu>`, false,
			&record.CPU{Requested: "host-model", Model: "EPYC", Topology: record.Topology{Sockets: 6, Cores: 1, Threads: 1}}},
		{"a domain that has not run", "host-model", `<cpu mode="host-model"/>`, false, nil},
		{"the host's CPU", "host-passthrough", `<cpu mode="host-passthrough"/>`, true, nil},
		{"a model of the owner", "EPYC", `<cpu mode="custom" check="full"><model>EPYC</model></cpu>`, true, nil},
		{"no CPU", "host-model", "", true, nil},
	} {
		var running libvirtxml.Domain
		id := map[bool]string{true: ` id="4"`}[test.active]
		if err := running.Unmarshal(`<domain type="kvm"` + id + `><vcpu>6</vcpu>` + test.cpu + `</domain>`); err != nil {
			t.Fatal(err)
		}
		vmi, taken := &v1.VirtualMachineInstance{}, record.Record{}
		vmi.Spec.Domain.CPU = &v1.CPU{Model: test.model}
		CaptureCPU(&taken, vmi, &running)
		if diff := cmp.Diff(test.want, taken.CPU); diff != "" || (taken.SchemaVersion == 2) != (test.want != nil) {
			t.Errorf("%s: version %d (-want +got):\n%s", test.why, taken.SchemaVersion, diff)
		}
	}
}
