package validate_test

var networksInterfacesCases = []testCase{
	{
		why:   "a dot",
		rule:  "networks/interface-name",
		given: nics("{name: a.b, masquerade: {}}", "{name: a.b, pod: {}}"),
		want:  invalid("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:   "letters, digits, '-' and '_'",
		rule:  "networks/interface-name",
		given: nics("{name: Net-1_b, masquerade: {}}", "{name: Net-1_b, pod: {}}"),
	},
	{
		why:   "a model that QEMU does not have",
		rule:  "networks/model",
		given: onPod("masquerade: {}, model: e100"),
		want:  notSupported("spec.domain.devices.interfaces[0].model"),
	},
	{
		why:   "a model",
		rule:  "networks/model",
		given: onPod("masquerade: {}, model: e1000"),
	},
	{
		why:   "no model",
		rule:  "networks/model",
		given: onPod("masquerade: {}"),
	},
	{
		why:   "five bytes",
		rule:  "networks/mac",
		given: onPod("masquerade: {}, macAddress: '02:1a:4b:00:00'"),
		want:  invalid("spec.domain.devices.interfaces[0].macAddress"),
	},
	{
		why:   "six bytes",
		rule:  "networks/mac",
		given: onPod("masquerade: {}, macAddress: '02:1a:4b:00:00:01'"),
	},
	{
		why:   "six bytes with dashes",
		rule:  "networks/mac",
		given: onPod("masquerade: {}, macAddress: '02-1a-4b-00-00-01'"),
	},
	{
		why:   "a multicast address",
		rule:  "networks/mac-multicast",
		given: onPod("masquerade: {}, macAddress: '03:1a:4b:00:00:01'"),
		want:  invalid("spec.domain.devices.interfaces[0].macAddress"),
	},
	{
		why:   "QEMU gives a card without an address one of its own",
		rule:  "networks/mac-zero",
		given: onPod("masquerade: {}, macAddress: '00-00-00-00-00-00'"),
		want:  invalid("spec.domain.devices.interfaces[0].macAddress"),
	},
	{
		why:   "the lowest address",
		rule:  "networks/mac-zero",
		given: onPod("masquerade: {}, macAddress: '00:00:00:00:00:01'"),
	},
	{
		why:   "a mainframe has no card of a PC",
		rule:  "networks/model",
		given: spec("{architecture: s390x, domain: {devices: {interfaces: [{name: a, masquerade: {}, model: e1000e}]}}, networks: [{name: a, pod: {}}]}"),
		want:  notSupported("spec.domain.devices.interfaces[0].model"),
	},
	{
		why:   "a mainframe has virtio",
		rule:  "networks/model",
		given: spec("{architecture: s390x, domain: {devices: {interfaces: [{name: a, masquerade: {}, model: virtio}]}}, networks: [{name: a, pod: {}}]}"),
	},
	{
		why:   "an arm64 board has the cards of PCs",
		rule:  "networks/model",
		given: spec("{architecture: arm64, domain: {devices: {interfaces: [{name: a, masquerade: {}, model: e1000e}]}}, networks: [{name: a, pod: {}}]}"),
	},
	{
		why:   "a multicast address in capitals",
		rule:  "networks/mac-multicast",
		given: onPod("masquerade: {}, macAddress: '0B:1A:4B:00:00:01'"),
		want:  invalid("spec.domain.devices.interfaces[0].macAddress"),
	},
	{
		why:   "an address of one card",
		rule:  "networks/mac-multicast",
		given: onPod("masquerade: {}, macAddress: '12:1a:4b:00:00:01'"),
	},
	{
		why:   "less than none",
		rule:  "networks/acpi-index",
		given: onPod("masquerade: {}, acpiIndex: -1"),
		want:  invalid("spec.domain.devices.interfaces[0].acpiIndex"),
	},
	{
		why:   "none, which is 0",
		rule:  "networks/acpi-index",
		given: onPod("masquerade: {}, acpiIndex: 0"),
	},
	{
		why:   "the greatest of QEMU",
		rule:  "networks/acpi-index",
		given: onPod("masquerade: {}, acpiIndex: 16383"),
	},
	{
		why:   "one more than QEMU has",
		rule:  "networks/acpi-index",
		given: onPod("masquerade: {}, acpiIndex: 16384"),
		want:  invalid("spec.domain.devices.interfaces[0].acpiIndex"),
	},
	{
		why:   "no domain",
		rule:  "networks/pci-address",
		given: onPod("masquerade: {}, pciAddress: '81:01.0'"),
		want:  invalid("spec.domain.devices.interfaces[0].pciAddress"),
	},
	{
		why:   "an address",
		rule:  "networks/pci-address",
		given: onPod("masquerade: {}, pciAddress: '0000:81:01.0'"),
	},
	{
		why:   "no address",
		rule:  "networks/pci-address",
		given: onPod("masquerade: {}"),
	},
	{
		why:   "an interface that can be unplugged, and is no bridge",
		rule:  "networks/absent-bridge",
		given: onMultus("sriov: {}, state: absent"),
		want:  invalid("spec.domain.devices.interfaces[0].state"),
	},
	{
		why:   "a bridge",
		rule:  "networks/absent-bridge",
		given: onMultus("bridge: {}, state: absent"),
	},
	{
		why:   "the pod's network",
		rule:  "networks/absent-default",
		given: onPod("bridge: {}, state: absent"),
		want:  invalid("spec.domain.devices.interfaces[0].state"),
	},
	{
		why:   "a default in the place of the pod's network",
		rule:  "networks/absent-default",
		given: nics("{name: a, bridge: {}, state: absent}", "{name: a, multus: {networkName: net, default: true}}"),
		want:  invalid("spec.domain.devices.interfaces[0].state"),
	},
	{
		why:   "the first of two defaults",
		rule:  "networks/absent-default",
		given: nics("{name: a, bridge: {}, state: absent}, {name: b, bridge: {}, state: absent}", twoDefaults),
		want:  invalid("spec.domain.devices.interfaces[0].state"),
	},
	{
		why:   "the pod's network, not the default that is wrong beside it",
		rule:  "networks/absent-default",
		given: nics("{name: a, bridge: {}, state: absent}, {name: b, bridge: {}, state: absent}", defaultThenPod),
		want:  invalid("spec.domain.devices.interfaces[1].state"),
	},
	{
		why:   "a network that is not the default",
		rule:  "networks/absent-default",
		given: nics("{name: a, masquerade: {}}, {name: b, bridge: {}, state: absent}", podAndMultus),
	},
	{
		why:   "a network besides one that is the default",
		rule:  "networks/absent-default",
		given: nics("{name: a, bridge: {}, state: absent}, {name: b, bridge: {}}", secondDefault),
	},
	{
		why:   "the link of a device of the host, up",
		rule:  "networks/state-sriov",
		given: onMultus("sriov: {}, state: up"),
		want:  invalid("spec.domain.devices.interfaces[0].state"),
	},
	{
		why:   "the link of a device of the host, down",
		rule:  "networks/state-sriov",
		given: onMultus("sriov: {}, state: down"),
		want:  invalid("spec.domain.devices.interfaces[0].state"),
	},
	{
		why:   "the link of a bridge",
		rule:  "networks/state-sriov",
		given: onMultus("bridge: {}, state: down"),
	},
	{
		why:   "the link of a device of the host, as it is",
		rule:  "networks/state-sriov",
		given: onMultus("sriov: {}"),
	},
	{
		why:   "an unknown word",
		rule:  "networks/state",
		given: onMultus("bridge: {}, state: gone"),
		want:  notSupported("spec.domain.devices.interfaces[0].state"),
	},
	{
		why:   "up",
		rule:  "networks/state",
		given: onPod("masquerade: {}, state: up"),
	},
}
