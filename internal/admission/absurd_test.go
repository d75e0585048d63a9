package admission

import (
	"strings"
	"testing"
)

// absurd are values in the specs of VMIs that nobody means. Each has a legal neighbour. expected is in the refusal or, with warned, in a warning.
var absurd = []struct {
	why, spec, legal, expected string
	warned                     bool
}{
	{why: "one byte", spec: "domain: {memory: {guest: 1}}",
		legal: "domain: {memory: {guest: 1M}}", expected: "memory.guest: Invalid value: \"1\": must be at least 1M; is the unit"},
	{why: "bytes", spec: "domain: {memory: {guest: 128}}", legal: "domain: {memory: {guest: 128M}}", expected: "must be at least 1M; is the unit missing?"},
	{why: "millibytes", spec: "domain: {memory: {guest: 128m}}", legal: "domain: {memory: {guest: 128Mi}}", expected: "'m' is a thousandth of a byte"},
	{why: "a ceiling of bytes", spec: "domain: {memory: {guest: 1Gi, maxGuest: 2}}",
		legal: "domain: {memory: {guest: 1Gi, maxGuest: 2Gi}}", expected: "memory.maxGuest: "},
	{why: "a request of bytes", spec: "domain: {memory: {guest: 1Gi}, resources: {requests: {memory: 2}}}",
		legal: "domain: {memory: {guest: 1Gi}, resources: {requests: {memory: 1Gi}}}", expected: "resources.requests.memory: "},
	{why: "more than processors address", spec: "domain: {memory: {guest: 5Pi}}", legal: "domain: {memory: {guest: 4Ti}}", expected: "at most 4Pi"},
	{why: "more than machines have", spec: "domain: {memory: {guest: 100Ti}}", legal: "domain: {memory: {guest: 64Ti}}", expected: "more than 64Ti", warned: true},
	{why: "no cores", spec: "domain: {memory: {guest: 1Gi}, cpu: {cores: 0}}",
		legal: "domain: {memory: {guest: 1Gi}, cpu: {cores: 1}}", expected: "cpu.cores of 0", warned: true},
	{why: "less than no time", spec: "{terminationGracePeriodSeconds: -5, domain: {memory: {guest: 1Gi}}}",
		legal: "{terminationGracePeriodSeconds: 0, domain: {memory: {guest: 1Gi}}}", expected: "terminationGracePeriodSeconds: Invalid value: -5"},
	{why: "an invalid selector", spec: "{nodeSelector: {a b: c}, domain: {memory: {guest: 1Gi}}}",
		legal:    "{nodeSelector: {a: c}, domain: {memory: {guest: 1Gi}}}",
		expected: "nodeSelector[a b]: "},
	{why: "pages of no architecture", spec: "domain: {memory: {guest: 129Mi, hugepages: {pageSize: 3Mi}}}",
		legal:    "domain: {memory: {guest: 128Mi, hugepages: {pageSize: 2Mi}}}",
		expected: "hugepages.pageSize: Invalid value: \"3Mi\": architecture 'amd64' has no huge pages"},
	{why: "pages of bytes", spec: "domain: {memory: {guest: 1Gi, hugepages: {pageSize: \"2048\"}}}",
		legal: "domain: {memory: {guest: 1Gi, hugepages: {pageSize: 2048Ki}}}", expected: "must be at least 64Ki; is the unit missing?"},
	{why: "a disk without a size", spec: "{domain: {memory: {guest: 1Gi}}, volumes: [{name: a, emptyDisk: {}}]}",
		legal: "{domain: {memory: {guest: 1Gi}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}", expected: "emptyDisk.capacity: Required value"},
}

