package catalog

var labelCases = []lintCase{
	{"another number of CPUs", "label/value", []string{changed(small, `"2"`, `"4"`), linux}, []string{small, linux},
		"metadata.labels[instancetype.kubevirt.io/cpu]", []string{"is '4'", "has '2'", `write instancetype.kubevirt.io/cpu: "2"`}},
	{"another amount", "label/value", []string{changed(small, "memory: 4Gi}", "memory: 4G}"), linux}, []string{changed(small, "memory: 4Gi}",
		"memory: 4096Mi}"), linux},
		"metadata.labels[instancetype.kubevirt.io/memory]", []string{"is '4G'"}},
	{"no amount", "label/value", []string{changed(small, "memory: 4Gi}", "memory: NaN}"), linux}, []string{small, linux},
		"metadata.labels[instancetype.kubevirt.io/memory]", []string{"is 'NaN'"}},
	{"nothing of it", "label/value", []string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/numa: "true", `), linux},
		[]string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/numa: "false", `), linux},
		"metadata.labels[instancetype.kubevirt.io/numa]", []string{"nothing of it", "remove the label"}},
	{"number of GPUs", "label/value",
		[]string{changed(gpu, `gpus: "2"`, `gpus: "1"`), linux}, []string{changed(gpu, `gpus: "2"`, `gpus: "true"`), linux},
		"metadata.labels[instancetype.kubevirt.io/gpus]", []string{"has '2'"}},
	{"architecture of the requirement", "label/value", []string{small, changed(arm, "arch: arm64,", "arch: amd64,")}, []string{small, arm},
		"metadata.labels[instancetype.kubevirt.io/arch]", []string{"spec.requirements.architecture is 'arm64'"}},
	{"CPUs", "label/missing", []string{changed(small, `instancetype.kubevirt.io/cpu: "2", `, ""), linux}, []string{small, linux}, "metadata.labels",
		[]string{`instancetype.kubevirt.io/cpu: "2"`}},
	{"all that the spec has", "label/missing", []string{bareReal, pinned}, []string{real, pinned}, "metadata.labels",
		[]string{`cpu: "2"`, `memory: "4Gi"`, `hugepages: "1Gi"`, `numa: "true"`, `dedicatedCPUPlacement: "true"`, `isolateEmulatorThread: "true"`,
			`realtime: "true"`}},
	{"misspelt", "label/unknown", []string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/klass: general, `), linux},
		[]string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/class: general, `), linux},
		"metadata.labels[instancetype.kubevirt.io/klass]", []string{"did you mean 'instancetype.kubevirt.io/class'?"}},
	{"misspelt annotation", "label/unknown", []string{small, changed(linux, "linux}", "linux, annotations: {instancetype.kubevirt.io/display: x}}")},
		[]string{small, changed(linux, "linux}", "linux, annotations: {instancetype.kubevirt.io/displayName: x}}")},
		"metadata.annotations[instancetype.kubevirt.io/display]", []string{"no key of the contract"}},
	{"of the other kind", "label/misplaced", []string{small, changed(linux, "linux}", `linux, labels: {instancetype.kubevirt.io/class: x}}`)},
		[]string{small, changed(linux, "linux}", `linux, labels: {example.com/class: x}}`)}, "metadata.labels[instancetype.kubevirt.io/class]",
		[]string{"only on instancetypes"}},
	{"of volumes", "label/misplaced", []string{changed(small, "labels: {", "labels: {instancetype.kubevirt.io/default-preference: linux, "), linux},
		[]string{small, linux},
		"metadata.labels[instancetype.kubevirt.io/default-preference]", []string{"only on volumes"}},
	{"an annotation as a label", "label/misplaced", []string{changed(small, "labels: {", "labels: {instancetype.kubevirt.io/displayName: Small, "), linux},
		[]string{changed(small, "labels:", "annotations: {instancetype.kubevirt.io/displayName: Small}, labels:"), linux},
		"metadata.labels[instancetype.kubevirt.io/displayName]", []string{"make it an annotation"}},
	{"a label as an annotation", "label/misplaced", []string{changed(small, "labels:", `annotations: {instancetype.kubevirt.io/class: x}, labels:`), linux},
		[]string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/class: x, `), linux},
		"metadata.annotations[instancetype.kubevirt.io/class]", []string{"make it a label"}},
	{"another version", "label/name", []string{changed(sized, `version: "1"`, `version: "2"`), linux}, []string{sized, linux},
		"metadata.labels[instancetype.kubevirt.io/version]", []string{"is '2'", "says '1'"}},
	{"another size", "label/name", []string{changed(sized, `size: medium`, `size: large`), linux}, []string{changed(sized, "name: u1.medium",
		"name: u-medium"), linux},
		"metadata.labels[instancetype.kubevirt.io/size]", []string{"is 'large'", "says 'medium'"}},
	{"nobody's system", "label/os-type", []string{small, changed(linux, "linux}", "linux, labels: {instancetype.kubevirt.io/os-type: Linux}}")},
		[]string{small, changed(linux, "linux}", "linux, labels: {instancetype.kubevirt.io/os-type: linux}}")}, "metadata.labels[instancetype.kubevirt.io/os-type]",
		[]string{"is 'Linux'"}},
	{"another system inside", "label/os-type", []string{small, changed(windows, "os-type: windows", "os-type: legacy")}, []string{small, windows},
		"metadata.labels[instancetype.kubevirt.io/os-type]", []string{"is 'legacy'", "windows"}},
	{"in the label alone", "label/architecture", []string{small, changed(linux, "linux}", "linux, labels: {instancetype.kubevirt.io/arch: arm64}}")},
		[]string{small, arm}, "metadata.labels[instancetype.kubevirt.io/arch]", []string{"gets the architecture of its cluster"}},
	{"no words at all", "label/description", []string{small, described}, []string{changed(described, "kind: p", "kind: p"), whatFor}, "metadata",
		[]string{"label 'instancetype.kubevirt.io/vendor'", "annotation 'instancetype.kubevirt.io/description'"}},
	{"empty words", "label/description", []string{changed(whatFor, "description: For", "description: ' ' #"), described}, []string{whatFor, described}, "metadata",
		[]string{"missing or empty: annotation 'instancetype.kubevirt.io/description'"}},
}

const (
	gpu = `
metadata: {name: gpu, labels: {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi, instancetype.kubevirt.io/gpus: "2"}}
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}, gpus: [{name: a, deviceName: example.com/gpu}, {name: b, deviceName: example.com/gpu}]}`
	arm = `
