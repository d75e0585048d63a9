package validate_test

import "strings"

var catalogCases = []testCase{
	{
		why:   "no CPU",
		rule:  "instancetype/cpus",
		given: instancetype("cpu: {guest: 0}"),
		want:  invalid("spec.cpu.guest"),
	},
	{
		why:   "one CPU",
		rule:  "instancetype/cpus",
		given: instancetype("cpu: {guest: 1}"),
	},
	{
		why:   "memory that no int64 holds",
		rule:  "instancetype/memory",
		given: instancetype("memory: {guest: 1e400}"),
		want:  invalid("spec.memory.guest"),
	},
	{
		why:   "no memory",
		rule:  "instancetype/memory",
		given: instancetype("memory: {guest: '0'}"),
		want:  invalid("spec.memory.guest"),
	},
	{
		why:   "memory that nobody wrote",
		rule:  "instancetype/memory",
		given: instancetype("memory: {guest: null}"),
		want:  required("spec.memory.guest"),
	},
	{
		why:   "a ceiling of nothing",
		rule:  "instancetype/max-guest",
		given: instancetype("memory: {maxGuest: '0'}"),
		want:  invalid("spec.memory.maxGuest"),
	},
	{
		why:   "a ceiling that no processor addresses",
		rule:  "instancetype/max-guest",
		given: instancetype("memory: {maxGuest: 5Pi}"),
		want:  invalid("spec.memory.maxGuest"),
	},
	{
		why:   "the highest ceiling",
		rule:  "instancetype/max-guest",
		given: instancetype("memory: {maxGuest: 4Pi}"),
	},
	{
		why:   "a page of no architecture",
		rule:  "instancetype/page-size",
		given: instancetype("memory: {hugepages: {pageSize: 3Mi}}"),
		want:  invalid("spec.memory.hugepages.pageSize"),
	},
	{
		why:   "pages without a size",
		rule:  "instancetype/page-size",
		given: instancetype("memory: {hugepages: {}}"),
		want:  required("spec.memory.hugepages.pageSize"),
	},
	{
		why:   "a page of one architecture",
		rule:  "instancetype/page-size",
		given: instancetype("memory: {hugepages: {pageSize: 32Mi}}"),
	},
	{
		why:   "less than no time",
		rule:  "preference/grace-period",
		given: preference("preferredTerminationGracePeriodSeconds: -1"),
		want:  invalid("spec.preferredTerminationGracePeriodSeconds"),
	},
	{
		why:   "no time",
		rule:  "preference/grace-period",
		given: preference("preferredTerminationGracePeriodSeconds: 0"),
	},
	{
		why:    "one byte is legal to this rule",
		rule:   "instancetype/memory",
		given:  instancetype("memory: {guest: '1'}"),
		others: []string{"instancetype/memory-unit"},
	},
	{
		why:   "less than no overcommitment",
		rule:  "instancetype/overcommit",
		given: instancetype("memory: {overcommitPercent: -1}"),
		want:  invalid("spec.memory.overcommitPercent"),
	},
	{
		why:   "no overcommitment",
		rule:  "instancetype/overcommit",
		given: instancetype("memory: {overcommitPercent: 0}"),
	},
	{
		why:   "all memory overcommitted",
		rule:  "instancetype/overcommit",
		given: instancetype("memory: {overcommitPercent: 100}"),
	},
	{
		why:   "more than all memory overcommitted",
		rule:  "instancetype/overcommit",
		given: instancetype("memory: {overcommitPercent: 101}"),
		want:  invalid("spec.memory.overcommitPercent"),
	},
	{
		why:   "overcommitted huge pages",
		rule:  "instancetype/overcommit-hugepages",
		given: instancetype("memory: {overcommitPercent: 1, hugepages: {pageSize: 2Mi}}"),
		want:  forbidden("spec.memory.overcommitPercent"),
	},
	{
		why:   "huge pages",
		rule:  "instancetype/overcommit-hugepages",
		given: instancetype("memory: {overcommitPercent: 0, hugepages: {pageSize: 2Mi}}"),
	},
	{
		why:   "overcommitted pages",
		rule:  "instancetype/overcommit-hugepages",
		given: instancetype("memory: {overcommitPercent: 1}"),
	},
	{
		why:   "a word that is none",
		rule:  "preference/topology",
		given: preference("cpu: {preferredCPUTopology: nodes}"),
		want:  notSupported("spec.cpu.preferredCPUTopology"),
	},
	{
		why:   "a topology",
		rule:  "preference/topology",
		given: preference("cpu: {preferredCPUTopology: sockets}"),
	},
	{
		why:   "no topology",
		rule:  "preference/topology",
		given: preference("cpu: {}"),
	},
	{
		why:   "no CPUs",
		rule:  "preference/topology",
		given: preference("{}"),
	},
	{
		why:   "a ratio of nothing",
		rule:  "preference/spread-zero",
		given: preference("cpu: {spreadOptions: {ratio: 0}}"),
		want:  invalid("spec.cpu.spreadOptions.ratio"),
	},
	{
		why:   "a ratio of one",
		rule:  "preference/spread-zero",
		given: preference("cpu: {spreadOptions: {ratio: 1}}"),
	},
	{
		why:   "no ratio",
		rule:  "preference/spread-zero",
		given: preference("cpu: {spreadOptions: {across: SocketsCores}}"),
	},
	{
		why:   "a word that is none",
		rule:  "preference/spread-across",
		given: preference("cpu: {spreadOptions: {across: Sockets}}"),
		want:  notSupported("spec.cpu.spreadOptions.across"),
	},
	{
		why:   "three levels",
		rule:  "preference/spread-across",
		given: preference("cpu: {spreadOptions: {across: SocketsCoresThreads}}"),
	},
	{
		why:   "three threads of a core",
		rule:  "preference/spread-threads",
		given: preference("cpu: {spreadOptions: {across: CoresThreads, ratio: 3}}"),
		want:  invalid("spec.cpu.spreadOptions.ratio"),
	},
	{
		why:   "two threads of a core",
		rule:  "preference/spread-threads",
		given: preference("cpu: {spreadOptions: {across: CoresThreads, ratio: 2}}"),
	},
	{
		why:   "threads without a ratio",
		rule:  "preference/spread-threads",
		given: preference("cpu: {spreadOptions: {across: CoresThreads}}"),
	},
	{
		why:   "three cores of a socket",
		rule:  "preference/spread-threads",
		given: preference("cpu: {spreadOptions: {across: SocketsCores, ratio: 3}}"),
	},
	{
		why:    "no threads of a core",
		rule:   "preference/spread-threads",
		given:  preference("cpu: {spreadOptions: {across: CoresThreads, ratio: 0}}"),
		others: []string{"preference/spread-zero"},
	},
	{
		why:   "no domain",
		rule:  "preset/domain",
		given: preset("domain: null"),
		want:  required("spec.domain"),
	},
	{
		why:   "a domain",
		rule:  "preset/domain",
		given: preset("domain: {}"),
	},
	{
		why:    "a kernel of a preset",
		rule:   "preset/domain",
		given:  preset("domain: {firmware: {kernelBoot: {container: {}}}}"),
		others: []string{"firmware/kernel-files", "firmware/kernel-image"},
	},
	{
		why:   "no unit",
		rule:  "instancetype/memory-unit",
		given: instancetype(`memory: {guest: 2048, maxGuest: 999999}`),
		want:  invalid("spec.memory.guest", "spec.memory.maxGuest"),
	},
	{
		why:   "thousandths",
		rule:  "instancetype/memory-unit",
		given: instancetype(`memory: {guest: 100m}`),
		want:  invalid("spec.memory.guest"),
	},
	{
		why:   "a megabyte",
		rule:  "instancetype/memory-unit",
		given: instancetype(`memory: {guest: 1000000}`),
	},
	{
		why:   "devices without the domain of their plugin",
		rule:  "instancetype/device-name",
		given: instancetype("{gpus: [{name: a, deviceName: gpu}], hostDevices: [{name: b, deviceName: card}]}"),
		want:  invalid("spec.gpus[0].deviceName", "spec.hostDevices[0].deviceName"),
	},
	{
		why:   "devices of plugins and of a claim",
		rule:  "instancetype/device-name",
		given: instancetype("{gpus: [{name: a, deviceName: e.org/gpu}], hostDevices: [{name: b, deviceName: e.org/card}, {name: c, claimName: c, requestName: r}]}"),
	},
	{
		why:   "requests that no claim can have",
		rule:  "instancetype/request-form",
		given: instancetype("{gpus: [{name: a, claimName: c, requestName: A_b}], hostDevices: [{name: b, claimName: c, requestName: a/b}]}"),
		want:  invalid("spec.gpus[0].requestName", "spec.hostDevices[0].requestName"),
	},
	{
		why:   "a claim without a request, which the VM's rules judge",
		rule:  "instancetype/request-form",
		given: instancetype("{gpus: [{name: a, claimName: c}]}"),
	},
	{
		why:   "a key with a space",
		rule:  "instancetype/annotations",
		given: instancetype(`annotations: {a b: c}`),
		want:  invalid("spec.annotations[a b]"),
	},
	{
		why:   "more than 256 KiB",
		rule:  "instancetype/annotations",
		given: instancetype(`annotations: {a: "` + strings.Repeat("a", 256<<10) + `"}`),
		want:  tooLong("spec.annotations"),
	},
	{
		why:   "256 KiB",
		rule:  "instancetype/annotations",
		given: instancetype(`annotations: {a: "` + strings.Repeat("a", 256<<10-1) + `"}`),
	},
	{
		why:   "any value",
		rule:  "instancetype/annotations",
		given: instancetype(`annotations: {Example.com/a: b c}`),
	},
	{
		why:   "a value with a space",
		rule:  "instancetype/node-selector",
		given: instancetype(`nodeSelector: {zone: a b}`),
		want:  invalid("spec.nodeSelector[zone]"),
	},
	{
		why:   "a label of nodes",
		rule:  "instancetype/node-selector",
		given: instancetype(`nodeSelector: {zone: a}`),
	},
	{
		why:   "a key with a space",
		rule:  "preference/annotations",
		given: preference(`annotations: {a b: c}`),
		want:  invalid("spec.annotations[a b]"),
	},
	{
		why:   "any value",
		rule:  "preference/annotations",
		given: preference(`annotations: {a: b c}`),
	},
}
