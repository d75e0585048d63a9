package frontend_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/test/frontends"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// TestRefused: what is not explicit, and what the architecture cannot show, is refused at the field that the user can change.
func TestRefused(t *testing.T) {
	t.Parallel()
	devices := "spec.domain.devices."
	for _, c := range []struct {
		name, arch, more string
		want             []string // type and path
	}{
		{"nothing is explicit", "amd64", `spec: {architecture: ""}`, []string{"Required value spec.architecture"}},
		{"an architecture of the past", "amd64", `spec: {architecture: ppc64le}`, []string{"Unsupported value spec.architecture"}},
		{"no machine", "amd64", `spec: {domain: {machine: {type: ""}}}`, []string{"Required value spec.domain.machine.type"}},
		{"a board without PCI Express", "amd64", `spec: {domain: {machine: {type: pc-i440fx-7.2}}}`, []string{"Unsupported value spec.domain.machine.type"}},
		{"another architecture's board", "arm64", `spec: {domain: {machine: {type: q35}}}`, []string{"Unsupported value spec.domain.machine.type"}},
		{"no CPU", "amd64", `spec: {domain: {cpu: null}}`, []string{"Required value spec.domain.cpu.cores", "Required value spec.domain.cpu.model"}},
		{"no memory", "amd64", `spec: {domain: {memory: null}}`, []string{"Required value spec.domain.memory.guest"}},
		{"memory that no int64 holds", "amd64", `spec: {domain: {memory: {guest: 1e400, maxGuest: 2e400}}}`,
			[]string{"Invalid value spec.domain.memory.guest", "Invalid value spec.domain.memory.maxGuest"}},
		{"no memory to speak of", "amd64", `spec: {domain: {memory: {guest: "0"}}}`, []string{"Invalid value spec.domain.memory.guest"}},
		{"no identity", "amd64", `spec: {domain: {firmware: null}}`, []string{"Required value spec.domain.firmware.uuid"}},
		{"features without states: the default is stage 1's", "amd64", `spec: {domain: {features: {acpi: {enabled: null}, smm: {}}}}`,
			[]string{"Required value spec.domain.features.acpi.enabled", "Required value spec.domain.features.smm.enabled"}},
		{"spinlocks without retries", "amd64", `spec: {domain: {features: {acpi: {enabled: true}, hyperv: {spinlocks: {enabled: true}}}}}`,
			[]string{"Required value spec.domain.features.hyperv.spinlocks.spinlocks"}},
		{"a timer without a state", "amd64", `spec: {domain: {clock: {timer: {hpet: {}}}}}`, []string{"Required value spec.domain.clock.timer.hpet.present"}},
		{"arm64 has no BIOS", "arm64", `spec: {domain: {firmware: {bootloader: null}}}`, []string{"Required value spec.domain.firmware.bootloader.efi"}},
		{"s390x has no EFI", "s390x", `spec: {domain: {firmware: {bootloader: {efi: {}}}}}`, []string{"Forbidden spec.domain.firmware.bootloader.efi"}},
		{"a disk that says nothing", "amd64", `spec: {domain: {devices: {disks: [{name: a}]}}}`, []string{"Required value " + devices + "disks[0].disk"}},
		{"a disk without a bus", "amd64", `spec: {domain: {devices: {disks: [{name: a, disk: {}}]}}}`, []string{"Required value " + devices + "disks[0].disk.bus"}},
		{"no virtio CD-ROM", "amd64", `spec: {domain: {devices: {disks: [{name: a, cdrom: {bus: virtio, readonly: true}}]}}}`,
			[]string{"Unsupported value " + devices + "disks[0].cdrom.bus"}},
		{"no SATA LUN", "amd64", `spec: {domain: {devices: {disks: [{name: a, lun: {bus: sata}}]}}}`, []string{"Unsupported value " + devices + "disks[0].lun.bus"}},
		{"no SATA on arm64", "arm64", `spec: {domain: {devices: {disks: [{name: a, disk: {bus: sata}}]}}}`,
			[]string{"Unsupported value " + devices + "disks[0].disk.bus"}},
		{"no USB on s390x", "s390x",
			`spec: {domain: {devices: {disks: [{name: a, disk: {bus: usb}}], clientPassthrough: {}, inputs: [{name: i, type: tablet, bus: usb}]}}}`,
			[]string{"Unsupported value " + devices + "disks[0].disk.bus", "Unsupported value " + devices + "inputs[0].bus",
				"Forbidden " + devices + "clientPassthrough"}},
		{"a SCSI disk is not on PCI", "amd64", `spec: {domain: {devices: {disks: [{name: a, disk: {bus: scsi, pciAddress: "0000:01:00.0"}}]}}}`,
			[]string{"Forbidden " + devices + "disks[0].disk.pciAddress"}},
		{"block size of an unknown volume", "amd64",
			`spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio}, blockSize: {matchVolume: {enabled: true}}}]}}}`,
			[]string{"Invalid value " + devices + "disks[0].blockSize.matchVolume"}},
		{"two disks of one name", "amd64", `spec: {domain: {devices: {disks: [{name: a, disk: {bus: sata}}, {name: a, disk: {bus: sata}}]}}}`,
			[]string{"Duplicate value " + devices + "disks[1].name"}},
		{"a GPU and a host device of one name", "amd64",
			`spec: {domain: {devices: {gpus: [{name: x, deviceName: d}], hostDevices: [{name: x, deviceName: d}]}}}`,
			[]string{"Duplicate value " + devices + "gpus[0].name"}},
		{"a name that is no alias", "amd64", `spec: {domain: {devices: {inputs: [{name: "a b", type: tablet, bus: usb}]}}}`,
			[]string{"Invalid value " + devices + "inputs[0].name"}},
		{"an unknown card", "amd64", `spec: {domain: {devices: {interfaces: [{name: a, model: vmxnet3}]}}}`,
			[]string{"Unsupported value " + devices + "interfaces[0].model"}},
		{"a discontinued binding", "amd64", `spec: {domain: {devices: {interfaces: [{name: a, slirp: {}}]}}}`,
			[]string{"Forbidden " + devices + "interfaces[0].slirp"}},
		{"watchdogs by architecture", "amd64", `spec: {domain: {devices: {watchdog: {name: w, diag288: {}}}}}`,
			[]string{"Forbidden " + devices + "watchdog.diag288"}},
		{"arm64 has no watchdog", "arm64", `spec: {domain: {devices: {watchdog: {name: w, i6300esb: {}}}}}`, []string{"Forbidden " + devices + "watchdog.i6300esb"}},
		{"arm64 has no sound", "arm64", `spec: {domain: {devices: {sound: {name: s}}}}`, []string{"Forbidden " + devices + "sound.model"}},
		{"no TPM on s390x", "s390x", `spec: {domain: {devices: {tpm: {}}}}`, []string{"Forbidden " + devices + "tpm"}},
		{"an ISA panic device on arm64", "arm64", `spec: {domain: {devices: {panicDevices: [{model: isa}]}}}`,
			[]string{"Unsupported value " + devices + "panicDevices[0].model"}},
		{"two panic devices of one model", "amd64", `spec: {domain: {devices: {panicDevices: [{}, {model: isa}]}}}`,
			[]string{"Duplicate value " + devices + "panicDevices[1].model"}},
		{"a word that no timer knows", "amd64", `spec: {domain: {clock: {timer: {rtc: {present: true, track: moon}}}}}`,
			[]string{"Unsupported value spec.domain.clock.timer.rtc.track"}},
		{"a PCI bus that s390x does not have", "s390x", `spec: {domain: {devices: {interfaces: [{name: a, pciAddress: "0000:01:00.0"}]}}}`,
			[]string{"Invalid value " + devices + "interfaces[0].pciAddress"}},
		{"video of another architecture", "arm64", `spec: {domain: {devices: {video: {type: vga}}}}`, []string{"Unsupported value " + devices + "video.type"}},
		{"video without graphics", "amd64", `spec: {domain: {devices: {autoattachGraphicsDevice: false, video: {type: vga}}}}`,
			[]string{"Forbidden " + devices + "video.type"}},
		{"not a PCI address", "amd64", `spec: {domain: {devices: {interfaces: [{name: a, pciAddress: "0000:81:01.10"}]}}}`,
			[]string{"Invalid value " + devices + "interfaces[0].pciAddress"}},
		{"NUMA nodes without CPUs and pages of its own", "amd64", `spec: {domain: {cpu: {numa: {guestMappingPassthrough: {}}}}}`,
			[]string{"Required value spec.domain.cpu.dedicatedCpuPlacement", "Required value spec.domain.memory.hugepages"}},
		{"NUMA nodes of a host that has none", "amd64",
			`spec: {domain: {cpu: {cores: 2, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}}}`,
			[]string{"Forbidden spec.domain.cpu.numa.guestMappingPassthrough"}},
		{"SEV on arm64", "arm64", `spec: {domain: {launchSecurity: {sev: {}}}}`, []string{"Forbidden spec.domain.launchSecurity"}},
		{"an ACPI table that is no secret", "amd64", `spec: {domain: {firmware: {acpi: {slicNameRef: x}}}}`,
			[]string{"Invalid value spec.domain.firmware.acpi.slicNameRef"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dom, errs := frontend.Render(frontends.With(t, c.arch, "refused", c.more))
			if diff := cmp.Diff(c.want, kinds(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if dom != nil {
				t.Error("a domain comes with errors")
			}
		})
	}
}

func kinds(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Type.String()+" "+err.Field)
	}
	return out
}

