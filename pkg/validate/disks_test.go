package validate_test

import "strings"

var disksCases = []testCase{
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
