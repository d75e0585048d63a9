// Package frontends has guests for the tests of pkg/domain/frontend. Its own tests define and start what that package renders with a real libvirt.
package frontends

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

// Defaults are fixed, so that the defaults of the product do not change what these tests render.
var Defaults = config.FrontendDefaults{
	Version: "v1", SMBIOS: config.SMBIOS{Manufacturer: "Kiln", Product: "Guest"}, FreePorts: 4,
	EFIVideo: "bochs", Video: map[string]string{"amd64": "vga", "arm64": "virtio", "s390x": "virtio"},
}

// Machines has the versions of QEMU 7.2 by machine type.
var Machines = map[string]string{"q35": "pc-q35-7.2", "virt": "virt-7.2", "s390-ccw-virtio": "s390-ccw-virtio-7.2"}

// minimal is the smallest explicit guest.
const minimal = `
metadata: {name: NAME, namespace: default, uid: 5d307ca9-b3ef-428c-8861-06e72d69f223}
spec:
  architecture: ARCH
  domain:
    machine: {type: MACHINE}
    firmware: {uuid: UUID, serial: S-1}
    features: {acpi: {enabled: true}}
    cpu: {model: MODEL, cores: 2}
    memory: {guest: 512Mi}
    devices: {}
`

var machineOf = map[string]string{"amd64": "q35", "arm64": "virt", "s390x": "s390-ccw-virtio"}

// Explicit returns the smallest explicit VMI of an architecture. Its UUID follows from its name.
func Explicit(t testing.TB, arch, name string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if err := yaml.UnmarshalStrict([]byte(minimal), vmi); err != nil {
		t.Fatal(err)
	}
	vmi.Name = name
	d := &vmi.Spec.Domain
	vmi.Spec.Architecture, d.Machine.Type, d.CPU.Model = arch, machineOf[arch], "host-model"
	seed := uint32(0)
	for _, r := range name {
		seed = seed*31 + uint32(r)
	}
	d.Firmware.UUID = types.UID(fmt.Sprintf("5d307ca9-b3ef-428c-8861-%012x", seed))
	if arch == "arm64" {
		d.CPU.Model = "max"
		d.Firmware.Bootloader = &v1.Bootloader{EFI: &v1.EFI{SecureBoot: ptr.To(false)}}
	}
	if arch == "s390x" {
		d.Features.ACPI.Enabled = ptr.To(false)
		d.CPU.Model = "max"
	}
	return vmi
}

// Input returns the input of frontend.Render for a VMI.
func Input(vmi *v1.VirtualMachineInstance) frontend.Input {
	return frontend.Input{VMI: vmi, Defaults: Defaults, Facts: frontend.Facts{Machines: Machines}}
}

// spec is the API's type without its decoder.
type spec v1.VirtualMachineInstanceSpec

// With returns the input for an explicit VMI that has more fields, given as YAML of a VMI. Each disk gets a volume, and each interface a binding.
func With(t testing.TB, arch, name, more string) frontend.Input {
	t.Helper()
	vmi := Explicit(t, arch, name)
	// Through JSON and past the spec's own decoder: both it and the YAML package replace what is there.
	text, err := yaml.YAMLToJSONStrict([]byte(more))
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&struct {
		Spec *spec `json:"spec"`
	}{(*spec)(&vmi.Spec)}); err != nil {
		t.Fatal(err)
	}
	for i := range vmi.Spec.Domain.Devices.Disks {
		name := vmi.Spec.Domain.Devices.Disks[i].Name
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}})
	}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		n := &vmi.Spec.Domain.Devices.Interfaces[i]
		n.MacAddress = fmt.Sprintf("52:54:00:00:%02x:%02x", len(name), i)
		if n.SRIOV == nil && n.Bridge == nil {
			n.Masquerade = &v1.InterfaceMasquerade{}
		}
	}
	return Input(vmi)
}

// everything that an amd64 guest can have at once.
const everything = `
spec:
  startStrategy: Paused
  domain:
    chassis: {manufacturer: M, version: "1", serial: C-1, asset: A, sku: S}
    rebootPolicy: Terminate
    cpu: {sockets: 2, maxSockets: 4, cores: 2, threads: 2, model: Haswell, features: [{name: pcid}, {name: avx, policy: disable}],
      dedicatedCpuPlacement: true, realtime: {}}
    memory: {guest: 1Gi, maxGuest: 4Gi}
    clock: {utc: {offsetSeconds: 3600}, timer: {rtc: {present: true, tickPolicy: catchup, track: guest}, pit: {present: true, tickPolicy: delay},
      hpet: {present: false}, kvm: {present: true}, hyperv: {present: true}}}
    features:
      acpi: {enabled: true}
      apic: {enabled: true, endOfInterrupt: true}
      smm: {enabled: true}
      kvm: {hidden: true}
      pvspinlock: {enabled: false}
      hyperv: {relaxed: {enabled: true}, vapic: {enabled: true}, spinlocks: {enabled: true, spinlocks: 8191}, vpindex: {enabled: true},
        runtime: {enabled: true}, synic: {enabled: true}, synictimer: {enabled: true, direct: {enabled: true}}, reset: {enabled: true},
        vendorid: {enabled: true, vendorid: kiln}, frequencies: {enabled: true}, reenlightenment: {enabled: true}, tlbflush: {enabled: true},
        ipi: {enabled: true}}
    devices:
      blockMultiQueue: true
      networkInterfaceMultiqueue: true
      autoattachVSOCK: true
      rng: {}
      tpm: {}
      downwardMetrics: {}
      clientPassthrough: {}
      sound: {name: speaker}
      watchdog: {name: dog, i6300esb: {action: poweroff}}
      panicDevices: [{model: isa}, {model: hyperv}]
      inputs: [{name: pen, type: tablet, bus: usb}, {name: keys, type: keyboard, bus: virtio}]
      disks:
      - {name: root, disk: {bus: virtio}, bootOrder: 1, serial: D-1, blockSize: {custom: {logical: 512, physical: 4096}}}
      - {name: default, disk: {bus: virtio, readonly: true}, shareable: true}
      - {name: a, disk: {bus: sata}}
      - {name: b, disk: {bus: scsi}, serial: D-2}
      - {name: c, disk: {bus: usb}}
      - {name: d, cdrom: {bus: sata, readonly: true, tray: open}}
      - {name: e, lun: {bus: scsi}}
      - {name: f, disk: {bus: sata}}
      - {name: g, disk: {bus: sata}}
      - {name: h, disk: {bus: sata}}
      - {name: i, disk: {bus: sata}}
      - {name: j, disk: {bus: sata}}
      interfaces:
      - {name: default, bootOrder: 2, acpiIndex: 7}
      - {name: old, model: e1000, state: down}
      - {name: express, model: e1000e}
      - {name: bridge, bridge: {}, model: rtl8139}
      - {name: fast, sriov: {}}
      filesystems: [{name: share, virtiofs: {}}]
      gpus: [{name: gpu, deviceName: example.com/gpu}]
      hostDevices: [{name: fpga, deviceName: example.com/fpga}, {name: stick, deviceName: example.com/stick}]
`

