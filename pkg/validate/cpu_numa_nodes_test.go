package validate_test

var cpuNUMANodesCases = []testCase{
	{
		why:   "s390x has no NUMA nodes",
		rule:  "cpu/numa-nodes-architecture",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "1"}}, spec: {architecture: s390x}}`),
		want:  forbidden("metadata.annotations[kilnvm.io/numa-cells]"),
	},
	{
		why:   "arm64 has",
		rule:  "cpu/numa-nodes-architecture",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "1"}}, spec: {architecture: arm64}}`),
	},
	{
		why:   "s390x without the annotation",
		rule:  "cpu/numa-nodes-architecture",
		given: vmi("{spec: {architecture: s390x}}"),
	},
	{
		why:  "its own NUMA nodes, and the NUMA nodes of the host",
		rule: "cpu/numa-nodes-mirrored",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "1"}}
spec:
  domain:
    cpu: {numa: {guestMappingPassthrough: {}}}
`),
		want: forbidden("metadata.annotations[kilnvm.io/numa-cells]"),
	},
	{
		why:   "nodes of its own alone",
		rule:  "cpu/numa-nodes-mirrored",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "1"}}, spec: {domain: {cpu: {numa: {}}}}}`),
	},
	{
		why:   "no node",
		rule:  "cpu/numa-nodes-number",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "0"}}}`),
		want:  invalid("metadata.annotations[kilnvm.io/numa-cells]"),
	},
	{
		why:   "one node",
		rule:  "cpu/numa-nodes-number",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "1"}}}`),
	},
	{
		why:   "65 nodes",
		rule:  "cpu/numa-nodes-number",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "65"}}, spec: {domain: {cpu: {sockets: 65}}}}`),
		want:  invalid("metadata.annotations[kilnvm.io/numa-cells]"),
	},
	{
		why:   "64 nodes",
		rule:  "cpu/numa-nodes-number",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "64"}}, spec: {domain: {cpu: {sockets: 64}}}}`),
	},
	{
		why:   "a number that is written otherwise",
		rule:  "cpu/numa-nodes-number",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "02"}}}`),
		want:  invalid("metadata.annotations[kilnvm.io/numa-cells]"),
	},
	{
		why:   "three sockets on two nodes",
		rule:  "cpu/numa-nodes-sockets",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "2"}}, spec: {domain: {cpu: {sockets: 3}}}}`),
		want:  invalid("metadata.annotations[kilnvm.io/numa-cells]"),
	},
	{
		why:   "four sockets on two nodes",
		rule:  "cpu/numa-nodes-sockets",
		given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "2"}}, spec: {domain: {cpu: {sockets: 4}}}}`),
	},
	{
		why:  "less than a MiB for each node",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec: {domain: {cpu: {sockets: 2}, memory: {guest: 1Mi}}}
`),
		want: invalid("spec.domain.memory.guest"),
	},
	{
		why:  "a MiB for each node",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec: {domain: {cpu: {sockets: 2}, memory: {guest: 2Mi}}}
`),
	},
	{
		why:  "what is left over of a MiB is no matter without huge pages",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec: {domain: {cpu: {sockets: 2}, memory: {guest: 2049Ki}}}
`),
	},
	{
		why:  "half a huge page",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec:
  domain: {cpu: {sockets: 2}, memory: {guest: 5Mi, hugepages: {pageSize: 2Mi}}}
`),
		want: invalid("spec.domain.memory.guest"),
	},
	{
		why:  "one huge page for two nodes",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec:
  domain: {cpu: {sockets: 2}, memory: {guest: 2Mi, hugepages: {pageSize: 2Mi}}}
`),
		want: invalid("spec.domain.memory.guest"),
	},
	{
		why:  "a huge page for each node",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec:
  domain: {cpu: {sockets: 2}, memory: {guest: 4Mi, hugepages: {pageSize: 2Mi}}}
`),
	},
	{
		why:  "pages of no size are refused as such alone",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec:
  domain: {cpu: {sockets: 2}, memory: {guest: 4Mi, hugepages: {pageSize: many}}}
`),
		others: []string{"memory/page-size"},
	},
	{
		why:  "memory that is not given",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec:
  domain: {cpu: {sockets: 2}, memory: {guest: null}, resources: {requests: {memory: 1Gi}}}
`),
	},
	{
		why:  "memory that is said by the request alone",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec:
  domain: {cpu: {sockets: 2}, memory: null, resources: {requests: {memory: 1Gi}}}
`),
	},
	{
		why:  "no memory is refused as such alone",
		rule: "memory/numa-nodes",
		given: vmi(`
metadata: {annotations: {kilnvm.io/numa-cells: "2"}}
spec: {domain: {cpu: {sockets: 2}, memory: {guest: "0"}}}
`),
		others: []string{"memory/guest"},
	},
}
