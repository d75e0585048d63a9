package validate_test

var resourcesCases = []testCase{
	{
		why:   "a negative request of memory",
		rule:  "resources/request-negative",
		given: spec(`domain: {resources: {requests: {memory: "-1"}}}`),
		want:  invalid("spec.domain.resources.requests.memory"),
	},
	{
		why:   "a negative request of CPUs",
		rule:  "resources/request-negative",
		given: spec("domain: {resources: {requests: {cpu: -1m}}}"),
		want:  invalid("spec.domain.resources.requests.cpu"),
	},
	{
		why:   "a negative request of storage",
		rule:  "resources/request-negative",
		given: spec(`domain: {resources: {requests: {ephemeral-storage: '-1'}}}`),
		want:  invalid("spec.domain.resources.requests[ephemeral-storage]"),
	},
	{
		why:   "a request of no storage",
		rule:  "resources/request-negative",
		given: spec(`domain: {resources: {requests: {ephemeral-storage: '0'}}}`),
	},
	{
		why:   "a negative limit of storage",
		rule:  "resources/limit-negative",
		given: spec(`domain: {resources: {limits: {ephemeral-storage: '-1'}}}`),
		want:  invalid("spec.domain.resources.limits[ephemeral-storage]"),
	},
	{
		why:   "a limit of no storage",
		rule:  "resources/limit-negative",
		given: spec(`domain: {resources: {limits: {ephemeral-storage: '0'}}}`),
	},
	{
		why:   "more storage than the limit",
		rule:  "resources/request-over-limit",
		given: spec(`domain: {resources: {requests: {ephemeral-storage: 2Gi}, limits: {ephemeral-storage: 1Gi}}}`),
		want:  invalid("spec.domain.resources.requests[ephemeral-storage]"),
	},
	{
		why:   "a limit of 0 bounds nothing",
		rule:  "resources/request-over-limit",
		given: spec(`domain: {resources: {requests: {ephemeral-storage: 2Gi}, limits: {ephemeral-storage: '0'}}}`),
	},
	{
		why:   "requests of none",
		rule:  "resources/request-negative",
		given: spec(`domain: {resources: {requests: {memory: "0", cpu: "0"}}}`),
	},
	{
		why:   "a negative limit of memory",
		rule:  "resources/limit-negative",
		given: spec(`domain: {resources: {limits: {memory: "-1"}}}`),
		want:  invalid("spec.domain.resources.limits.memory"),
	},
	{
		why:   "a negative limit of CPUs",
		rule:  "resources/limit-negative",
		given: spec("domain: {resources: {limits: {cpu: -1m}}}"),
		want:  invalid("spec.domain.resources.limits.cpu"),
	},
	{
		why:   "limits of none are no limits",
		rule:  "resources/limit-negative",
		given: spec(`domain: {resources: {requests: {memory: 1Gi, cpu: "1"}, limits: {memory: "0", cpu: "0"}}}`),
	},
	{
		why:   "more CPUs requested than allowed",
		rule:  "resources/request-over-limit",
		given: spec(`domain: {resources: {requests: {cpu: 1001m}, limits: {cpu: "1"}}}`),
		want:  invalid("spec.domain.resources.requests.cpu"),
	},
	{
		why:   "more memory requested than allowed",
		rule:  "resources/request-over-limit",
		given: spec("domain: {resources: {requests: {memory: 1025Mi}, limits: {memory: 1Gi}}}"),
		want:  invalid("spec.domain.resources.requests.memory"),
	},
	{
		why:   "as much requested as allowed",
		rule:  "resources/request-over-limit",
		given: spec(`domain: {resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}}`),
	},
	{
		why:    "a negative limit is refused as such alone",
		rule:   "resources/request-over-limit",
		given:  spec(`domain: {resources: {requests: {cpu: "1"}, limits: {cpu: "-1"}}}`),
		others: []string{"resources/limit-negative"},
	},
	{
		why:   "a request below one megabyte",
		rule:  "resources/memory-unit",
		given: spec(`domain: {resources: {requests: {memory: "999999"}}}`),
		want:  invalid("spec.domain.resources.requests.memory"),
	},
	{
		why:   "a request of one megabyte",
		rule:  "resources/memory-unit",
		given: spec("domain: {resources: {requests: {memory: 1M}}}"),
	},
	{
		why:   "a request of none",
		rule:  "resources/memory-unit",
		given: spec(`domain: {resources: {requests: {memory: "0"}}}`),
	},
	{
		why:   "less requested than a huge page",
		rule:  "resources/page-size",
		given: spec("domain: {memory: {hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 2047Ki}}}"),
		want:  invalid("spec.domain.resources.requests.memory"),
	},
	{
		why:   "one huge page requested",
		rule:  "resources/page-size",
		given: spec("domain: {memory: {hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 2Mi}}}"),
	},
	{
		why:   "less memory than a huge page, where nothing is requested",
		rule:  "resources/page-size",
		given: spec("domain: {memory: {guest: 1Mi, hugepages: {pageSize: 2Mi}}}"),
		want:  invalid("spec.domain.memory.guest"),
	},
	{
		why:   "a lower limit than a huge page, where nothing else is said",
		rule:  "resources/page-size",
		given: spec("domain: {memory: {guest: null, hugepages: {pageSize: 2Mi}}, resources: {limits: {memory: 1Mi}}}"),
		want:  invalid("spec.domain.resources.limits.memory"),
	},
	{
		why:   "nothing is said",
		rule:  "resources/page-size",
		given: spec("domain: {memory: {guest: null, hugepages: {pageSize: 2Mi}}}"),
	},
	{
		why:   "the request counts, not the guest's memory",
		rule:  "resources/page-size",
		given: spec("domain: {memory: {guest: 3Mi, hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 4Mi}}}"),
	},
	{
		why:    "memory of none is refused as such alone",
		rule:   "resources/page-size",
		given:  spec(`domain: {memory: {guest: "0", hugepages: {pageSize: 2Mi}}}`),
		others: []string{"memory/guest"},
	},
	{
		why:    "pages of no size are refused as such alone",
		rule:   "resources/page-size",
		given:  spec("domain: {memory: {hugepages: {pageSize: many}}}"),
		others: []string{"memory/page-size"},
	},
	{
		why:    "pages of a negative size are refused as such alone",
		rule:   "resources/page-size",
		given:  spec("domain: {memory: {hugepages: {pageSize: -2Mi}}}"),
		others: []string{"memory/page-size"},
	},
	{
		why:   "half a huge page too much",
		rule:  "resources/page-multiple",
		given: spec("domain: {memory: {guest: 3Mi, hugepages: {pageSize: 2Mi}}}"),
		want:  invalid("spec.domain.memory.guest"),
	},
	{
		why:   "two huge pages",
		rule:  "resources/page-multiple",
		given: spec("domain: {memory: {guest: 4Mi, hugepages: {pageSize: 2Mi}}}"),
	},
	{
		why:   "half a CPU requested",
		rule:  "resources/dedicated-whole",
		given: spec("domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 1500m}}}"),
		want:  invalid("spec.domain.resources.requests.cpu"),
	},
	{
		why:   "half a CPU allowed",
		rule:  "resources/dedicated-whole",
		given: spec("domain: {cpu: {dedicatedCpuPlacement: true}, resources: {limits: {cpu: 1500m}}}"),
		want:  invalid("spec.domain.resources.limits.cpu"),
	},
	{
		why:   "whole CPUs",
		rule:  "resources/dedicated-whole",
		given: spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 2000m}, limits: {cpu: "2"}}}`),
	},
	{
		why:   "half a CPU without dedicated ones",
		rule:  "resources/dedicated-whole",
		given: spec("domain: {resources: {requests: {cpu: 1500m}}}"),
	},
	{
		why:  "less requested than allowed",
		rule: "resources/dedicated-memory-equal",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true}
  resources: {requests: {memory: 1Gi}, limits: {memory: 2Gi}}
`),
		want: invalid("spec.domain.resources.requests.memory"),
	},
	{
		why:  "as much requested as allowed",
		rule: "resources/dedicated-memory-equal",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true}
  resources: {requests: {memory: 1Gi}, limits: {memory: 1024Mi}}
`),
	},
	{
		why:  "no limit",
		rule: "resources/dedicated-memory-equal",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true}
  resources: {requests: {memory: 1Gi}, limits: {memory: "0"}}
`),
	},
	{
		why:  "no request",
		rule: "resources/dedicated-memory-equal",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true}
  resources: {requests: {memory: "0"}, limits: {memory: 1Gi}}
`),
	},
	{
		why:   "a limit below one megabyte, and the request that is made from it",
		rule:  "resources/memory-unit",
		given: spec(`domain: {memory: {guest: 64}, resources: {requests: {memory: 64}, limits: {memory: 64}}}`),
		want:  invalid("spec.domain.resources.limits.memory"),
	},
	{
		why:   "a request that is made from a limit of a fraction is no second mistake",
		rule:  "resources/dedicated-whole",
		given: spec(`domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 1500m}, limits: {cpu: 1500m}}}`),
		want:  invalid("spec.domain.resources.limits.cpu"),
	},
	{
		why:    "a request that is made from a negative limit is no second mistake",
		rule:   "resources/request-negative",
		given:  spec(`domain: {resources: {requests: {cpu: -1}, limits: {cpu: -1}}}`),
		others: []string{"resources/limit-negative"},
	},
}