// TestFrozenFacts: what the first boot resolved stays, whatever a later host or configuration says; what the user asks for
// in so many words is given.
func TestFrozenFacts(t *testing.T) {
	t.Parallel()
	in := frontends.With(t, "amd64", "frozen", `spec: {domain: {devices: {autoattachVSOCK: true, interfaces: [{name: default}]}}}`)
	record := abi.Freeze(frontends.Rendered(t, in), "v1")
	in.Frozen = &record
	in.Facts.Machines = map[string]string{"q35": "pc-q35-9.0"}
	in.Defaults.SMBIOS.Manufacturer, in.Defaults.Video = "Other", map[string]string{"amd64": "virtio"}
	in.VMI = in.VMI.DeepCopy()
	in.VMI.Spec.Domain.Devices.Interfaces[0].MacAddress = ""
	dom := frontends.Rendered(t, in)
	if got := dom.OS.Type.Machine; got != "pc-q35-7.2" {
		t.Errorf("machine is '%s', the alias was resolved to 'pc-q35-7.2'", got)
	}
	if got := dom.SysInfo[0].SMBIOS.System.Entry[0].Value; got != "Kiln" {
		t.Errorf("manufacturer is '%s', was 'Kiln'", got)
	}
	if got := dom.Devices.Videos[0].Model.Type; got != "vga" {
		t.Errorf("video is '%s', was 'vga'", got)
	}
	if got, was := dom.Devices.Interfaces[0].MAC.Address, record.MACs["default"]; got != was || was == "" {
		t.Errorf("MAC is '%s', was '%s'", got, was)
	}
	if got := dom.Devices.VSock.CID.Address; got != record.VSOCK {
		t.Errorf("CID is '%s', was '%s'", got, record.VSOCK)
	}
	in.VMI.Spec.Domain.Machine.Type = "pc-q35-8.0"
	if got := frontends.Rendered(t, in).OS.Type.Machine; got != "pc-q35-8.0" {
		t.Errorf("machine is '%s', the user asks for 'pc-q35-8.0'", got)
	}
}

