package validate_test

// Networks of which some are the default.
const (
	twoDefaults    = "{name: a, multus: {networkName: net, default: true}}, {name: b, multus: {networkName: m, default: true}}"
	secondDefault  = "{name: a, multus: {networkName: net}}, {name: b, multus: {networkName: m, default: true}}"
	podThenDefault = "{name: a, pod: {}}, {name: b, multus: {networkName: net, default: true}}"
	defaultThenPod = "{name: a, multus: {networkName: net, default: true}}, {name: b, pod: {}}"
)

var networksCases = []testCase{
	{
		why:   "no type",
		rule:  "networks/type",
		given: nics("{name: a, bridge: {}}", "{name: a}"),
		want:  required("spec.networks[0]"),
	},
	{
		why:   "a type",
		rule:  "networks/type",
		given: onMultus("bridge: {}"),
	},
	{
		why:   "two types",
		rule:  "networks/types",
		given: nics("{name: a, masquerade: {}}", "{name: a, pod: {}, multus: {networkName: net}}"),
		want:  forbidden("spec.networks[0].multus"),
	},
	{
		why:   "a network of each type",
		rule:  "networks/types",
		given: nics("{name: a, masquerade: {}}, {name: b, bridge: {}}", "{name: a, pod: {}}, {name: b, multus: {networkName: net}}"),
	},
	{
		why:   "a definition without a name",
		rule:  "networks/multus-name",
		given: nics("{name: a, bridge: {}}", "{name: a, multus: {networkName: ''}}"),
		want:  required("spec.networks[0].multus.networkName"),
	},
	{
		why:   "a definition with a name",
		rule:  "networks/multus-name",
		given: onMultus("bridge: {}"),
	},
	{
		why:   "the pod's network twice",
		rule:  "networks/pod-twice",
		given: nics("{name: a, masquerade: {}}, {name: b, masquerade: {}}", "{name: a, pod: {}}, {name: b, pod: {}}"),
		want:  forbidden("spec.networks[1].pod"),
	},
	{
		why:   "the pod's network once, after another",
		rule:  "networks/pod-twice",
		given: nics("{name: a, bridge: {}}, {name: b, masquerade: {}}", "{name: a, multus: {networkName: net}}, {name: b, pod: {}}"),
	},
	{
		why:   "two defaults",
		rule:  "networks/default-twice",
		given: nics("{name: a, bridge: {}}, {name: b, bridge: {}}", twoDefaults),
		want:  forbidden("spec.networks[1].multus.default"),
	},
	{
		why:   "one default",
		rule:  "networks/default-twice",
		given: nics("{name: a, bridge: {}}, {name: b, bridge: {}}", secondDefault),
	},
	{
		why:   "a default after the pod's network",
		rule:  "networks/pod-and-default",
		given: nics("{name: a, masquerade: {}}, {name: b, bridge: {}}", podThenDefault),
		want:  forbidden("spec.networks[0].pod"),
	},
	{
		why:   "a default before the pod's network",
		rule:  "networks/pod-and-default",
		given: nics("{name: a, bridge: {}}, {name: b, masquerade: {}}", defaultThenPod),
		want:  forbidden("spec.networks[1].pod"),
	},
	{
		why:   "another network that is not the default",
		rule:  "networks/pod-and-default",
		given: nics("{name: a, masquerade: {}}, {name: b, bridge: {}}", "{name: a, pod: {}}, {name: b, multus: {networkName: net}}"),
	},
	{
		why:   "a default without the pod's network",
		rule:  "networks/pod-and-default",
		given: nics("{name: a, bridge: {}}", "{name: a, multus: {networkName: net, default: true}}"),
	},
	{
		why:   "a network named again",
		rule:  "networks/name-twice",
		given: nics("{name: a, masquerade: {}}", "{name: a, pod: {}}, {name: a, multus: {networkName: net}}"),
		want:  duplicate("spec.networks[1].name"),
	},
	{
		why:   "two names",
		rule:  "networks/name-twice",
		given: nics("{name: a, masquerade: {}}, {name: b, bridge: {}}", "{name: a, pod: {}}, {name: b, multus: {networkName: net}}"),
	},
	{
		why:   "a network without an interface",
		rule:  "networks/interface-missing",
		given: nics("{name: a, masquerade: {}}", "{name: a, pod: {}}, {name: b, multus: {networkName: net}}"),
		want:  invalid("spec.networks[1].name"),
	},
	{
		why:   "a network with an interface",
		rule:  "networks/interface-missing",
		given: onPod("masquerade: {}"),
	},
	{
		why:   "an interface named again",
		rule:  "networks/interface-twice",
		given: nics("{name: a, masquerade: {}}, {name: a, masquerade: {}}", "{name: a, pod: {}}"),
		want:  duplicate("spec.domain.devices.interfaces[1].name"),
	},
	{
		why:   "interfaces of two names, in another order than their networks",
		rule:  "networks/interface-twice",
		given: nics("{name: b, bridge: {}}, {name: a, masquerade: {}}", "{name: a, pod: {}}, {name: b, multus: {networkName: net}}"),
	},
	{
		why:   "an interface without a network",
		rule:  "networks/network-missing",
		given: nics("{name: a, masquerade: {}}, {name: b, bridge: {}}", "{name: a, pod: {}}"),
		want:  invalid("spec.domain.devices.interfaces[1].name"),
	},
	{
		why:   "an interface with a network",
		rule:  "networks/network-missing",
		given: onPod("masquerade: {}"),
	},
}