// All returns one guest of each kind by its name.
func All(t testing.TB) map[string]frontend.Input {
	all := map[string]frontend.Input{}
	for _, arch := range []string{"amd64", "arm64", "s390x"} {
		all["minimal-"+arch] = With(t, arch, "minimal-"+arch, "{}")
	}
	full := With(t, "amd64", "everything", everything)
	full.Facts.HostDevices = map[string]string{"gpu": "mdev", "fpga": "pci", "stick": "usb"}
	all["everything-amd64"] = full
	for _, arch := range []string{"amd64", "arm64"} {
		all["nodes-"+arch] = WithNUMANodes(With(t, arch, "nodes-"+arch, `
spec: {domain: {cpu: {sockets: 2, maxSockets: 5, cores: 2, threads: 2}, memory: {guest: 1025Mi, maxGuest: 4Gi}}}`))
	}
	all["transitional-amd64"] = With(t, "amd64", "transitional", `
spec: {domain: {devices: {useVirtioTransitional: true, rng: {}, disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: scsi}}],
  interfaces: [{name: default}]}}}`)
	all["bare-amd64"] = With(t, "amd64", "bare", `
spec: {domain: {devices: {disableHotplug: true, autoattachGraphicsDevice: false, autoattachSerialConsole: false, autoattachMemBalloon: false}}}`)
	all["efi-amd64"] = With(t, "amd64", "efi", `
spec: {domain: {firmware: {bootloader: {efi: {secureBoot: false}}}, devices: {disks: [{name: a, disk: {bus: virtio}}]}}}`)
	all["pinned-amd64"] = With(t, "amd64", "pinned", `
spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio, pciAddress: "0000:09:00.0"}}],
  interfaces: [{name: default, pciAddress: "0000:00:03.0"}, {name: second}]}}}`)
	all["bridged-amd64"] = With(t, "amd64", "bridged", `
spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio, pciAddress: "0000:04:02.0"}}],
  interfaces: [{name: default}, {name: second, pciAddress: "0000:04:01.0"}]}}}`)
	functions := With(t, "s390x", "functions", `
spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio, pciAddress: "0000:00:05.0"}}],
  interfaces: [{name: default}, {name: old}, {name: fast, sriov: {}}],
  gpus: [{name: crypto, deviceName: d}], hostDevices: [{name: dasd, deviceName: d}, {name: mdev, deviceName: d}]}}}`)
	functions.Facts.HostDevices = map[string]string{"crypto": "ap", "dasd": "ccw", "mdev": "mdev"}
	all["functions-s390x"] = functions
	all["passthrough-amd64"] = With(t, "amd64", "passthrough", `
spec: {domain: {cpu: {model: host-passthrough}, features: {acpi: {enabled: true}, hypervPassthrough: {enabled: true}}, devices: {video: {type: virtio},
  sound: {name: s, model: ac97}}}}`)
	all["disks-arm64"] = With(t, "arm64", "disks-arm64", `
spec: {domain: {devices: {rng: {}, tpm: {}, autoattachVSOCK: true, disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: scsi}},
  {name: c, cdrom: {bus: scsi, readonly: true}}], interfaces: [{name: default}, {name: old, model: e1000}]}}}`)
	all["disks-s390x"] = With(t, "s390x", "disks-s390x", `
spec: {domain: {devices: {rng: {}, autoattachVSOCK: true, watchdog: {name: dog, diag288: {}},
  disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: scsi}}], interfaces: [{name: default}]}}}`)
	return all
}

// WithNUMANodes gives a guest two NUMA nodes.
func WithNUMANodes(in frontend.Input) frontend.Input {
	in.VMI.Annotations = map[string]string{v1alpha1.AnnotationNUMACells: "2"}
	return in
}

// Rendered renders a guest, and fails the test on errors.
func Rendered(t testing.TB, in frontend.Input) *libvirtxml.Domain {
	t.Helper()
	dom, errs := frontend.Render(in)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return dom
}

// Printed returns the XML of a domain.
func Printed(t testing.TB, dom *libvirtxml.Domain) string {
	t.Helper()
	text, err := dom.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
