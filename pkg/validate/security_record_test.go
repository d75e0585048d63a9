package validate_test

var securityRecordCases = []testCase{
	{
		why:   "text that is no record",
		rule:  "security/record",
		given: vmi("{metadata: {annotations: {kilnvm.io/frontend: nonsense}}}"),
		want:  invalid("metadata.annotations[kilnvm.io/frontend]"),
	},
	{
		why:   "an empty record",
		rule:  "security/record",
		given: vmi(`{metadata: {annotations: {kilnvm.io/frontend: "{}"}}}`),
	},
	{
		why:   "no record",
		rule:  "security/record",
		given: vmi(`{metadata: {annotations: {kilnvm.io/frontend: ""}}}`),
	},
	{
		why:    "a machine that the administrator does not allow",
		rule:   "security/record-machine",
		given:  vmi(`{metadata: {annotations: {kilnvm.io/frontend: '{"machine":"pc-q35-2.4"}'}}}`),
		limits: machines("q35"),
		want:   notSupported("metadata.annotations[kilnvm.io/frontend]"),
	},
	{
		why:    "a machine that Kiln places no devices on",
		rule:   "security/record-machine",
		given:  vmi(`{metadata: {annotations: {kilnvm.io/frontend: '{"machine":"microvm"}'}}}`),
		limits: machines("*"),
		want:   notSupported("metadata.annotations[kilnvm.io/frontend]"),
	},
	{
		why:   "a version that is allowed",
		rule:  "security/record-machine",
		given: vmi(`{metadata: {annotations: {kilnvm.io/frontend: '{"machine":"pc-q35-9.2"}'}}}`),
	},
	{
		why:    "an unknown architecture is refused as such alone",
		rule:   "security/record-machine",
		given:  vmi(`{metadata: {annotations: {kilnvm.io/frontend: '{"machine":"microvm"}'}}, spec: {architecture: ppc64le}}`),
		others: []string{"machine/architecture"},
	},
	{
		why:   "a model that arm64 does not have",
		rule:  "security/record-video",
		given: vmi(`{metadata: {annotations: {kilnvm.io/frontend: '{"video":"vga"}'}}, spec: {architecture: arm64}}`),
		want:  notSupported("metadata.annotations[kilnvm.io/frontend]"),
	},
	{
		why:   "a model that arm64 has",
		rule:  "security/record-video",
		given: vmi(`{metadata: {annotations: {kilnvm.io/frontend: '{"video":"virtio"}'}}, spec: {architecture: arm64}}`),
	},
	{
		why:   "a word that asks for nothing known",
		rule:  "security/hardware",
		given: vmi("{metadata: {annotations: {kilnvm.io/hardware: newest}}}"),
		want:  notSupported("metadata.annotations[kilnvm.io/hardware]"),
	},
	{
		why:   "the word",
		rule:  "security/hardware",
		given: vmi("{metadata: {annotations: {kilnvm.io/hardware: latest}}}"),
	},
	{
		why:   "no word",
		rule:  "security/hardware",
		given: vmi(`{metadata: {annotations: {kilnvm.io/hardware: ""}}}`),
	},
	{
		why:   "a VM and its template",
		rule:  "security/hardware",
		given: vm("{metadata: {annotations: {kilnvm.io/hardware: newest}}, spec: {template: {metadata: {annotations: {kilnvm.io/hardware: new}}}}}"),
		want:  notSupported("spec.template.metadata.annotations[kilnvm.io/hardware]", "metadata.annotations[kilnvm.io/hardware]"),
	},
	{
		why:   "a VM without a template is judged all the same",
		rule:  "security/hardware",
		given: vm("{metadata: {annotations: {kilnvm.io/hardware: newest}}, spec: {template: null}}"),
		want:  notSupported("metadata.annotations[kilnvm.io/hardware]"),
	},
	{
		why:   "a VM asks for the word",
		rule:  "security/hardware",
		given: vm("{metadata: {annotations: {kilnvm.io/hardware: latest}}}"),
	},
	{
		why:   "a VM is changed to something else",
		rule:  "security/hardware",
		given: vmChange("", "metadata: {annotations: {kilnvm.io/hardware: newest}}"),
		want:  notSupported("metadata.annotations[kilnvm.io/hardware]"),
	},
	{
		why:   "what a VM had before this rule stays",
		rule:  "security/hardware",
		given: vmChange("metadata: {annotations: {kilnvm.io/hardware: newest}}", "metadata: {labels: {a: b}}"),
	},
}
