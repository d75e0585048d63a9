package validate_test

var memoryGrowthCases = []testCase{
	{
		why:  "half a page",
		rule: "memory/numa-pages",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 1025Mi, hugepages: {pageSize: 2Mi}}
`),
		want: invalid("spec.domain.memory.guest"),
	},
	{
		why:  "whole pages",
		rule: "memory/numa-pages",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 1024Mi, hugepages: {pageSize: 2Mi}}
`),
	},
	{
		why:  "pages of no size are refused as such alone",
		rule: "memory/numa-pages",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 1024Mi, hugepages: {pageSize: "0"}}
`),
		others: []string{"memory/page-size"},
	},
	{
		why:  "memory that the request says",
		rule: "memory/numa-pages",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {guest: null, hugepages: {pageSize: 2Mi}}
`),
	},
	{
		why:  "a ceiling above the memory",
		rule: "memory/numa-growth",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 1Gi, maxGuest: 2Gi, hugepages: {pageSize: 2Mi}}
`),
		want: forbidden("spec.domain.memory.maxGuest"),
	},
	{
		why:  "a ceiling that is no room",
		rule: "memory/numa-growth",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 1Gi, maxGuest: 1Gi, hugepages: {pageSize: 2Mi}}
`),
	},
	{
		why:   "a ceiling without the host's NUMA nodes",
		rule:  "memory/numa-growth",
		given: spec("domain: {memory: {guest: 1Gi, maxGuest: 2Gi, hugepages: {pageSize: 2Mi}}}"),
	},
	{
		why:    "a ceiling without memory",
		rule:   "memory/growth-guest",
		given:  growing("domain: {memory: {guest: null, maxGuest: 2Gi}, resources: {requests: {memory: 1Gi}}}"),
		limits: liveUpdate,
		want:   required("spec.domain.memory.guest"),
	},
	{
		why:    "a ceiling above memory",
		rule:   "memory/growth-guest",
		given:  growing("domain: {memory: {guest: 1Gi, maxGuest: 2Gi}}"),
		limits: liveUpdate,
	},
	{
		why:    "nothing grows where changes wait for the next start",
		rule:   "memory/growth-guest",
		given:  growing("domain: {memory: {guest: null, maxGuest: 2Gi}, resources: {requests: {memory: 1Gi}}}"),
		limits: staged,
	},
	{
		why:    "a realtime guest",
		rule:   "memory/growth",
		given:  growing("domain: {cpu: {realtime: {}}, memory: {guest: 1Gi, maxGuest: 2Gi}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "the host's NUMA nodes",
		rule:   "memory/growth",
		given:  growing("domain: {cpu: {numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi, maxGuest: 2Gi}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "a guest with CPUs that are neither",
		rule:   "memory/growth",
		given:  growing("domain: {cpu: {cores: 1}, memory: {guest: 1Gi, maxGuest: 2Gi}}"),
		limits: liveUpdate,
	},
	{
		why:    "an encrypted guest",
		rule:   "memory/growth",
		given:  growing("domain: {launchSecurity: {snp: {}}, memory: {guest: 1Gi, maxGuest: 2Gi}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "memory of odd MiB",
		rule:   "memory/growth",
		given:  growing("domain: {memory: {guest: 1025Mi, maxGuest: 2Gi}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "memory of even MiB",
		rule:   "memory/growth",
		given:  growing("domain: {memory: {guest: 1026Mi, maxGuest: 2Gi}}"),
		limits: liveUpdate,
	},
	{
		why:    "a ceiling of odd MiB",
		rule:   "memory/growth",
		given:  growing("domain: {memory: {guest: 1Gi, maxGuest: 2049Mi}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "with pages of 1Gi memory is plugged by the GiB",
		rule:   "memory/growth",
		given:  growing("domain: {memory: {guest: 1Gi, maxGuest: 3074Mi, hugepages: {pageSize: 1Gi}}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "whole GiB with pages of 1Gi",
		rule:   "memory/growth",
		given:  growing("domain: {memory: {guest: 1Gi, maxGuest: 3Gi, hugepages: {pageSize: 1Gi}}}"),
		limits: liveUpdate,
	},
	{
		why:    "arm64",
		rule:   "memory/growth",
		given:  growing("{architecture: arm64, domain: {memory: {guest: 1Gi, maxGuest: 2Gi}}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "less memory than Linux needs below its first devices",
		rule:   "memory/growth",
		given:  growing("domain: {memory: {guest: 1022Mi, maxGuest: 2Gi}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "a ceiling below the memory is refused as such alone",
		rule:   "memory/growth",
		given:  growing("domain: {memory: {guest: 1026Mi, maxGuest: 1025Mi}}"),
		limits: liveUpdate,
		others: []string{"memory/guest-max"},
	},
	{
		why:    "a ceiling that is no room must be one that could grow",
		rule:   "memory/growth",
		given:  growing("domain: {memory: {guest: 1025Mi, maxGuest: 1025Mi}}"),
		limits: liveUpdate,
		want:   invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:    "no ceiling",
		rule:   "memory/growth",
		given:  growing("{architecture: arm64, domain: {memory: {guest: 1Gi}}}"),
		limits: liveUpdate,
	},
	{
		why:    "no memory at all",
		rule:   "memory/growth",
		given:  growing("domain: {memory: null, resources: {requests: {memory: 1Gi}}}"),
		limits: liveUpdate,
	},
}
