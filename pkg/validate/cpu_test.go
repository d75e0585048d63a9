package validate_test

var cpuCases = []testCase{
	{
		why:   "more sockets than maxSockets",
		rule:  "cpu/sockets",
		given: spec("domain: {cpu: {sockets: 5, maxSockets: 4}}"),
		want:  invalid("spec.domain.cpu.sockets"),
	},
	{
		why:   "as many sockets as maxSockets",
		rule:  "cpu/sockets",
		given: spec("domain: {cpu: {sockets: 4, maxSockets: 4}}"),
	},
	{
		why:   "maxSockets that is not given is no bound",
		rule:  "cpu/sockets",
		given: spec("domain: {cpu: {sockets: 4}}"),
	},
	{
		why:   "one core more than QEMU has vCPUs",
		rule:  "cpu/most",
		given: spec("domain: {cpu: {cores: 4097}}"),
		want:  invalid("spec.domain.cpu.cores"),
	},
	{
		why:   "as many cores as QEMU has vCPUs",
		rule:  "cpu/most",
		given: spec("domain: {cpu: {cores: 4096}}"),
	},
	{
		why:   "threads multiply cores",
		rule:  "cpu/most",
		given: spec("domain: {cpu: {cores: 64, threads: 65}}"),
		want:  invalid("spec.domain.cpu.threads"),
	},
	{
		why:   "threads and cores make exactly the most",
		rule:  "cpu/most",
		given: spec("domain: {cpu: {cores: 64, threads: 64}}"),
	},
	{
		why:   "sockets multiply both, and the first count that is too much is named",
		rule:  "cpu/most",
		given: spec("domain: {cpu: {cores: 2, threads: 2, sockets: 1025}}"),
		want:  invalid("spec.domain.cpu.sockets"),
	},
	{
		why:   "the counts of all three make exactly the most",
		rule:  "cpu/most",
		given: spec("domain: {cpu: {cores: 2, threads: 2, sockets: 1024}}"),
	},
	{
		why:   "sockets to be plugged in count too",
		rule:  "cpu/most",
		given: spec("domain: {cpu: {cores: 4, sockets: 2, maxSockets: 1025}}"),
		want:  invalid("spec.domain.cpu.maxSockets"),
	},
	{
		why:   "sockets to be plugged in take the place of those that there are",
		rule:  "cpu/most",
		given: spec("domain: {cpu: {cores: 4, sockets: 2, maxSockets: 1024}}"),
	},
	{
		why:   "a limit of one CPU more makes too many sockets",
		rule:  "cpu/most",
		given: spec(`domain: {cpu: {sockets: 4097}, resources: {requests: {cpu: "1"}, limits: {cpu: "4097"}}}`),
		want:  invalid("spec.domain.resources.limits.cpu"),
	},
	{
		why:   "a request makes them",
		rule:  "cpu/most",
		given: spec(`domain: {cpu: {sockets: 5000}, resources: {requests: {cpu: 4097}}}`),
		want:  invalid("spec.domain.resources.requests.cpu"),
	},
	{
		why:   "a limit of as many as QEMU has makes no more",
		rule:  "cpu/most",
		given: spec(`domain: {cpu: {sockets: 4097}, resources: {requests: {cpu: "4096"}, limits: {cpu: "4096"}}}`),
		want:  invalid("spec.domain.cpu.sockets"),
	},
	{
		why:   "of too many cores, a limit makes none",
		rule:  "cpu/most",
		given: spec(`domain: {cpu: {cores: 4097}, resources: {limits: {cpu: "5000"}}}`),
		want:  invalid("spec.domain.cpu.cores"),
	},
	{
		why:   "s390x has fewer",
		rule:  "cpu/most",
		given: spec("{architecture: s390x, domain: {cpu: {cores: 249}}}"),
		want:  invalid("spec.domain.cpu.cores"),
	},
	{
		why:   "s390x has 248",
		rule:  "cpu/most",
		given: spec("{architecture: s390x, domain: {cpu: {cores: 248}}}"),
	},
	{
		why:   "a feature without a name",
		rule:  "cpu/feature-name",
		given: spec(`domain: {cpu: {features: [{name: "", policy: require}]}}`),
		want:  required("spec.domain.cpu.features[0].name"),
	},
	{
		why:   "a feature with a name",
		rule:  "cpu/feature-name",
		given: spec("domain: {cpu: {features: [{name: vmx}]}}"),
	},
	{
		why:   "a feature named again",
		rule:  "cpu/feature-twice",
		given: spec("domain: {cpu: {features: [{name: vmx}, {name: aes}, {name: vmx}]}}"),
		want:  duplicate("spec.domain.cpu.features[2].name"),
	},
	{
		why:   "two features",
		rule:  "cpu/feature-twice",
		given: spec("domain: {cpu: {features: [{name: vmx}, {name: aes}]}}"),
	},
	{
		why:   "a policy that libvirt does not have",
		rule:  "cpu/feature-policy",
		given: spec("domain: {cpu: {features: [{name: vmx, policy: enable}]}}"),
		want:  notSupported("spec.domain.cpu.features[0].policy"),
	},
	{
		why:  "every policy of libvirt",
		rule: "cpu/feature-policy",
		given: spec(`
domain:
  cpu:
    features:
    - {name: a, policy: force}
    - {name: b, policy: require}
    - {name: c, policy: optional}
    - {name: d, policy: disable}
    - {name: e, policy: forbid}
`),
	},
	{
		why:   "a named model on arm64",
		rule:  "cpu/model-arm64",
		given: spec("{architecture: arm64, domain: {cpu: {model: cortex-a57}}}"),
		want:  notSupported("spec.domain.cpu.model"),
	},
	{
		why:   "the host's CPU on arm64",
		rule:  "cpu/model-arm64",
		given: spec("{architecture: arm64, domain: {cpu: {model: host-passthrough}}}"),
	},
	{
		why:   "no model on arm64",
		rule:  "cpu/model-arm64",
		given: spec("{architecture: arm64, domain: {cpu: {cores: 1}}}"),
	},
	{
		why:   "a named model on amd64",
		rule:  "cpu/model-arm64",
		given: spec("domain: {cpu: {model: Skylake-Server}}"),
	},
	{
		why:   "an isolated emulator thread without dedicated CPUs",
		rule:  "cpu/isolated-emulator",
		given: spec("domain: {cpu: {isolateEmulatorThread: true}}"),
		want:  invalid("spec.domain.cpu.isolateEmulatorThread"),
	},
	{
		why:   "an isolated emulator thread beside dedicated CPUs",
		rule:  "cpu/isolated-emulator",
		given: spec("domain: {cpu: {cores: 1, dedicatedCpuPlacement: true, isolateEmulatorThread: true}}"),
	},
}
