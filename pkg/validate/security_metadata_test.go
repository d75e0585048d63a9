package validate_test

import "strings"

var securityMetadataCases = []testCase{
	{
		why:   "a label by which a node finds its guests",
		rule:  "security/reserved-label",
		given: vmi("metadata: {labels: {kubevirt.io/nodeName: here}}"),
		want:  forbidden("metadata.labels[kubevirt.io/nodeName]"),
	},
	{
		why:   "another label of the domain",
		rule:  "security/reserved-label",
		given: vmi("metadata: {labels: {kubevirt.io/domain: guest}}"),
	},
	{
		why:   "an Ignition configuration",
		rule:  "security/annotation-gate",
		given: vmi(`metadata: {annotations: {kubevirt.io/ignitiondata: "{}"}}`),
		want:  forbidden("metadata.annotations[kubevirt.io/ignitiondata]"),
	},
	{
		why:    "the gate of sidecars is not the gate of Ignition",
		rule:   "security/annotation-gate",
		given:  vmi(`metadata: {annotations: {hooks.kubevirt.io/hookSidecars: "[]"}}`),
		limits: gates("ExperimentalIgnitionSupport"),
		want:   forbidden("metadata.annotations[hooks.kubevirt.io/hookSidecars]"),
	},
	{
		why:    "the gates are on",
		rule:   "security/annotation-gate",
		given:  vmi(`metadata: {annotations: {kubevirt.io/ignitiondata: "{}", hooks.kubevirt.io/hookSidecars: "[]"}}`),
		limits: gates("ExperimentalIgnitionSupport", "Sidecar"),
	},
	{
		why:   "annotations of nothing",
		rule:  "security/annotation-gate",
		given: vmi(`metadata: {annotations: {kubevirt.io/ignitiondata: "", hooks.kubevirt.io/hookSidecars: ""}}`),
	},
	{
		why:    "s390x cannot read it",
		rule:   "security/ignition-architecture",
		given:  vmi(`{metadata: {annotations: {kubevirt.io/ignitiondata: "{}"}}, spec: {architecture: s390x}}`),
		limits: gates("ExperimentalIgnitionSupport"),
		want:   forbidden("metadata.annotations[kubevirt.io/ignitiondata]"),
	},
	{
		why:    "arm64 can",
		rule:   "security/ignition-architecture",
		given:  vmi(`{metadata: {annotations: {kubevirt.io/ignitiondata: "{}"}}, spec: {architecture: arm64}}`),
		limits: gates("ExperimentalIgnitionSupport"),
	},
	{
		why:   "s390x without it",
		rule:  "security/ignition-architecture",
		given: vmi(`{metadata: {annotations: {kubevirt.io/ignitiondata: ""}}, spec: {architecture: s390x}}`),
	},
	{
		why:   "a TDX guest with a socket of its own choice",
		rule:  "security/quote-socket",
		given: quoting("{metadata: {annotations: {kubevirt.io/qgs-socket-path: /run/mine}}, spec: {domain: {launchSecurity: {tdx: {}}}}}"),
		want:  invalid("metadata.annotations[kubevirt.io/qgs-socket-path]"),
	},
	{
		why:   "a TDX guest with the cluster's socket",
		rule:  "security/quote-socket",
		given: quoting("{metadata: {annotations: {kubevirt.io/qgs-socket-path: /run/quotes}}, spec: {domain: {launchSecurity: {tdx: {}}}}}"),
	},
	{
		why:   "a guest that asks for no quotes",
		rule:  "security/quote-socket",
		given: quoting("{metadata: {annotations: {kubevirt.io/qgs-socket-path: /run/mine}}, spec: {domain: {launchSecurity: {snp: {}}}}}"),
	},
	{
		why:   "a label that is set",
		rule:  "security/reserved-label-change",
		given: vmiChange(user, "", "metadata: {labels: {kubevirt.io/nodeName: here}}"),
		want:  forbidden("metadata.labels[kubevirt.io/nodeName]"),
	},
	{
		why:   "a label that is set to nothing",
		rule:  "security/reserved-label-change",
		given: vmiChange(user, "", `metadata: {labels: {kubevirt.io/nodeName: ""}}`),
		want:  forbidden("metadata.labels[kubevirt.io/nodeName]"),
	},
	{
		why:   "a label that is changed",
		rule:  "security/reserved-label-change",
		given: vmiChange(user, "metadata: {labels: {kubevirt.io/created-by: a}}", "metadata: {labels: {kubevirt.io/created-by: b}}"),
		want:  forbidden("metadata.labels[kubevirt.io/created-by]"),
	},
	{
		why:   "a label that stays",
		rule:  "security/reserved-label-change",
		given: vmiChange(user, "metadata: {labels: {kubevirt.io/nodeName: here}}", "metadata: {labels: {mine: yes-please}}"),
	},
	{
		why:    "a controller sets it",
		rule:   "security/reserved-label-change",
		given:  vmiChange(controller, "", "metadata: {labels: {kubevirt.io/nodeName: here}}"),
		limits: accounts,
	},
	{
		why:   "a value with spaces, a key with a mark",
		rule:  "security/template-labels",
		given: vm(`{spec: {template: {metadata: {labels: {app: my web app, "bad key!": x}}}}}`),
		want:  invalid("spec.template.metadata.labels[app]", "spec.template.metadata.labels[bad key!]"),
	},
	{
		why:   "a value of 64 characters",
		rule:  "security/template-labels",
		given: vm(`{spec: {template: {metadata: {labels: {a: "` + strings.Repeat("a", 64) + `"}}}}}`),
		want:  invalid("spec.template.metadata.labels[a]"),
	},
	{
		why:   "a value of 63 characters",
		rule:  "security/template-labels",
		given: vm(`{spec: {template: {metadata: {labels: {a: "` + strings.Repeat("a", 63) + `"}}}}}`),
	},
	{
		why:   "a value that was there before the rule",
		rule:  "security/template-labels",
		given: vmChange("{spec: {template: {metadata: {labels: {app: my web app}}}}}", "{spec: {template: {metadata: {labels: {a: b}}}}}"),
	},
	{
		why:   "another value of the kind",
		rule:  "security/template-labels",
		given: vmChange("{spec: {template: {metadata: {labels: {app: my web app}}}}}", "{spec: {template: {metadata: {labels: {app: your web app}}}}}"),
		want:  invalid("spec.template.metadata.labels[app]"),
	},
	{
		why:   "a data volume template",
		rule:  "security/template-labels",
		given: vm(templated("labels: {a: b c}")),
		want:  invalid("spec.dataVolumeTemplates[0].metadata.labels[a]"),
	},
	{
		why:   "a value of a data volume template that was there before the rule",
		rule:  "security/template-labels",
		given: vmChange(templated("labels: {a: b c}"), templated("labels: {a: b c, d: e}")),
	},
	{
		why:   "a key with a space",
		rule:  "security/template-annotations",
		given: vm("{spec: {template: {metadata: {annotations: {a b: c}}}}}"),
		want:  invalid("spec.template.metadata.annotations[a b]"),
	},
	{
		why:   "a key in upper case, and any value",
		rule:  "security/template-annotations",
		given: vm("{spec: {template: {metadata: {annotations: {Example.com/A: b c}}}}}"),
	},
	{
		why:   "more than 256 KiB",
		rule:  "security/template-annotations",
		given: vm(`{spec: {template: {metadata: {annotations: {a: "` + strings.Repeat("a", 256<<10) + `"}}}}}`),
		want:  tooLong("spec.template.metadata.annotations"),
	},
	{
		why:  "as many as were there before the rule, with another value",
		rule: "security/template-annotations",
		given: vmChange(`{spec: {template: {metadata: {annotations: {a: "`+strings.Repeat("a", 256<<10)+`"}}}}}`,
			`{spec: {template: {metadata: {annotations: {a: "`+strings.Repeat("b", 256<<10)+`"}}}}}`),
	},
	{
		why:   "256 KiB",
		rule:  "security/template-annotations",
		given: vm(`{spec: {template: {metadata: {annotations: {a: "` + strings.Repeat("a", 256<<10-1) + `"}}}}}`),
	},
}

// templated is a VM with a disk of a data volume template that has metadata.
func templated(metadata string) string {
	return "{spec: {dataVolumeTemplates: [{metadata: {name: d, " + metadata + "}, spec: {source: {blank: {}}, storage: {resources: {requests: " +
		"{storage: 1Gi}}}}}], template: {spec: {volumes: [{name: d, dataVolume: {name: d}}]}}}}"
}
