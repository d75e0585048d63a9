package admit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// target is the field of a guest that a field of a preference fills. The reason why a field was not applied names what filled its target before.
type target struct {
	// preferred is a field of the preference's spec. A field below it fills the field of the same name below guest.
	preferred string
	// guest is a field of the VMI's spec, with [*] for each element of a list. It is empty if the preference's field fills nothing.
	guest string
	// without is the reason if the guest has no such field.
	without string
}

// targets has the target of each field of a preference. The first one with the beginning of a path counts.
var targets = []target{
	{"annotations", "metadata.annotations", ""},
	{"clock.preferredClockOffset.utc", "spec.domain.clock.utc", "the VMI has another clock offset"},
	{"clock.preferredClockOffset.timezone", "spec.domain.clock.timezone", "the VMI has another clock offset"},
	{"clock.preferredTimer", "spec.domain.clock.timer", ""},
	{"devices.preferredAutoattachGraphicsDevice", "spec.domain.devices.autoattachGraphicsDevice", ""},
	{"devices.preferredAutoattachInputDevice", "spec.domain.devices.autoattachInputDevice", ""},
	{"devices.preferredAutoattachMemBalloon", "spec.domain.devices.autoattachMemBalloon", ""},
	{"devices.preferredAutoattachPodInterface", "spec.domain.devices.autoattachPodInterface", ""},
	{"devices.preferredAutoattachSerialConsole", "spec.domain.devices.autoattachSerialConsole", ""},
	{"devices.preferredBlockMultiQueue", "spec.domain.devices.blockMultiQueue", ""},
	{"devices.preferredCdromBus", "spec.domain.devices.disks[*].cdrom.bus", "the VMI has no CD-ROM"},
	{"devices.preferredDisableHotplug", "spec.domain.devices.disableHotplug", ""},
	{"devices.preferredDiskBlockSize", "spec.domain.devices.disks[*].blockSize", "the VMI has no disk other than CD-ROMs and LUNs"},
	{"devices.preferredDiskBus", "spec.domain.devices.disks[*].disk.bus", "the VMI has no disk other than CD-ROMs and LUNs"},
	{"devices.preferredDiskCache", "spec.domain.devices.disks[*].cache", "the VMI has no disk other than CD-ROMs and LUNs"},
	{"devices.preferredDiskDedicatedIoThread", "spec.domain.devices.disks[*].dedicatedIOThread", "the VMI has no disk on bus virtio, and no other has IO threads"},
	{"devices.preferredDiskIO", "spec.domain.devices.disks[*].io", "the VMI has no disk other than CD-ROMs and LUNs"},
	{"devices.preferredInputBus", "spec.domain.devices.inputs[*].bus", "the VMI has no input device"},
	{"devices.preferredInputType", "spec.domain.devices.inputs[*].type", "the VMI has no input device"},
	{"devices.preferredInterfaceMasquerade", "spec.domain.devices.interfaces[*].masquerade", "the VMI has no interface without a binding on the pod network"},
	{"devices.preferredInterfaceModel", "spec.domain.devices.interfaces[*].model", "the VMI has no interface"},
	{"devices.preferredLunBus", "spec.domain.devices.disks[*].lun.bus", "the VMI has no LUN"},
	{"devices.preferredNetworkInterfaceMultiQueue", "spec.domain.devices.networkInterfaceMultiqueue", ""},
	{"devices.preferredPanicDeviceModel", "spec.domain.devices.panicDevices[*].model", ""},
	{"devices.preferredRng", "spec.domain.devices.rng", ""},
	{"devices.preferredSoundModel", "spec.domain.devices.sound.model", "the VMI has no sound device: remove it"},
	{"devices.preferredTPM", "spec.domain.devices.tpm", ""},
	{"devices.preferredUseVirtioTransitional", "spec.domain.devices.useVirtioTransitional", ""},
	{"devices.preferredVideoType", "spec.domain.devices.video.type", ""},
	{"devices.preferredVirtualGPUOptions", "spec.domain.devices.gpus[*].virtualGPUOptions", "the VMI has no GPU"},
	{"features.preferredAcpi", "spec.domain.features.acpi", ""},
	{"features.preferredApic", "spec.domain.features.apic", ""},
	{"features.preferredHyperv", "spec.domain.features.hyperv", ""},
	{"features.preferredKvm", "spec.domain.features.kvm", ""},
	{"features.preferredPvspinlock", "spec.domain.features.pvspinlock", ""},
	{"features.preferredSmm", "spec.domain.features.smm", ""},
	{"firmware.preferredUseBiosSerial", "spec.domain.firmware.bootloader.bios.useSerial", "the guest does not boot by BIOS"},
	{"firmware.preferredUseBios", "spec.domain.firmware.bootloader.bios", otherLoader},
	{"firmware.preferredEfi", "spec.domain.firmware.bootloader.efi", otherLoader},
	{"firmware.preferredUseEfi", "spec.domain.firmware.bootloader.efi", otherLoader},
	{"firmware.preferredUseSecureBoot", "spec.domain.firmware.bootloader.efi.secureBoot", "the VMI does not boot by EFI, or preferredEfi is set too"},
	{"machine.preferredMachineType", "spec.domain.machine.type", ""},
	{"preferredArchitecture", "spec.architecture", ""},
	{"preferredLaunchSecurity", "spec.domain.launchSecurity", ""},
	{"preferredSubdomain", "spec.subdomain", ""},
	{"preferredTerminationGracePeriodSeconds", "spec.terminationGracePeriodSeconds", ""},
	{"volumes.preferredStorageClassName", "", "it applies to dataVolumeTemplates, which a VMI does not have"},
}