// TestAbsurdValues: an operator tried these values, and nothing refused them. VMs, VMIs, and the kinds that give VMIs their values are refused with them, or
// warned of.
func TestAbsurdValues(t *testing.T) {
	for _, a := range absurd {
		for i, spec := range []string{a.spec, a.legal} {
			if !strings.HasPrefix(spec, "{") {
				spec = "{" + spec + "}"
			}
			spec = strings.Replace(spec, "domain: {", "domain: {devices: {}, ", 1)
			judge(t, a.why+": "+spec, "kubevirt.io/v1", "VirtualMachine",
				"{runStrategy: Halted, template: {spec: "+spec+"}}", MutateVM, ValidateVM, i == 0, a.warned, a.expected)
			judge(t, a.why+": "+spec, "kubevirt.io/v1", "VirtualMachineInstance", spec, MutateVMI, ValidateVMI, i == 0, a.warned, a.expected)
		}
	}
	const catalog = "instancetype.kubevirt.io/v1beta1"
	for _, a := range []struct{ why, kind, hook, spec, legal, expected string }{
		{"bytes", "VirtualMachineInstancetype", ValidateInstancetype, "{cpu: {guest: 1}, memory: {guest: 128}}", "{cpu: {guest: 1}, memory: {guest: 128Mi}}",
			"is the unit missing?"},
		{"millibytes", "VirtualMachineInstancetype", ValidateInstancetype, "{cpu: {guest: 1}, memory: {guest: 128m}}", "{cpu: {guest: 1}, memory: {guest: 128M}}",
			"'m' is a thousandth"},
		{"pages", "VirtualMachineClusterInstancetype", ValidateInstancetype, "{cpu: {guest: 1}, memory: {guest: 129Mi, hugepages: {pageSize: 3Mi}}}",
			"{cpu: {guest: 1}, memory: {guest: 128Mi, hugepages: {pageSize: 32Mi}}}", "no architecture has huge pages"},
		{"no ceiling", "VirtualMachineInstancetype", ValidateInstancetype, "{cpu: {guest: 1}, memory: {guest: 1Gi, maxGuest: 5Pi}}",
			"{cpu: {guest: 1}, memory: {guest: 1Gi, maxGuest: 2Gi}}", "at most 4Pi"},
		{"no memory", "VirtualMachineInstancetype", ValidateInstancetype, "{cpu: {guest: 1}}",
			"{cpu: {guest: 1}, memory: {guest: 1M}}", "spec.memory.guest: Required value"},
		{"no CPU", "VirtualMachineInstancetype", ValidateInstancetype, "{cpu: {guest: 0}, memory: {guest: 1Gi}}",
			"{cpu: {guest: 1}, memory: {guest: 1Gi}}", "must be at least 1"},
		{"a selector", "VirtualMachineInstancetype", ValidateInstancetype, "{cpu: {guest: 1}, memory: {guest: 1Gi}, nodeSelector: {a b: c}}",
			"{cpu: {guest: 1}, memory: {guest: 1Gi}, nodeSelector: {a: c}}", "nodeSelector[a b]"},
		{"time", "VirtualMachineClusterPreference", ValidatePreference, "{preferredTerminationGracePeriodSeconds: -5}",
			"{preferredTerminationGracePeriodSeconds: 0}",
			"must not be negative"},
	} {
		judge(t, a.why, catalog, a.kind, a.spec, "", a.hook, true, false, a.expected)
		judge(t, a.why, catalog, a.kind, a.legal, "", a.hook, false, false, a.expected)
	}
	for _, a := range []struct{ why, spec, legal, expected string }{
		{"bytes", "domain: {memory: {guest: 1}}", "domain: {memory: {guest: 1Gi}}", "is the unit missing?"},
		{"pages", "domain: {memory: {hugepages: {pageSize: 3Mi}}}", "domain: {memory: {hugepages: {pageSize: 2Mi}}}", "has no huge pages of this size"},
		{"time", "terminationGracePeriodSeconds: -5", "terminationGracePeriodSeconds: 5", "must not be negative"},
		{"a selector", "nodeSelector: {a b: c}", "nodeSelector: {a: c}", "nodeSelector[a b]"},
	} {
		judge(t, a.why, "kilnvm.io/v1alpha1", "GuestProfile", "{selector: {}, template: {spec: {"+a.spec+"}}}", "", ValidateProfile, true, false, a.expected)
		judge(t, a.why, "kilnvm.io/v1alpha1", "GuestProfile", "{selector: {}, template: {spec: {"+a.legal+"}}}", "", ValidateProfile, false, false, a.expected)
	}
}

// TestAbsurdNames: a name whose domain has no file is refused, in VMs and VMIs, and an annotation of nobody's brings a warning.
func TestAbsurdNames(t *testing.T) {
	const spec = "{domain: {devices: {}, memory: {guest: 1Gi}}}"
	for _, kind := range []struct{ name, spec, mutate, validate string }{
		{"VirtualMachine",
			"{runStrategy: Halted, template: {spec: " + spec + "}}", MutateVM, ValidateVM}, {"VirtualMachineInstance", spec, MutateVMI, ValidateVMI},
	} {
		for _, m := range []struct {
			meta           string
			absurd, warned bool
			expected       string
		}{
			{"{namespace: team, name: " + strings.Repeat("c", 253) + "}", true, false, "metadata.name: Too long: may not be more than 242 bytes"},
			{"{namespace: team, name: " + strings.Repeat("c", 242) + "}", false, false, "Too long"},
			{"{namespace: team, name: a, annotations: {kilnvm.io/harware: latest}}", true, true, "did you mean 'kilnvm.io/hardware'?"},
			{"{namespace: team, name: a, annotations: {kilnvm.io/hardware: latest}}", false, true, "did you mean"},
		} {
			judgeNamed(t, m.meta, "kubevirt.io/v1", kind.name, m.meta, kind.spec, kind.mutate, kind.validate, m.absurd, m.warned, m.expected)
		}
	}
}

func judge(t *testing.T, why, version, kind, spec, mutate, validate string, absurd, warned bool, expected string) {
	t.Helper()
	judgeNamed(t, why, version, kind, "{namespace: team, name: a}", spec, mutate, validate, absurd, warned, expected)
}

// judgeNamed sends an object to both hooks, as the API server does: to the second one if the first one allows it. An object with an absurd value is refused, or
// warned of.
func judgeNamed(
	t *testing.T, why, version, kind, meta, spec, mutate, validate string, absurd, warned bool, expected string,
) {
	t.Helper()
	c := newCluster(t)
	request := create(t, "apiVersion: "+version+"\nkind: "+kind+"\nmetadata: "+meta+"\nspec: "+spec+"\n")
	var warnings []string
	allowed, message := true, ""
	if mutate != "" {
		response := ask(t, c.Hooks()[mutate], request)
		if warnings, allowed = response.Warnings, response.Allowed; allowed {
			request = create(t, patched(t, request, response))
		} else {
			message = response.Result.Message
		}
	}
	if allowed {
		response := ask(t, c.Hooks()[validate], request)
		warnings = append(warnings, response.Warnings...)
		if allowed = response.Allowed; !allowed {
			message = response.Result.Message
		}
	}
	hasWarning := strings.Contains(strings.Join(warnings, "\n"), expected)
	if allowed != (!absurd || warned) || !allowed && !strings.Contains(message, expected) || warned && hasWarning != absurd {
		t.Errorf("%s, %s: allowed %t, want otherwise or '%s': %s\nwarnings %q", kind, why, allowed, expected, message, warnings)
	}
}
