package record

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Part identifies a part of a guest's hardware that is not a device. Programs compare parts, because texts may change.
type Part string

// Parts of domains and of records. A record contains only the parts that must be the same at the next boot.
const (
	PartUUID           Part = "uuid"
	PartGenerationID   Part = "generationID"
	PartSerial         Part = "serial"
	PartMachine        Part = "machine"
	PartPlatform       Part = "platform"
	PartBoot           Part = "boot"
	PartFirmware       Part = "firmware"
	PartMemory         Part = "memory"
	PartVCPUs          Part = "vcpus"
	PartTopology       Part = "topology"
	PartCPU            Part = "cpu"
	PartNUMA           Part = "numa"
	PartSMBIOS         Part = "smbios"
	PartFirmwareFiles  Part = "firmwareFiles"
	PartFeatures       Part = "features"
	PartClock          Part = "clock"
	PartTSC            Part = "tsc"
	PartLaunchSecurity Part = "launchSecurity"
	PartMemoryDevices  Part = "memoryDevices"
	PartVideo          Part = "video"
	PartVSOCK          Part = "vsock"
)

// partDetails has the name of each part, the verdict on its change, and the field of spec.domain from which it comes. A change breaks a guest if software binds
// itself to the part, or if a boot depends on it. It does not if guests detect the part at each boot.
var partDetails = map[Part]struct {
	text string
	// verb agrees with the text's number.
	verb    string
	verdict Verdict
	field   string
}{
	PartUUID:           {"the UUID", "changes", Breaks, "firmware.uuid"},
	PartGenerationID:   {"the generation ID", "changes", NeedsRestart, "devices"}, // no field: it is the VM's life
	PartSerial:         {"the serial", "changes", Breaks, "firmware.serial"},
	PartMachine:        {"the machine", "changes", Breaks, "machine"},
	PartPlatform:       {"the machine or firmware", "changes", Breaks, "machine"},
	PartBoot:           {"what the firmware boots", "changes", NeedsRestart, "firmware"},
	PartFirmware:       {"the firmware build", "changes", Breaks, "firmware.bootloader"}, // measured by the TPM, and variables are of one build
	PartMemory:         {"the memory", "changes", NeedsRestart, "memory"},
	PartVCPUs:          {"the number of CPUs", "changes", NeedsRestart, "cpu"},
	PartTopology:       {"the CPU topology", "changes", NeedsRestart, "cpu"},
	PartCPU:            {"the CPU", "changes", Breaks, "cpu"},
	PartNUMA:           {"the NUMA nodes", "change", NeedsRestart, "memory"},
	PartSMBIOS:         {"the system information (SMBIOS)", "changes", Breaks, "firmware"},
	PartFirmwareFiles:  {"the firmware configuration (fw_cfg)", "changes", NeedsRestart, ""}, // of an annotation, see Path
	PartFeatures:       {"the features", "change", NeedsRestart, "features"},
	PartClock:          {"the clock", "changes", NeedsRestart, "clock"},
	PartTSC:            {"the TSC frequency", "changes", Breaks, "clock"},
	PartLaunchSecurity: {"the launch security", "changes", Breaks, "launchSecurity"},
	PartMemoryDevices:  {"the memory devices or IOMMU", "change", NeedsRestart, "devices"},
	PartVideo:          {"the video model", "changes", Breaks, "devices.video"},
	PartVSOCK:          {"the vsock context ID", "changes", Breaks, "devices.autoattachVSOCK"},
}

// String returns the part in words, such as "the machine".
func (p Part) String() string { return partDetails[p].text }

// Changes returns the part in words with its verb, such as "the machine changes".
func (p Part) Changes() string { return p.String() + " " + partDetails[p].verb }

// Verdict returns what a change of the part means for a guest.
func (p Part) Verdict() Verdict { return partDetails[p].verdict }

// Path returns the field of a VMI from which the part comes, or the nearest field above it.
func (p Part) Path() *field.Path {
	if p == PartFirmwareFiles {
		return field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation)
	}
	return field.NewPath("spec", "domain", partDetails[p].field)
}