const otherLoader = "the VMI has another boot loader"

// switches are fields that have an effect only if they are true.
var switches = []string{"devices.preferredDisableHotplug", "firmware.preferredUseBios", "firmware.preferredUseEfi"}

// noEffectReasons returns why a field of a preference has no effect: one reason for each field of the guest that it could have filled.
func noEffectReasons(set instancetype.Set, field leaves.Leaf, facts []Fact) []string {
	switch {
	case slices.Contains(switches, field.Path) && field.Value == false:
		return []string{"false asks for nothing"}
	case strings.HasPrefix(field.Path, "requirements."):
		return []string{"it is a requirement, and the VMI meets it"}
	case strings.HasPrefix(field.Path, "cpu.preferredCPUFeatures["):
		return featureReasons(field, facts)
	case strings.HasPrefix(field.Path, "cpu.") || field.Path == "preferSpreadSocketToCoreRatio":
		return []string{arrangementReason(set, field.Path)}
	}
	for _, t := range targets {
		if below, found := fieldpath.Below(field.Path, t.preferred); found {
			return t.noEffectReasons(below, facts)
		}
	}
	return []string{"this release does not know it"}
}

func (t target) noEffectReasons(below string, facts []Fact) (all []string) {
	if t.guest == "" {
		return []string{t.without}
	}
	for _, fact := range facts {
		if matchesPattern(t.guest+below, fact.Path) {
			all = append(all, fact.existingValue())
		}
	}
	switch {
	case len(all) > 0:
		return all
	case below != "" && hasOtherOrigin(t.guest, facts):
		return []string{"the VMI has its own " + t.guest}
	case t.without != "":
		return []string{t.without}
	}
	return []string{"the VMI has no " + t.guest}
}

// existingValue is the reason that a field of the guest has its value without the preference's field that could fill it.
func (f Fact) existingValue() string {
	value := leaves.Leaf{Value: f.Value}.Text()
	if f.Origin.Kind == FromPreference { // from another field of the preference, or the preference's value is the default
		return fmt.Sprintf("%s is already %s without it", f.Path, value)
	}
	return fmt.Sprintf("%s is %s (%s)", f.Path, value, f.Origin)
}

// anyIndex is the step of a pattern that matches each element of a list.
var anyIndex = fieldpath.Step{Text: "*", Element: true}

// matchesPattern reports whether a path is the field of a pattern, or a field below it.
func matchesPattern(pattern, path string) bool {
	steps, wanted := fieldpath.Parse(path), fieldpath.Parse(pattern)
	if len(steps) < len(wanted) {
		return false
	}
	for i, want := range wanted {
		if _, isIndex := steps[i].Index(); steps[i] != want && (want != anyIndex || !isIndex) {
			return false
		}
	}
	return true
}

// hasOtherOrigin reports whether an object that preferences fill only as a whole has a value of another origin.
func hasOtherOrigin(pattern string, facts []Fact) bool {
	for _, fact := range facts {
		if matchesPattern(pattern, fact.Path) && fact.Origin.Kind != FromPreference {
			return true
		}
	}
	return false
}

// featureReasons returns why a CPU feature has no effect. Features are compared by name, not by their index in the list.
func featureReasons(field leaves.Leaf, facts []Fact) []string {
	wanted, _ := field.Value.(v1.CPUFeature)
	for _, fact := range facts {
		if matchesPattern("spec.domain.cpu.features[*].name", fact.Path) && fact.Value == wanted.Name {
			return []string{fact.existingValue()}
		}
	}
	return []string{"the VMI has no such feature"}
}

// arrangementReason returns why a field about the CPU topology has no effect. A preference arranges only the vCPUs of an instancetype.
func arrangementReason(set instancetype.Set, field string) string {
	topology := v1beta1.Sockets
	if cpu := set.Preference.Spec.CPU; cpu != nil && cpu.PreferredCPUTopology != nil {
		topology = *cpu.PreferredCPUTopology
	}
	switch {
	case set.Instancetype == nil:
		return "the VMI has no instancetype, whose vCPUs it would arrange"
	case field == "cpu.preferredCPUTopology" || topology == v1beta1.Spread || topology == v1beta1.DeprecatedPreferSpread:
		return "the vCPU topology is the same without it"
	}
	return fmt.Sprintf("preferredCPUTopology is '%s', not '%s'", topology, v1beta1.Spread)
}