kind: p
metadata: {name: arm, labels: {instancetype.kubevirt.io/arch: arm64, instancetype.kubevirt.io/required-architecture: arm64}}
spec: {requirements: {architecture: arm64}}`
	pinned = `
kind: p
metadata: {name: pinned}
spec: {cpu: {preferredCPUTopology: cores}}`
	bareReal = `
metadata: {name: real}
spec:
  cpu: {guest: 2, dedicatedCPUPlacement: true, isolateEmulatorThread: true, realtime: {}, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 4Gi, hugepages: {pageSize: 1Gi}}`
	real = `
metadata:
  name: real
  labels:
    instancetype.kubevirt.io/cpu: "2"
    instancetype.kubevirt.io/memory: 4Gi
    instancetype.kubevirt.io/hugepages: 1024Mi
    instancetype.kubevirt.io/numa: "true"
    instancetype.kubevirt.io/dedicatedCPUPlacement: "true"
    instancetype.kubevirt.io/isolateEmulatorThread: "true"
    instancetype.kubevirt.io/realtime: "true"
spec:
  cpu: {guest: 2, dedicatedCPUPlacement: true, isolateEmulatorThread: true, realtime: {}, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 4Gi, hugepages: {pageSize: 1Gi}}`
	sized = `
metadata:
  name: u1.medium
  labels:
    {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi, instancetype.kubevirt.io/version: "1", instancetype.kubevirt.io/size: medium}
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}}`
	windows = `
kind: p
metadata: {name: windows, labels: {instancetype.kubevirt.io/os-type: windows}}
spec: {annotations: {vm.kubevirt.io/os: windows}}`
	described = `
kind: p
metadata:
  name: linux
  labels: {instancetype.kubevirt.io/vendor: example.com, instancetype.kubevirt.io/os-type: linux}
  annotations: {openshift.io/display-name: Linux}
spec: {}`
	whatFor = `
metadata:
  name: small
  labels:
    instancetype.kubevirt.io/cpu: "2"
    instancetype.kubevirt.io/memory: 4Gi
    instancetype.kubevirt.io/vendor: example.com
    instancetype.kubevirt.io/class: general
  annotations:
    instancetype.kubevirt.io/displayName: General Purpose
    instancetype.kubevirt.io/description: For most.
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}}`
)
