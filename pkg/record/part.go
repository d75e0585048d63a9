package record

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Part identifies a part of a guest's hardware besides its devices. Programs go by it; texts may change.
type Part string

// Parts of domains and of records. A record has less: what must return, and no more.
const (
	PartUUID           Part = "uuid"
	PartGenerationID   Part = "generationID"
	PartSerial         Part = "serial"
	PartMachine        Part = "machine"
	PartPlatform       Part = "platform"
	PartBoot           Part = "boot"
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

// parts say of each what it is called, what its change means, and which field of spec.domain it comes from. What software binds itself to,
// or a boot depends on, breaks; more or less of what guests find out anew at each boot does not.
var parts = map[Part]struct {
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

// String is the part in words.
func (p Part) String() string { return parts[p].text }

// Changes is the part in words with the verb that its number asks for.
func (p Part) Changes() string { return p.String() + " " + parts[p].verb }

// Verdict is what a change of the part means for a guest, wherever it was found.
func (p Part) Verdict() Verdict { return parts[p].verdict }

// Path is the field of a VMI that the part comes from, or the nearest above it.
func (p Part) Path() *field.Path {
	if p == PartFirmwareFiles {
		return field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation)
	}
	return field.NewPath("spec", "domain", parts[p].field)
}
