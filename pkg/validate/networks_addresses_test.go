package validate_test

const podAndMultus = "{name: a, pod: {}}, {name: b, multus: {networkName: net}}"

var networksAddressesCases = []testCase{
	{
		why:   "an index given twice",
		rule:  "networks/acpi-index-twice",
		given: nics("{name: a, masquerade: {}, acpiIndex: 1}, {name: b, bridge: {}, acpiIndex: 1}", podAndMultus),
		want:  duplicate("spec.domain.devices.interfaces[1].acpiIndex"),
	},
	{
		why:   "two indexes",
		rule:  "networks/acpi-index-twice",
		given: nics("{name: a, masquerade: {}, acpiIndex: 1}, {name: b, bridge: {}, acpiIndex: 2}", podAndMultus),
	},
	{
		why:   "two interfaces without an index",
		rule:  "networks/acpi-index-twice",
		given: nics("{name: a, masquerade: {}}, {name: b, bridge: {}}", podAndMultus),
	},
}
