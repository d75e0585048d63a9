package catalog

import "strings"

// other is an instancetype that 'small' may name as its replacement.
var other = changed(changed(changed(small, "name: small", "name: other"), `"2"`, `"4"`), "guest: 2", "guest: 4")

var objectCases = []lintCase{
	{"no CPU", "catalog/legal", []string{changed(changed(small, "guest: 2", "guest: 0"), `"2"`, `"0"`), linux}, []string{small, linux}, "spec.cpu.guest",
		[]string{"must be at least 1", "instancetype/cpus"}},
	{"an unknown topology", "catalog/legal", []string{small, "{kind: p, metadata: {name: x}, spec: {cpu: {preferredCPUTopology: rows}}}", linux},
		[]string{small, pinned}, "spec.cpu.preferredCPUTopology", []string{"supported values"}},
	{"two of one name", "catalog/twice", []string{small, small, linux}, []string{small, other, linux}, "metadata.name", []string{"before"}},
	{"two namespaces", "catalog/twice", []string{small, ofNamespace("shop"), ofNamespace("shop"), linux}, []string{small, ofNamespace("shop"),
		ofNamespace("yard"), linux},
		"metadata.name", []string{"shop/small"}},
	{"64 characters", "catalog/name-length", []string{changed(small, "name: small", "name: "+strings.Repeat("a", 64)), linux},
		[]string{changed(small, "name: small", "name: "+strings.Repeat("a", 63)), linux}, "metadata.name", []string{"64 characters"}},
	{"one spec in two forms", "catalog/same-spec", []string{small, changed(changed(small, "name: small", "name: twin"), "{guest: 4Gi}", "{guest: 4096Mi}"), linux},
		[]string{small, changed(changed(small, "name: small", "name: twin"), "{guest: 4Gi}", "{guest: 4Gi, overcommitPercent: 10}"), linux}, "spec",
		[]string{"'small'"}},
	{"one spec, and one replaces the other", "catalog/same-spec", []string{small, changed(small, "name: small", "name: twin"), linux},
		[]string{small, changed(small, "name: small", "name: twin, annotations: {kilnvm.io/replaced-by: small}"), linux}, "spec", []string{"replacement"}},
	{"an old word", "catalog/deprecated-value", []string{small, changed(pinned, "cores", "preferCores")}, []string{small, pinned},
		"spec.cpu.preferredCPUTopology", nil},
	{"a CPU model of nobody", "catalog/doubtful-value", []string{changed(small, "cpu: {", "cpu: {model: SkylakeServer, "), linux},
		[]string{changed(small, "cpu: {", "cpu: {model: Skylake-Server, "), linux}, "spec.cpu.model", nil},
}

func ofNamespace(name string) string {
	return "kind: VirtualMachineInstancetype\n" + changed(small, "name: small", "name: small, namespace: "+name)
}

// with is 'small' with labels and annotations.
func with(labels, annotations string) string {
	return changed(changed(small, "labels: {", "labels: {"+labels), "metadata: {", "metadata: {annotations: {"+annotations+"}, ")
}

var lifecycleCases = []lintCase{
	{"no state", "catalog/lifecycle", []string{with("kilnvm.io/lifecycle: old, ", ""), linux}, []string{with("kilnvm.io/lifecycle: active, ", ""), linux},
		"metadata.labels[kilnvm.io/lifecycle]", []string{"'active', 'deprecated' or 'obsolete'"}},
	{"neither true nor false", "catalog/deprecated", []string{with("instancetype.kubevirt.io/deprecated: 'yes', ", ""), linux},
		[]string{with("instancetype.kubevirt.io/deprecated: 'false', ", ""), linux}, "metadata.labels[instancetype.kubevirt.io/deprecated]",
		[]string{"'true' or 'false'"}},
	{"itself", "catalog/replaced-by", []string{with("", "kilnvm.io/replaced-by: small"), linux}, []string{with("", "kilnvm.io/replaced-by: other"), other, linux},
		"metadata.annotations[kilnvm.io/replaced-by]", []string{"another object"}},
	{"a day", "catalog/obsolete-after", []string{with("", "kilnvm.io/replaced-by: other, kilnvm.io/obsolete-after: '2027-01-01'"), other, linux},
		[]string{with("", "kilnvm.io/replaced-by: other, kilnvm.io/obsolete-after: '2027-01-01T00:00:00Z'"), other, linux},
		"metadata.annotations[kilnvm.io/obsolete-after]", []string{"RFC 3339"}},
	{"deprecated", "catalog/no-replacement", []string{with("instancetype.kubevirt.io/deprecated: 'true', ", ""), other, linux},
		[]string{with("instancetype.kubevirt.io/deprecated: 'true', ", "kilnvm.io/replaced-by: other"), other, linux}, "metadata", []string{"without replacement"}},
	{"a state among the annotations", "catalog/misplaced", []string{with("", "kilnvm.io/lifecycle: active"), other, linux},
		[]string{with("kilnvm.io/lifecycle: active, ", ""), other, linux}, "metadata.annotations[kilnvm.io/lifecycle]", []string{"must be a label"}},
	{"its end has come", "catalog/no-replacement", []string{with("", "kilnvm.io/obsolete-after: '2026-01-01T00:00:00Z'"), other, linux},
		[]string{with("", "kilnvm.io/obsolete-after: '2026-01-01T00:00:00Z', kilnvm.io/replaced-by: other"), other, linux}, "metadata", []string{"is obsolete"}},
	{"a replacement of nobody's", "catalog/replacement", []string{with("", "kilnvm.io/replaced-by: larger"), other, linux},
		[]string{with("", "kilnvm.io/replaced-by: other"), other, linux}, "metadata.annotations[kilnvm.io/replaced-by]", []string{"'larger' is not in the catalog"}},
	{"a replacement of another kind", "catalog/replacement", []string{with("", "kilnvm.io/replaced-by: linux"), other, linux},
		[]string{with("", "kilnvm.io/replaced-by: other"), other, linux}, "metadata.annotations[kilnvm.io/replaced-by]", []string{"'linux' is not in the catalog"}},
	{"a replacement that is replaced", "catalog/replacement", []string{with("", "kilnvm.io/replaced-by: other"), linux, third,
		changed(other, "metadata: {", "metadata: {annotations: {kilnvm.io/replaced-by: third, kilnvm.io/obsolete-after: '2026-01-01T00:00:00Z'}, ")},
		[]string{with("", "kilnvm.io/replaced-by: third"), linux, third, other}, "metadata.annotations[kilnvm.io/replaced-by]", []string{"'other' is obsolete"}},
}

var third = changed(changed(changed(small, "name: small", "name: third"), `"2"`, `"8"`), "guest: 2", "guest: 8")
