package validate_test

var securityRecordCases = []testCase{
	{
		why:   "a machine that no boot can have written",
		rule:  "security/record",
		given: guestHardware("hardware: {machine: 'pc q35'}"),
		want:  forbidden("spec.hardware"),
	},
	{
		why:   "a version of a machine",
		rule:  "security/record",
		given: guestHardware("hardware: {machine: pc-q35-9.2}"),
	},
	{
		why:   "no boot yet",
		rule:  "security/record",
		given: guestHardware("identity: a"),
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
