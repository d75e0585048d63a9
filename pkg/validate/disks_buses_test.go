package validate_test

import "github.com/kilnvm/kiln/pkg/config"

// reservations are the limits of a cluster that allows persistent reservations of SCSI.
func reservations(limits *config.Limits) { limits.PersistentReservation = true }

var disksBusesCases = []testCase{
	{
		why:   "a disk on SATA on arm64",
		rule:  "disks/bus-arm64",
		given: diskOn("arm64", "disk: {bus: sata}"),
		want:  notSupported("spec.domain.devices.disks[0].disk.bus"),
	},
	{
		why:   "a disk on USB on arm64",
		rule:  "disks/bus-arm64",
		given: diskOn("arm64", "disk: {bus: usb}"),
		want:  notSupported("spec.domain.devices.disks[0].disk.bus"),
	},
	{
		why:   "a CD-ROM on SATA on arm64",
		rule:  "disks/bus-arm64",
		given: diskOn("arm64", "cdrom: {bus: sata}"),
		want:  notSupported("spec.domain.devices.disks[0].cdrom.bus"),
	},
	{
		why:   "a CD-ROM on SCSI on arm64",
		rule:  "disks/bus-arm64",
		given: diskOn("arm64", "cdrom: {bus: scsi}"),
	},
	{
		why:   "a disk on SATA on amd64",
		rule:  "disks/bus-arm64",
		given: disk("disk: {bus: sata}"),
	},
	{
		why:   "a LUN on SATA",
		rule:  "disks/lun-bus",
		given: disk("lun: {bus: sata}"),
		want:  notSupported("spec.domain.devices.disks[0].lun.bus"),
	},
	{
		why:   "a LUN on USB",
		rule:  "disks/lun-bus",
		given: disk("lun: {bus: usb}"),
		want:  notSupported("spec.domain.devices.disks[0].lun.bus"),
	},
	{
		why:   "a LUN on SCSI",
		rule:  "disks/lun-bus",
		given: disk("lun: {bus: scsi}"),
	},
	{
		why:   "a disk on USB",
		rule:  "disks/lun-bus",
		given: disk("disk: {bus: usb}"),
	},
	{
		why:   "a reservation that the cluster does not allow",
		rule:  "disks/reservation",
		given: disk("lun: {bus: scsi, reservation: true}"),
		want:  forbidden("spec.domain.devices.disks[0].lun.reservation"),
	},
	{
		why:    "a reservation that the cluster allows",
		rule:   "disks/reservation",
		given:  disk("lun: {bus: scsi, reservation: true}"),
		limits: reservations,
	},
	{
		why:   "no reservation",
		rule:  "disks/reservation",
		given: disk("lun: {bus: scsi, reservation: false}"),
	},
	{
		why:   "a disk",
		rule:  "disks/reservation",
		given: disk("disk: {bus: scsi}"),
	},
	{
		why:   "IDE for each target",
		rule:  "disks/bus-ide",
		given: disk("disk: {bus: ide}, cdrom: {bus: ide}"),
		want:  notSupported("spec.domain.devices.disks[0].disk.bus", "spec.domain.devices.disks[0].cdrom.bus"),
	},
	{
		why:   "SATA",
		rule:  "disks/bus-ide",
		given: disk("disk: {bus: sata}"),
	},
	{
		why:   "a CD-ROM on virtio",
		rule:  "disks/cdrom-virtio",
		given: disk("cdrom: {bus: virtio}"),
		want:  notSupported("spec.domain.devices.disks[0].cdrom.bus"),
	},
	{
		why:   "a LUN that is a CD-ROM on virtio too",
		rule:  "disks/cdrom-virtio",
		given: disk("lun: {bus: scsi}, cdrom: {bus: virtio}"),
		want:  notSupported("spec.domain.devices.disks[0].cdrom.bus"),
	},
	{
		why:   "a CD-ROM on SATA",
		rule:  "disks/cdrom-virtio",
		given: disk("cdrom: {bus: sata}"),
	},
	{
		why:   "a disk on virtio",
		rule:  "disks/cdrom-virtio",
		given: disk("disk: {bus: virtio}"),
	},
	{
		why:   "a bus that QEMU does not have",
		rule:  "disks/bus",
		given: disk("disk: {bus: nvme}"),
		want:  notSupported("spec.domain.devices.disks[0].disk.bus"),
	},
	{
		why:   "a disk of a preset on a bus that QEMU does not have",
		rule:  "disks/bus",
		given: preset("domain: {devices: {disks: [{name: a, disk: {bus: nvme}}]}}"),
		want:  notSupported("spec.domain.devices.disks[0].disk.bus"),
	},
	{
		why:   "a bus",
		rule:  "disks/bus",
		given: disk("disk: {bus: scsi}"),
	},
	{
		why:   "no bus",
		rule:  "disks/bus",
		given: disk("disk: {}"),
	},
	{
		why:   "a SATA disk that cannot be written to",
		rule:  "disks/sata-readonly",
		given: disk("disk: {bus: sata, readonly: true}"),
		want:  invalid("spec.domain.devices.disks[0].disk.bus"),
	},
	{
		why:   "a SATA disk",
		rule:  "disks/sata-readonly",
		given: disk("disk: {bus: sata}"),
	},
	{
		why:   "a virtio disk that cannot be written to",
		rule:  "disks/sata-readonly",
		given: disk("disk: {bus: virtio, readonly: true}"),
	},
	{
		why:   "an address on SATA",
		rule:  "disks/pci-bus",
		given: disk("disk: {bus: sata, pciAddress: '0000:81:01.0'}"),
		want:  invalid("spec.domain.devices.disks[0].disk.pciAddress"),
	},
	{
		why:   "an address on virtio",
		rule:  "disks/pci-bus",
		given: disk("disk: {bus: virtio, pciAddress: '0000:81:01.0'}"),
	},
	{
		why:   "no address on SATA",
		rule:  "disks/pci-bus",
		given: disk("disk: {bus: sata}"),
	},
	{
		why:   "no domain",
		rule:  "disks/pci-address",
		given: disk("disk: {bus: virtio, pciAddress: '81:01.0'}"),
		want:  invalid("spec.domain.devices.disks[0].disk.pciAddress"),
	},
	{
		why:   "an address",
		rule:  "disks/pci-address",
		given: disk("disk: {bus: virtio, pciAddress: '0000:81:01.0'}"),
	},
}
