package validate_test

var devicesNamesCases = []testCase{
	{
		why:   "a GPU without a name",
		rule:  "devices/name",
		given: devices("gpus: [{name: '', deviceName: e.org/d}]"),
		want:  required("spec.domain.devices.gpus[0].name"),
	},
	{
		why:    "a device without a name",
		rule:   "devices/name",
		given:  devices("hostDevices: [{name: '', deviceName: e.org/d}]"),
		limits: gates("HostDevices"),
		want:   required("spec.domain.devices.hostDevices[0].name"),
	},
	{
		why:   "a file system without a name",
		rule:  "devices/name",
		given: devices("filesystems: [{name: '', virtiofs: {}}]"),
		want:  required("spec.domain.devices.filesystems[0].name"),
	},
	{
		why:   "an input without a name",
		rule:  "devices/name",
		given: devices("inputs: [{name: '', type: tablet}]"),
		want:  required("spec.domain.devices.inputs[0].name"),
	},
	{
		why:   "a watchdog without a name",
		rule:  "devices/name",
		given: devices("watchdog: {name: '', i6300esb: {}}"),
		want:  required("spec.domain.devices.watchdog.name"),
	},
	{
		why:    "a sound device without a name is refused by another rule",
		rule:   "devices/name",
		given:  devices("sound: {name: ''}"),
		others: []string{"devices/sound-name"},
	},
	{
		why:   "names",
		rule:  "devices/name",
		given: devices("gpus: [{name: a, deviceName: e.org/d}], inputs: [{name: b, type: tablet}], sound: {name: c}, watchdog: {name: d, i6300esb: {}}"),
	},
	{
		why:   "a dot in a GPU's name",
		rule:  "devices/name-form",
		given: devices("gpus: [{name: a.b, deviceName: e.org/d}]"),
		want:  invalid("spec.domain.devices.gpus[0].name"),
	},
	{
		why:   "a dot in a watchdog's name",
		rule:  "devices/name-form",
		given: devices("watchdog: {name: a.b, i6300esb: {}}"),
		want:  invalid("spec.domain.devices.watchdog.name"),
	},
	{
		why:   "a dot in a sound device's name",
		rule:  "devices/name-form",
		given: devices("sound: {name: a.b}"),
		want:  invalid("spec.domain.devices.sound.name"),
	},
	{
		why:   "letters, digits, '-' and '_'",
		rule:  "devices/name-form",
		given: devices("gpus: [{name: Gpu-1_b, deviceName: e.org/d}]"),
	},
	{
		why:   "two GPUs of one name",
		rule:  "devices/name-twice",
		given: devices("gpus: [{name: a, deviceName: e.org/d}, {name: a, deviceName: e.org/d}]"),
		want:  duplicate("spec.domain.devices.gpus[1].name"),
	},
	{
		why:    "a GPU and a device of one name",
		rule:   "devices/name-twice",
		given:  devices("gpus: [{name: a, deviceName: e.org/d}], hostDevices: [{name: a, deviceName: e.org/d}]"),
		limits: gates("HostDevices"),
		want:   duplicate("spec.domain.devices.hostDevices[0].name"),
	},
	{
		why:   "two inputs of one name",
		rule:  "devices/name-twice",
		given: devices("inputs: [{name: a, type: tablet}, {name: a, type: tablet}]"),
		want:  duplicate("spec.domain.devices.inputs[1].name"),
	},
	{
		why:   "two file systems of one name",
		rule:  "devices/name-twice",
		given: attached("filesystems: [{name: a, virtiofs: {}}, {name: a, virtiofs: {}}]", "{name: a, configMap: {name: a}}"),
		want:  duplicate("spec.domain.devices.filesystems[1].name"),
	},
	{
		why:   "devices of several lists",
		rule:  "devices/name-twice",
		given: devices("gpus: [{name: a, deviceName: e.org/d}], inputs: [{name: a, type: tablet}], sound: {name: a}, watchdog: {name: a, i6300esb: {}}"),
	},
	{
		why:   "two GPUs",
		rule:  "devices/name-twice",
		given: devices("gpus: [{name: a, deviceName: e.org/d}, {name: b, deviceName: e.org/d}]"),
	},
}
