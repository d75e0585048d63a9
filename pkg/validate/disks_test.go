package validate_test

import "strings"

var disksCases = []testCase{
	{
		why:   "virtio shows 20 bytes",
		rule:  "disks/serial-shown",
		given: serials("disk: {bus: virtio}, serial: 12345678901234567890a", "disk: {bus: virtio}, serial: 12345678901234567890b"),
		want:  invalid("spec.domain.devices.disks[1].serial"),
	},
	{
		why:   "the 20th byte differs",
		rule:  "disks/serial-shown",
		given: serials("disk: {bus: virtio}, serial: 1234567890123456789a", "disk: {bus: virtio}, serial: 1234567890123456789b"),
	},
	{
		why:   "ATA shows 20 bytes",
		rule:  "disks/serial-shown",
		given: serials("disk: {bus: sata}, serial: 12345678901234567890a", "cdrom: {bus: sata}, serial: 12345678901234567890b"),
		want:  invalid("spec.domain.devices.disks[1].serial"),
	},
	{
		why:   "SCSI shows 36 bytes",
		rule:  "disks/serial-shown",
		given: serials("disk: {bus: scsi}, serial: 123456789012345678901234567890123456a", "disk: {bus: scsi}, serial: 123456789012345678901234567890123456b"),
		want:  invalid("spec.domain.devices.disks[1].serial"),
	},
	{
		why:   "more than 20 bytes are seen on SCSI",
		rule:  "disks/serial-shown",
		given: serials("disk: {bus: scsi}, serial: 12345678901234567890a", "disk: {bus: scsi}, serial: 12345678901234567890b"),
	},
	{
		why:   "disks on two buses have two names",
		rule:  "disks/serial-shown",
		given: serials("disk: {bus: virtio}, serial: 12345678901234567890a", "disk: {bus: sata}, serial: 12345678901234567890b"),
	},
	{
		why:   "two paths of one device have its serial number",
		rule:  "disks/serial-shown",
		given: serials("disk: {bus: virtio}, serial: 12345678901234567890a", "disk: {bus: virtio}, serial: 12345678901234567890a"),
	},
	{
		why:   "a disk named again",
		rule:  "disks/name-twice",
		given: attached("disks: [{name: a}, {name: a}]", "{name: a, configMap: {name: a}}"),
		want:  duplicate("spec.domain.devices.disks[1].name"),
	},
	{
		why:   "two disks",
		rule:  "disks/name-twice",
		given: attached("disks: [{name: a}, {name: b}]", "{name: a, configMap: {name: a}}, {name: b, configMap: {name: b}}"),
	},
	{
		why:   "two labels",
		rule:  "disks/name",
		given: attached("disks: [{name: a.b}]", "{name: a.b, configMap: {name: a}}"),
		want:  invalid("spec.domain.devices.disks[0].name"),
	},
	{
		why:   "one label",
		rule:  "disks/name",
		given: attached("disks: [{name: a-b}]", "{name: a-b, configMap: {name: a}}"),
	},
	{
		why:   "a name that is wrong twice is told as wrong once",
		rule:  "disks/name",
		given: attached("disks: [{name: a.b}, {name: a.b}]", "{name: a.b, configMap: {name: a}}"),
		want:  invalid("spec.domain.devices.disks[0].name"),
	},
	{
		why:   "a disk and a LUN",
		rule:  "disks/targets",
		given: disk("disk: {}, lun: {}"),
		want:  forbidden("spec.domain.devices.disks[0].lun"),
	},
	{
		why:   "a LUN and a CD-ROM",
		rule:  "disks/targets",
		given: disk("lun: {}, cdrom: {}"),
		want:  forbidden("spec.domain.devices.disks[0].cdrom"),
	},
	{
		why:   "a disk",
		rule:  "disks/targets",
		given: disk("disk: {}"),
	},
	{
		why:   "no target",
		rule:  "disks/targets",
		given: disk("serial: a"),
	},
	{
		why:   "a space",
		rule:  "disks/serial",
		given: disk("serial: 'a b'"),
		want:  invalid("spec.domain.devices.disks[0].serial"),
	},
	{
		why:   "a disk of a preset",
		rule:  "disks/serial",
		given: preset("domain: {devices: {disks: [{name: a, serial: 'a b'}]}}"),
		want:  invalid("spec.domain.devices.disks[0].serial"),
	},
	{
		why:   "all that a serial number may consist of",
		rule:  "disks/serial",
		given: disk("serial: 'Az0_.+-'"),
	},
	{
		why:   "no serial number",
		rule:  "disks/serial",
		given: disk("serial: ''"),
	},
	{
		why:   "257 characters",
		rule:  "disks/serial-length",
		given: disk("serial: " + strings.Repeat("s", 257)),
		want:  tooLong("spec.domain.devices.disks[0].serial"),
	},
	{
		why:   "256 characters",
		rule:  "disks/serial-length",
		given: disk("serial: " + strings.Repeat("s", 256)),
	},
}

// serials is a VMI with two disks.
func serials(first, second string) given {
	return attached("disks: [{name: a, "+first+"}, {name: b, "+second+"}]", "{name: a, configMap: {name: a}}, {name: b, configMap: {name: b}}")
}
