package validate_test

var cpuDedicatedCases = []testCase{
	{
		why:   "dedicated CPUs without a number",
		rule:  "cpu/dedicated-count",
		given: spec("domain: {cpu: {dedicatedCpuPlacement: true}}"),
		want:  invalid("spec.domain.cpu.dedicatedCpuPlacement"),
	},
	{
		why:   "the number is given as cores",
		rule:  "cpu/dedicated-count",
		given: spec("domain: {cpu: {cores: 1, dedicatedCpuPlacement: true}}"),
	},
	{
		why:   "the number is given as threads",
		rule:  "cpu/dedicated-count",
		given: spec("domain: {cpu: {threads: 1, dedicatedCpuPlacement: true}}"),
	},
	{
		why:   "the number is given as sockets",
		rule:  "cpu/dedicated-count",
		given: spec("domain: {cpu: {sockets: 1, dedicatedCpuPlacement: true}}"),
	},
	{
		why:   "the number is given as a request",
		rule:  "cpu/dedicated-count",
		given: spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: "2"}}}`),
	},
	{
		why:   "the number is given as a limit",
		rule:  "cpu/dedicated-count",
		given: spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {limits: {cpu: "2"}}}`),
	},
	{
		why:   "request and limit differ",
		rule:  "cpu/dedicated-equal",
		given: spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: "2"}, limits: {cpu: "3"}}}`),
		want:  invalid("spec.domain.cpu.dedicatedCpuPlacement"),
	},
	{
		why:   "request and limit are equal",
		rule:  "cpu/dedicated-equal",
		given: spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: "2"}, limits: {cpu: "2"}}}`),
	},
	{
		why:   "a limit of none is no limit",
		rule:  "cpu/dedicated-equal",
		given: spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: "2"}, limits: {cpu: "0"}}}`),
	},
	{
		why:   "a request of none is no request",
		rule:  "cpu/dedicated-equal",
		given: spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: "0"}, limits: {cpu: "2"}}}`),
	},
	{
		why:    "a negative limit is refused as such alone",
		rule:   "cpu/dedicated-equal",
		given:  spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: "2"}, limits: {cpu: "-1"}}}`),
		others: []string{"resources/limit-negative"},
	},
	{
		why:   "topology and request say different numbers",
		rule:  "cpu/dedicated-one-count",
		given: spec(`domain: {cpu: {cores: 4, dedicatedCpuPlacement: true}, resources: {requests: {cpu: "2"}}}`),
		want:  invalid("spec.domain.cpu.dedicatedCpuPlacement"),
	},
	{
		why:   "topology and limit say different numbers",
		rule:  "cpu/dedicated-one-count",
		given: spec(`domain: {cpu: {cores: 4, dedicatedCpuPlacement: true}, resources: {limits: {cpu: "2"}}}`),
		want:  invalid("spec.domain.cpu.dedicatedCpuPlacement"),
	},
	{
		why:  "topology and request say the same",
		rule: "cpu/dedicated-one-count",
		given: spec(`
domain:
  cpu: {cores: 2, threads: 2, sockets: 3, dedicatedCpuPlacement: true}
  resources: {requests: {cpu: "12"}}
`),
	},
	{
		why:   "topology and limit say the same",
		rule:  "cpu/dedicated-one-count",
		given: spec(`domain: {cpu: {cores: 4, dedicatedCpuPlacement: true}, resources: {limits: {cpu: "4"}}}`),
	},
	{
		why:   "nothing is said beside the topology",
		rule:  "cpu/dedicated-one-count",
		given: spec(`domain: {cpu: {cores: 4, dedicatedCpuPlacement: true}, resources: {requests: {cpu: "0"}}}`),
	},
	{
		why:   "three threads a core",
		rule:  "cpu/dedicated-threads",
		given: spec("domain: {cpu: {threads: 3, dedicatedCpuPlacement: true}}"),
		want:  invalid("spec.domain.cpu.dedicatedCpuPlacement"),
	},
	{
		why:   "two threads a core",
		rule:  "cpu/dedicated-threads",
		given: spec("domain: {cpu: {threads: 2, dedicatedCpuPlacement: true}}"),
	},
	{
		why:   "three threads a core without dedicated CPUs",
		rule:  "cpu/dedicated-threads",
		given: spec("domain: {cpu: {threads: 3}}"),
	},
	{
		why:   "two threads a core on arm64",
		rule:  "cpu/dedicated-threads-arm64",
		given: spec("{architecture: arm64, domain: {cpu: {threads: 2, dedicatedCpuPlacement: true}}}"),
		want:  invalid("spec.architecture"),
	},
	{
		why:   "one thread a core on arm64",
		rule:  "cpu/dedicated-threads-arm64",
		given: spec("{architecture: arm64, domain: {cpu: {threads: 1, dedicatedCpuPlacement: true}}}"),
	},
}
