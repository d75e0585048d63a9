package validate_test

var rangesOn = gates("PortRangesSpec")

// oneRange is an interface with a range of a protocol; more may follow it.
func oneRange(protocol string) string {
	return "masquerade: {}, portRanges: [{protocol: " + protocol + "}]"
}

var networksRangesCases = []testCase{
	{
		why:   "ranges without the feature gate",
		rule:  "networks/ranges-gate",
		given: nics("{name: a, masquerade: {}, portRanges: [{protocol: TCP, start: 1, end: 2}]}, {name: b, bridge: {}}", podAndMultus),
		want:  forbidden("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:    "ranges with the feature gate",
		rule:   "networks/ranges-gate",
		given:  onPod(ranges(1)),
		limits: rangesOn,
	},
	{
		why:    "ranges and ports",
		rule:   "networks/ranges-and-ports",
		given:  onPod(ranges(1) + ", ports: [{port: 80}]"),
		limits: rangesOn,
		want:   forbidden("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:    "ranges and an empty list of ports",
		rule:   "networks/ranges-and-ports",
		given:  onPod(ranges(1) + ", ports: []"),
		limits: rangesOn,
	},
	{
		why:    "ranges of a bridge",
		rule:   "networks/ranges-masquerade",
		given:  onPod("bridge: {}, portRanges: [{protocol: TCP, start: 1, end: 2}]"),
		limits: rangesOn,
		want:   forbidden("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:    "ranges of masquerade",
		rule:   "networks/ranges-masquerade",
		given:  onPod(ranges(1)),
		limits: rangesOn,
	},
	{
		why:    "ranges of a bridge where they have no effect",
		rule:   "networks/ranges-masquerade",
		given:  onMultus("bridge: {}, portRanges: [{protocol: TCP, start: 1, end: 2}]"),
		limits: rangesOn,
	},
	{
		why:    "ranges where the network is missing",
		rule:   "networks/ranges-masquerade",
		given:  nics("{name: a, bridge: {}, portRanges: [{protocol: TCP, start: 1, end: 2}]}", ""),
		limits: rangesOn,
		others: []string{"networks/network-missing"},
	},
	{
		why:    "eleven ranges",
		rule:   "networks/ranges-count",
		given:  onPod(ranges(11)),
		limits: rangesOn,
		want:   tooMany("spec.domain.devices.interfaces[0].portRanges"),
	},
	{
		why:    "ten ranges",
		rule:   "networks/ranges-count",
		given:  onPod(ranges(10)),
		limits: rangesOn,
	},
	{
		why:    "no protocol",
		rule:   "networks/range-protocol",
		given:  onPod("masquerade: {}, portRanges: [{start: 1, end: 2}]"),
		limits: rangesOn,
		want:   notSupported("spec.domain.devices.interfaces[0].portRanges[0].protocol"),
	},
	{
		why:    "both protocols",
		rule:   "networks/range-protocol",
		given:  onPod(oneRange("TCP, start: 1, end: 2}, {protocol: UDP, start: 3, end: 4")),
		limits: rangesOn,
	},
	{
		why:    "less than the first port",
		rule:   "networks/range-start",
		given:  onPod(oneRange("TCP, start: 0, end: 2")),
		limits: rangesOn,
		want:   invalid("spec.domain.devices.interfaces[0].portRanges[0].start"),
	},
	{
		why:    "the first port",
		rule:   "networks/range-start",
		given:  onPod(oneRange("TCP, start: 1, end: 1")),
		limits: rangesOn,
	},
	{
		why:    "the last port",
		rule:   "networks/range-start",
		given:  onPod(oneRange("TCP, start: 65535, end: 65535")),
		limits: rangesOn,
	},
	{
		why:    "more than the last port",
		rule:   "networks/range-start",
		given:  onPod(oneRange("TCP, start: 65536, end: 65535")),
		limits: rangesOn,
		want:   invalid("spec.domain.devices.interfaces[0].portRanges[0].start"),
	},
	{
		why:    "less than the first port",
		rule:   "networks/range-end",
		given:  onPod(oneRange("TCP, start: 1, end: 0")),
		limits: rangesOn,
		want:   invalid("spec.domain.devices.interfaces[0].portRanges[0].end"),
	},
	{
		why:    "the first port",
		rule:   "networks/range-end",
		given:  onPod(oneRange("TCP, start: 1, end: 1")),
		limits: rangesOn,
	},
	{
		why:    "the last port",
		rule:   "networks/range-end",
		given:  onPod(oneRange("TCP, start: 1, end: 65535")),
		limits: rangesOn,
	},
	{
		why:    "more than the last port",
		rule:   "networks/range-end",
		given:  onPod(oneRange("TCP, start: 1, end: 65536")),
		limits: rangesOn,
		want:   invalid("spec.domain.devices.interfaces[0].portRanges[0].end"),
	},
	{
		why:    "a range that ends before it starts",
		rule:   "networks/range-order",
		given:  onPod(oneRange("TCP, start: 3, end: 2")),
		limits: rangesOn,
		want:   invalid("spec.domain.devices.interfaces[0].portRanges[0].start"),
	},
	{
		why:    "a range of one port",
		rule:   "networks/range-order",
		given:  onPod(oneRange("TCP, start: 2, end: 2")),
		limits: rangesOn,
	},
	{
		why:    "the last port of one is the first of the next",
		rule:   "networks/range-overlap",
		given:  onPod(oneRange("TCP, start: 1, end: 2}, {protocol: TCP, start: 2, end: 3")),
		limits: rangesOn,
		want:   invalid("spec.domain.devices.interfaces[0].portRanges[1]"),
	},
	{
		why:    "the first port of one is the last of the next",
		rule:   "networks/range-overlap",
		given:  onPod(oneRange("TCP, start: 2, end: 3}, {protocol: TCP, start: 1, end: 2")),
		limits: rangesOn,
		want:   invalid("spec.domain.devices.interfaces[0].portRanges[1]"),
	},
	{
		why:    "a range that overlaps with two is told once",
		rule:   "networks/range-overlap",
		given:  onPod(oneRange("TCP, start: 1, end: 2}, {protocol: TCP, start: 3, end: 4}, {protocol: TCP, start: 1, end: 4")),
		limits: rangesOn,
		want:   invalid("spec.domain.devices.interfaces[0].portRanges[2]"),
	},
	{
		why:    "one after the other",
		rule:   "networks/range-overlap",
		given:  onPod(oneRange("TCP, start: 1, end: 2}, {protocol: TCP, start: 3, end: 4")),
		limits: rangesOn,
	},
	{
		why:    "one before the other",
		rule:   "networks/range-overlap",
		given:  onPod(oneRange("TCP, start: 3, end: 4}, {protocol: TCP, start: 1, end: 2")),
		limits: rangesOn,
	},
	{
		why:    "the same ports of two protocols",
		rule:   "networks/range-overlap",
		given:  onPod(oneRange("TCP, start: 1, end: 2}, {protocol: UDP, start: 1, end: 2")),
		limits: rangesOn,
	},
}
