package frontend_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/frontends"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// plain is a guest of one disk on each bus and two cards.
const plain = `
spec: {domain: {features: {acpi: {enabled: true}, apic: {enabled: true}}, devices: {tpm: {}, rng: {}, disks: [{name: v, disk: {bus: virtio}},
  {name: s, disk: {bus: scsi}}, {name: a, disk: {bus: sata}}],
  interfaces: [{name: one}, {name: two}], gpus: [{name: gpu, deviceName: d}], hostDevices: [{name: fpga, deviceName: d}]}}}`

// kept are changes that move and alter nothing else. Each has changed other hardware in KubeVirt, for the reason that is given.
var kept = []struct {
	name, why string
	change    func(*frontend.Input)
}{
	{"a SATA disk before the SCSI ones", "SATA, SCSI and USB disks share the letters that SCSI units were counted by", func(in *frontend.Input) {
		d := &in.VMI.Spec.Domain.Devices
		d.Disks = append([]v1.Disk{disk("first", v1.DiskBusSATA)}, d.Disks...)
		addVolume(in, "first")
	}},
	{"five more cards", "places were kept for four", func(in *frontend.Input) {
		for _, name := range []string{"n3", "n4", "n5", "n6", "n7"} {
			nic := in.VMI.Spec.Domain.Devices.Interfaces[0]
			nic.Name, nic.MacAddress = name, "02:00:00:00:00:0"+name[1:]
			in.VMI.Spec.Domain.Devices.Interfaces = append([]v1.Interface{nic}, in.VMI.Spec.Domain.Devices.Interfaces...)
		}
	}},
	{"a host device that becomes a mediated one", "host devices were ordered by kind", func(in *frontend.Input) {
		in.Facts.HostDevices = map[string]string{"fpga": "mdev"}
	}},
	{"a shared folder", "it brought a NUMA node", func(in *frontend.Input) {
		in.VMI.Spec.Domain.Devices.Filesystems = []v1.Filesystem{{Name: "share", Virtiofs: &v1.FilesystemVirtiofs{}}}
		addVolume(in, "share")
	}},
	{"a network in user space", "it brought a NUMA node", func(in *frontend.Input) {
		in.VMI.Spec.Domain.Devices.Interfaces[0].InterfaceBindingMethod = v1.InterfaceBindingMethod{PasstBinding: &v1.InterfacePasstBinding{}}
	}},
	{"a TPM that is kept", "it became another model", func(in *frontend.Input) { in.VMI.Spec.Domain.Devices.TPM.Persistent = ptr(true) }},
	{"no serial console", "the virtio-serial controller went with it",
		func(in *frontend.Input) { in.VMI.Spec.Domain.Devices.AutoattachSerialConsole = ptr(false) }},
	{"another configuration of the cluster", "video model and DMI strings were read anew at each boot", func(in *frontend.Input) {
		in.Defaults = config.FrontendDefaults{Version: "v9", FreePorts: 1, EFIVideo: "vga", SMBIOS: config.SMBIOS{Manufacturer: "Other"},
			Video: map[string]string{"amd64": "bochs"}}
	}},
	{"a volume with other blocks", "block sizes were copied at each boot", func(in *frontend.Input) {
		in.Facts.BlockSizes = map[string]v1.CustomBlockSize{"v": {Logical: 4096, Physical: 4096}}
	}},
	{"tags", "they are cloud-init's, and no hardware", func(in *frontend.Input) { in.VMI.Spec.Domain.Devices.Disks[0].Tag = "x" }},
}

func addVolume(in *frontend.Input, name string) {
	in.VMI.Spec.Volumes = append(in.VMI.Spec.Volumes, v1.Volume{Name: name,
		VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}}})
}

func TestHazardsOfChanges(t *testing.T) {
	t.Parallel()
	for _, hazard := range kept {
		t.Run(hazard.name, func(t *testing.T) {
			in := frontends.With(t, "amd64", "hazard", plain)
			matches := in.VMI.Spec.Domain.Devices.Disks
			matches[0].BlockSize = &v1.BlockSize{MatchVolume: &v1.FeatureState{Enabled: ptr(true)}}
			in.Facts.BlockSizes = map[string]v1.CustomBlockSize{"v": {Logical: 512, Physical: 4096}}
			before := frontends.Rendered(t, in)
			record := abi.Freeze(before, "v1")
			in.Frozen = &record
			hazard.change(&in)
			for _, change := range abi.Changes(before, frontends.Rendered(t, in)) {
				// New devices, and that their ports do not let them be unplugged, are what was asked for.
				port := strings.HasPrefix(change, "controller 'pci.") && strings.HasSuffix(change, " changes its pci.target.hotplug from none to 'off'")
				if !port && !strings.HasSuffix(change, " is added") && !strings.HasSuffix(change, " is removed") {
					t.Errorf("%s (%s): %s", hazard.name, hazard.why, change)
				}
			}
		})
	}
}

