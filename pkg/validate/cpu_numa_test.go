package validate_test

var cpuNUMACases = []testCase{
	{
		why:   "the host's NUMA nodes without dedicated CPUs",
		rule:  "cpu/numa-dedicated",
		given: spec("domain: {cpu: {numa: {guestMappingPassthrough: {}}}, memory: {hugepages: {pageSize: 2Mi}}}"),
		want:  invalid("spec.domain.cpu.numa.guestMappingPassthrough"),
	},
	{
		why:   "dedicated CPUs on no node in particular",
		rule:  "cpu/numa-dedicated",
		given: spec("domain: {cpu: {numa: {}}}"),
	},
	{
		why:  "the host's NUMA nodes with dedicated CPUs",
		rule: "cpu/numa-dedicated",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {hugepages: {pageSize: 2Mi}}
`),
	},
	{
		why:   "the host's NUMA nodes without huge pages",
		rule:  "cpu/numa-hugepages",
		given: spec("domain: {cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}}"),
		want:  invalid("spec.domain.cpu.numa.guestMappingPassthrough"),
	},
	{
		why:   "the host's NUMA nodes without any word on memory",
		rule:  "cpu/numa-hugepages",
		given: spec("domain: {cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, memory: null}"),
		want:  invalid("spec.domain.cpu.numa.guestMappingPassthrough"),
	},
	{
		why:  "the host's NUMA nodes with huge pages",
		rule: "cpu/numa-hugepages",
		given: spec(`
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {hugepages: {pageSize: 1Gi}}
`),
	},
	{
		why:   "realtime without dedicated CPUs",
		rule:  "cpu/realtime-dedicated",
		given: spec("domain: {cpu: {realtime: {}, numa: {guestMappingPassthrough: {}}}, memory: {hugepages: {pageSize: 2Mi}}}"),
		want:  required("spec.domain.cpu.dedicatedCpuPlacement"),
	},
	{
		why:  "realtime with all that it needs",
		rule: "cpu/realtime-dedicated",
		given: spec(`
domain:
  cpu: {cores: 1, realtime: {}, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {hugepages: {pageSize: 2Mi}}
`),
	},
	{
		why:   "realtime without the host's NUMA nodes, at the field that is not there",
		rule:  "cpu/realtime-numa",
		given: spec("domain: {cpu: {cores: 1, realtime: {}, dedicatedCpuPlacement: true}}"),
		want:  required("spec.domain.cpu.numa"),
	},
	{
		why:   "realtime with an empty numa, at the field in it",
		rule:  "cpu/realtime-numa",
		given: spec("domain: {cpu: {cores: 1, realtime: {}, dedicatedCpuPlacement: true, numa: {}}}"),
		want:  required("spec.domain.cpu.numa.guestMappingPassthrough"),
	},
	{
		why:  "realtime on the host's NUMA nodes",
		rule: "cpu/realtime-numa",
		given: spec(`
domain:
  cpu: {cores: 1, realtime: {}, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {hugepages: {pageSize: 2Mi}}
`),
	},
	{
		why:  "a mask that ends in a comma",
		rule: "cpu/realtime-mask",
		given: spec(`
domain:
  cpu:
    cores: 4
    realtime: {mask: "0-3,"}
    dedicatedCpuPlacement: true
    numa: {guestMappingPassthrough: {}}
  memory: {hugepages: {pageSize: 2Mi}}
`),
		want: invalid("spec.domain.cpu.realtime.mask"),
	},
	{
		why:  "a mask of words",
		rule: "cpu/realtime-mask",
		given: spec(`
domain:
  cpu:
    cores: 4
    realtime: {mask: all}
    dedicatedCpuPlacement: true
    numa: {guestMappingPassthrough: {}}
  memory: {hugepages: {pageSize: 2Mi}}
`),
		want: invalid("spec.domain.cpu.realtime.mask"),
	},
	{
		why:  "a range and an exception",
		rule: "cpu/realtime-mask",
		given: spec(`
domain:
  cpu:
    cores: 4
    realtime: {mask: "0-3,^1"}
    dedicatedCpuPlacement: true
    numa: {guestMappingPassthrough: {}}
  memory: {hugepages: {pageSize: 2Mi}}
`),
	},
}
