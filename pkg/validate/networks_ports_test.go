package validate_test

var networksPortsCases = []testCase{
	{
		why:   "a name given twice",
		rule:  "networks/port-name-twice",
		given: onPod("masquerade: {}, ports: [{name: p, port: 80}, {name: p, port: 81}]"),
		want:  duplicate("spec.domain.devices.interfaces[0].ports[1].name"),
	},
	{
		why:   "two names",
		rule:  "networks/port-name-twice",
		given: onPod("masquerade: {}, ports: [{name: p, port: 80}, {name: q, port: 81}]"),
	},
	{
		why:   "two ports without a name",
		rule:  "networks/port-name-twice",
		given: onPod("masquerade: {}, ports: [{port: 80}, {port: 81}]"),
	},
	{
		why:   "one character more than a name has",
		rule:  "networks/port-name",
		given: onPod("masquerade: {}, ports: [{name: abcdefghijklmnop, port: 80}]"),
		want:  invalid("spec.domain.devices.interfaces[0].ports[0].name"),
	},
	{
		why:   "as many characters as a name has",
		rule:  "networks/port-name",
		given: onPod("masquerade: {}, ports: [{name: abcdefghijklmno, port: 80}]"),
	},
	{
		why:   "a protocol that masquerade does not pass",
		rule:  "networks/port-protocol",
		given: onPod("masquerade: {}, ports: [{port: 80, protocol: SCTP}]"),
		want:  notSupported("spec.domain.devices.interfaces[0].ports[0].protocol"),
	},
	{
		why:   "both protocols, and none",
		rule:  "networks/port-protocol",
		given: onPod("masquerade: {}, ports: [{port: 80, protocol: TCP}, {port: 80, protocol: UDP}, {port: 81}]"),
	},
	{
		why:   "no number",
		rule:  "networks/port-given",
		given: onPod("masquerade: {}, ports: [{name: p, port: 0}]"),
		want:  required("spec.domain.devices.interfaces[0].ports[0].port"),
	},
	{
		why:   "the first port",
		rule:  "networks/port-given",
		given: onPod("masquerade: {}, ports: [{name: p, port: 1}]"),
	},
	{
		why:   "no number where ports have no effect",
		rule:  "networks/port-given",
		given: onMultus("bridge: {}, ports: [{name: p, port: 0}]"),
	},
	{
		why:    "no number where the network is missing",
		rule:   "networks/port-given",
		given:  nics("{name: a, bridge: {}, ports: [{port: 0}]}", ""),
		others: []string{"networks/network-missing"},
	},
	{
		why:   "less than the first port",
		rule:  "networks/port",
		given: onPod("masquerade: {}, ports: [{port: -1}]"),
		want:  invalid("spec.domain.devices.interfaces[0].ports[0].port"),
	},
	{
		why:   "the last port",
		rule:  "networks/port",
		given: onPod("masquerade: {}, ports: [{port: 65535}]"),
	},
	{
		why:   "one more than the last port",
		rule:  "networks/port",
		given: onPod("masquerade: {}, ports: [{port: 65536}]"),
		want:  invalid("spec.domain.devices.interfaces[0].ports[0].port"),
	},
}