// TestPinMovesNobody: a user's address that an earlier boot gave to another device is refused and names both.
func TestPinMovesNobody(t *testing.T) {
	t.Parallel()
	in := frontends.With(t, "amd64", "pin", `spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio}}]}}}`)
	dom := frontends.Rendered(t, in)
	record := abi.Freeze(dom, "v1")
	in.Frozen = &record
	in.VMI.Spec.Domain.Devices.Disks[1].Disk.PciAddress = record.Devices["disk.a"].PCI
	_, errs := frontend.Render(in)
	want := []string{"Invalid value spec.domain.devices.disks[1].disk.pciAddress"}
	if diff := cmp.Diff(want, kinds(errs)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	// At the first boot the same pins are free to have.
	in.Frozen = nil
	if got := abi.Freeze(frontends.Rendered(t, in), "v1").Devices["disk.b"].PCI; got != record.Devices["disk.a"].PCI {
		t.Errorf("disk b is at '%s', wants '%s'", got, record.Devices["disk.a"].PCI)
	}
}

// TestBackendChoices: what only concerns the host leaves the guest alone. Each of these changed hardware in the reference.
func TestBackendChoices(t *testing.T) {
	t.Parallel()
	digest := func(change func(*v1.VirtualMachineInstance)) string {
		in := frontends.With(t, "amd64", "choices", `spec: {domain: {devices: {tpm: {}, disks: [{name: a, disk: {bus: virtio}}], interfaces: [{name: default}]}}}`)
		change(in.VMI)
		return abi.Digest(frontends.Rendered(t, in))
	}
	want := digest(func(*v1.VirtualMachineInstance) {})
	for what, change := range map[string]func(*v1.VirtualMachineInstance){
		"keeping the TPM's state": func(v *v1.VirtualMachineInstance) { v.Spec.Domain.Devices.TPM.Persistent = ptr(true) },
		"another binding": func(v *v1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.Interfaces[0].InterfaceBindingMethod = v1.InterfaceBindingMethod{PasstBinding: &v1.InterfacePasstBinding{}}
		},
		"another cache":        func(v *v1.VirtualMachineInstance) { v.Spec.Domain.Devices.Disks[0].Cache = v1.CacheWriteBack },
		"IO threads":           func(v *v1.VirtualMachineInstance) { v.Spec.Domain.IOThreadsPolicy = ptr(v1.IOThreadsPolicyAuto) },
		"a log of the console": func(v *v1.VirtualMachineInstance) { v.Spec.Domain.Devices.LogSerialConsole = ptr(false) },
	} {
		if got := digest(change); got != want {
			t.Errorf("%s changes the guest", what)
		}
	}
}