// asked are fields that KubeVirt accepts and does not render, or renders by a crash. Each is seen in the domain, or refused at its path.
var asked = []struct {
	name, arch, more string
	seen             func(*libvirtxml.Domain) bool
	refused          string // path
}{
	{name: "apic.endOfInterrupt", more: `spec: {domain: {features: {acpi: {enabled: true}, apic: {enabled: true, endOfInterrupt: true}}}}`,
		seen: func(d *libvirtxml.Domain) bool { return d.Features.APIC.EOI == "on" }},
	{name: "boot order and link of passt", more: `spec: {domain: {devices: {interfaces: [{name: nic, passtBinding: {}, bootOrder: 3, state: down}]}}}`,
		seen: func(d *libvirtxml.Domain) bool {
			nic := d.Devices.Interfaces[0]
			return nic.Boot.Order == 3 && nic.Link.State == "down"
		}},
	{name: "ACPI index of SR-IOV", more: `spec: {domain: {devices: {interfaces: [{name: nic, sriov: {}, acpiIndex: 4}]}}}`,
		seen: func(d *libvirtxml.Domain) bool { return d.Devices.Hostdevs[0].ACPI.Index == 4 }},
	{name: "serial of a CD-ROM, in mixed case", more: `spec: {domain: {devices: {disks: [{name: c, serial: MixedCase, cdrom: {bus: sata, readonly: true}}]}}}`,
		seen: func(d *libvirtxml.Domain) bool { return d.Devices.Disks[0].Serial == "MixedCase" }},
	{name: "a keyboard", more: `spec: {domain: {devices: {inputs: [{name: k, type: keyboard, bus: usb}]}}}`,
		seen: func(d *libvirtxml.Domain) bool { return d.Devices.Inputs[0].Type == "keyboard" }},
	{name: "enlightenments passed through without a word", more: `spec: {domain: {features: {acpi: {enabled: true}, hypervPassthrough: {}}}}`,
		seen: func(d *libvirtxml.Domain) bool { return d.Features.HyperV.Mode == "passthrough" }},
	{name: "a boot display without a word", more: `spec: {domain: {devices: {gpus: [{name: g, deviceName: d, virtualGPUOptions: {display: {ramFB: {}}}}]}}}`,
		seen: func(d *libvirtxml.Domain) bool { return d.Devices.Hostdevs[0].SubsysPCI.RamFB == "on" }},
	{name: "maxGuest without guest", more: `spec: {domain: {memory: {guest: null, maxGuest: 4Gi}}}`, refused: "spec.domain.memory.guest"},
	{name: "a virtio CD-ROM on arm64", arch: "arm64", more: `spec: {domain: {devices: {disks: [{name: c, cdrom: {bus: virtio, readonly: true}}]}}}`,
		refused: "spec.domain.devices.disks[0].cdrom.bus"},
}

func TestHazardsOfFields(t *testing.T) {
	t.Parallel()
	for _, field := range asked {
		arch := field.arch
		if arch == "" {
			arch = "amd64"
		}
		dom, errs := frontend.Render(frontends.With(t, arch, "asked", field.more))
		switch {
		case field.refused != "" && (len(errs) != 1 || errs[0].Field != field.refused):
			t.Errorf("%s: errors %v, want one at '%s'", field.name, errs, field.refused)
		case field.refused == "" && len(errs) > 0:
			t.Errorf("%s: %v", field.name, errs.ToAggregate())
		case field.refused == "" && !field.seen(dom):
			t.Errorf("%s is accepted and does not show", field.name)
		}
	}
}

// A default that is refused afterwards: CD-ROMs without a bus, on architectures that have no SATA.
func TestHazardOfDefaults(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64", "s390x"} {
		vmi := &v1.VirtualMachineInstance{}
		vmi.Name, vmi.Namespace, vmi.UID = "cdrom", "default", "7d3f"
		vmi.Spec.Architecture = arch
		vmi.Spec.Domain.Memory = &v1.Memory{Guest: ptr(resource.MustParse("1Gi"))}
		vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "c", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{}}}}
		vmi.Spec.Volumes = []v1.Volume{{Name: "c", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}}}}
		in := admit.Input{Cluster: config.Default()}
		explicit, verdict := admit.VMI(vmi, in)
		verdict.Errors = append(verdict.Errors, admit.Judge(explicit, in).Errors...)
		if !verdict.Allowed() {
			t.Errorf("%s: %v", arch, verdict.Errors.ToAggregate())
			continue
		}
		if _, errs := render.Domain(render.Machine{VMI: explicit, Defaults: in.Cluster.Frontend, Host: backend.Assumed(arch),
			Bindings: backend.AssumedBindings(explicit)}); len(errs) > 0 {
			t.Errorf("%s: %v", arch, errs.ToAggregate())
		}
	}
}

// Stage 3 decides about caches, discards, threads and preallocation; the guest sees none of it. A pool of no threads is no crash.
func TestHazardsOfHosts(t *testing.T) {
	t.Parallel()
	in := frontends.With(t, "amd64", "host", plain)
	in.VMI.Spec.Domain.IOThreadsPolicy, in.VMI.Spec.Domain.IOThreads = ptr(v1.IOThreadsPolicySupplementalPool), &v1.DiskIOThreads{}
	dom := frontends.Rendered(t, in)
	bindings := backend.AssumedBindings(in.VMI)
	for name := range bindings.Volumes {
		bindings.Volumes[name] = backend.Volume{Path: "/dev/sdz", Format: "raw", Block: true}
	}
	documents, errs := backend.Render(backend.Input{Frontend: dom, VMI: in.VMI, Host: backend.Assumed("amd64"), Bindings: bindings})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if changes := abi.Changes(dom, documents.Domain); len(changes) > 0 {
		t.Errorf("block devices and a pool change %q", changes)
	}
}
