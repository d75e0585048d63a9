package validate_test

const mirrored = `domain: {cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, memory: {hugepages: {pageSize: 2Mi}}}`

var devicesArchitectureCases = []testCase{
	{
		why:   "NUMA nodes on s390x",
		rule:  "devices/s390x",
		given: spec("{architecture: s390x, " + mirrored + "}"),
		want:  forbidden("spec.domain.cpu.numa.guestMappingPassthrough"),
	},
	{
		why:   "NUMA nodes on amd64",
		rule:  "devices/s390x",
		given: spec("{" + mirrored + "}"),
	},
	{
		why:   "a TPM on s390x",
		rule:  "devices/s390x",
		given: devicesOn("s390x", "tpm: {}"),
		want:  forbidden("spec.domain.devices.tpm"),
	},
	{
		why:   "a TPM on s390x that is switched on",
		rule:  "devices/s390x",
		given: devicesOn("s390x", "tpm: {enabled: true}"),
		want:  forbidden("spec.domain.devices.tpm"),
	},
	{
		why:   "a TPM on s390x that is switched off",
		rule:  "devices/s390x",
		given: devicesOn("s390x", "tpm: {enabled: false}"),
	},
	{
		why:   "a TPM on amd64",
		rule:  "devices/s390x",
		given: devices("tpm: {}"),
	},
	{
		why:   "sound on s390x",
		rule:  "devices/s390x",
		given: devicesOn("s390x", "sound: {name: s}"),
		want:  forbidden("spec.domain.devices.sound"),
	},
	{
		why:   "USB on s390x",
		rule:  "devices/s390x",
		given: devicesOn("s390x", "clientPassthrough: {}"),
		want:  forbidden("spec.domain.devices.clientPassthrough"),
	},
	{
		why:   "nothing of it on s390x",
		rule:  "devices/s390x",
		given: devicesOn("s390x", "rng: {}"),
	},
	{
		why:   "an input on USB on s390x",
		rule:  "devices/input-bus-s390x",
		given: devicesOn("s390x", "inputs: [{name: a, type: tablet, bus: usb}]"),
		want:  notSupported("spec.domain.devices.inputs[0].bus"),
	},
	{
		why:   "an input on virtio on s390x",
		rule:  "devices/input-bus-s390x",
		given: devicesOn("s390x", "inputs: [{name: a, type: tablet, bus: virtio}]"),
	},
	{
		why:   "an input on USB on amd64",
		rule:  "devices/input-bus-s390x",
		given: devices("inputs: [{name: a, type: tablet, bus: usb}]"),
	},
	{
		why:   "a disk on SATA on s390x",
		rule:  "disks/bus-s390x",
		given: diskOn("s390x", "disk: {bus: sata}"),
		want:  notSupported("spec.domain.devices.disks[0].disk.bus"),
	},
	{
		why:   "a CD-ROM on USB on s390x",
		rule:  "disks/bus-s390x",
		given: diskOn("s390x", "cdrom: {bus: usb}"),
		want:  notSupported("spec.domain.devices.disks[0].cdrom.bus"),
	},
	{
		why:   "a disk on SCSI on s390x",
		rule:  "disks/bus-s390x",
		given: diskOn("s390x", "disk: {bus: scsi}"),
	},
	{
		why:   "a disk on SATA on amd64",
		rule:  "disks/bus-s390x",
		given: disk("disk: {bus: sata}"),
	},
	{
		why:   "a disk where the host bridge is",
		rule:  "devices/pci-address",
		given: disk("disk: {bus: virtio, pciAddress: '0000:00:00.0'}"),
		want:  invalid("spec.domain.devices.disks[0].disk.pciAddress"),
	},
	{
		why:   "an interface where the host bridge is",
		rule:  "devices/pci-address",
		given: onPod("masquerade: {}, pciAddress: '0000:00:00.0'"),
		want:  invalid("spec.domain.devices.interfaces[0].pciAddress"),
	},
	{
		why:   "a disk where the mainframe has no bus",
		rule:  "devices/pci-address",
		given: diskOn("s390x", "disk: {bus: virtio, pciAddress: '0000:81:01.0'}"),
		want:  invalid("spec.domain.devices.disks[0].disk.pciAddress"),
	},
	{
		why:   "a disk on a bus of a PC",
		rule:  "devices/pci-address",
		given: disk("disk: {bus: virtio, pciAddress: '0000:81:01.0'}"),
	},
	{
		why:   "an interface on a bus of a PC",
		rule:  "devices/pci-address",
		given: onPod("masquerade: {}, pciAddress: '0000:81:01.0'"),
	},
	{
		why:    "only the rule about the form refuses what is not an address",
		rule:   "devices/pci-address",
		given:  disk("disk: {bus: virtio, pciAddress: '0000:00:00'}"),
		others: []string{"disks/pci-address"},
	},
	{
		why:    "only the rule about the form refuses what is not an address of an interface",
		rule:   "devices/pci-address",
		given:  onPod("masquerade: {}, pciAddress: '0000:00:00'"),
		others: []string{"networks/pci-address"},
	},
	{
		why:   "a disk without an address",
		rule:  "devices/pci-address",
		given: disk("cdrom: {bus: sata}"),
	},
}
