package cli

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

const (
	// limited is a policy with params of a kind of its own.
	limited = `apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicy
metadata: {name: limited}
spec:
  paramKind: {apiVersion: example.org/v1, kind: Limits}
  paramRef: {name: limits, parameterNotFoundAction: Deny}
  validations:
  - expression: guest.spec.domain.cpu.cores <= params.spec.cores
    messageExpression: "'at most ' + string(params.spec.cores)"
`
	// definition is the CustomResourceDefinition of that kind.
	definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.example.org}
spec:
  group: example.org
  names: {kind: Limits, plural: limits}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {cores: {type: integer}}}}}}}
`
	limit = `apiVersion: example.org/v1
kind: Limits
metadata: {name: limits}
spec: {cores: 1}
`
)

// TestParamsOfFiles: params are read from the files beside a VM, by the scope and the schema of their kind.
func TestParamsOfFiles(t *testing.T) {
	t.Parallel()
	cluster := strings.Replace(definition, "scope: Namespaced", "scope: Cluster", 1)
	shared := strings.Replace(limited, "name: limits,", "name: limits, namespace: shared,", 1)
	selecting := strings.Replace(limited, "name: limits,", "selector: {matchLabels: {tier: gold}},", 1)
	allow := strings.Replace(selecting, "Deny", "Allow", 1)
	elsewhere := strings.Replace(limit, "{name: limits}", "{name: limits, namespace: shared}", 1)
	gold := strings.Replace(limit, "{name: limits}", "{name: other, labels: {tier: gold}}", 1)
	const refused = "GuestPolicy 'limited' with Limits default/limits: at most 1"
	for _, test := range []struct {
		why    string
		files  []string
		status int
		says   string
	}{
		{"a param in the namespace of the VM", []string{cores, limited, limit}, 1, refused},
		{"with its definition", []string{cores, limited, limit, definition}, 1, refused},
		{"a larger limit", []string{cores, limited, strings.Replace(limit, "cores: 1", "cores: 4", 1)}, 0, "is accepted"},
		{"a param in another namespace", []string{cores, limited, elsewhere}, 1, "GuestPolicy 'limited' failed: spec.paramRef: there is no Limits 'limits'"},
		{"a policy that names the namespace", []string{cores, shared, elsewhere}, 1, "with Limits shared/limits: at most 1"},
		{"a kind without namespaces", []string{cores, limited, cluster, elsewhere}, 1, "at most 1"},
		{"a kind without namespaces, and a namespace", []string{cores, shared, cluster, limit}, 1, "has no namespaces: remove spec.paramRef.namespace"},
		{"a selector", []string{cores, selecting, gold}, 1, "with Limits default/other: at most 1"},
		{"a selector that selects nothing", []string{cores, allow, limit}, 0, "is accepted"},
		{"a field that the definition does not have", []string{cores, strings.Replace(limited, "params.spec.cores\n", "params.spec.coers\n", 1), definition}, 1,
			"undefined field 'coers'"},
	} {
		_, file := write(t, test.files...)
		got := call(t, "", "validate", "-f", file)
		output := got.out + got.errOut
		if got.err != nil {
			output += got.err.Error()
		}
		if cmdutil.ExitStatus(got.err) != test.status || !strings.Contains(output, test.says) {
			t.Errorf("%s: exit status %d, want %d and '%s':\n%s", test.why, cmdutil.ExitStatus(got.err), test.status, test.says, output)
		}
	}
}

// TestPolicyAuditReadsParams: an audit of files names the param.
func TestPolicyAuditReadsParams(t *testing.T) {
	t.Parallel()
	_, file := write(t, cores, limited, limit)
	got := call(t, "", "policy", "audit", "-f", file)
	if cmdutil.ExitStatus(got.err) != 1 || !strings.Contains(got.out, "limited   Limits default/limits: at most 1") {
		t.Errorf("%v\n%s%s", got.err, got.out, got.errOut)
	}
}

// TestPolicyCompile: what can be a ValidatingAdmissionPolicy is written, and what cannot says why.
func TestPolicyCompile(t *testing.T) {
	t.Parallel()
	owner := `apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicy
metadata: {name: owner}
spec:
  matchConstraints: {operations: [CREATE], resources: [virtualmachines]}
  validations: [{expression: "has(object.metadata.labels)"}]
`
	_, file := write(t, owner, onePolicy)
	got := call(t, "", "policy", "compile", file)
	if cmdutil.ExitStatus(got.err) != 1 || strings.Count(got.out, "---\n") != 2 || !strings.Contains(got.out, "kind: ValidatingAdmissionPolicyBinding") ||
		!strings.Contains(got.errOut, "GuestPolicy 'cores' cannot be a ValidatingAdmissionPolicy: spec.validations[0].expression: Forbidden: it reads 'guest'") {
		t.Errorf("%v\n%s%s", got.err, got.out, got.errOut)
	}
	_, alone := write(t, owner)
	if got := call(t, "", "policy", "compile", alone); got.err != nil || got.errOut != "" {
		t.Errorf("%v\n%s", got.err, got.errOut)
	}
	_, none := write(t, cores)
	if got := call(t, "", "policy", "compile", none); cmdutil.ExitStatus(got.err) != 2 {
		t.Errorf("a file without policies: %v", got.err)
	}
}

// TestPolicyWhy: each policy says what it answers to a creation and to edits.
func TestPolicyWhy(t *testing.T) {
	t.Parallel()
	many := strings.Replace(cores, "cores: 2", "cores: 4", 1)
	named := func(name, rest string) string {
		return strings.Replace(strings.Replace(onePolicy, "name: cores", "name: "+name, 1), "spec:\n", "spec:\n  "+rest+"\n", 1)
	}
	_, file := write(t, many, named("denies", "failurePolicy: Fail"), named("warns", "validationActions: [Warn]"), named("audits", "validationActions: [Audit]"),
		named("creates", "matchConstraints: {operations: [CREATE]}"), named("others", "matchConstraints: {objectSelector: {matchLabels: {a: b}}}"),
		named("fails", "matchConditions: [{name: a, expression: \"object.metadata.labels['a'] == 'b'\"}]"))
	got := call(t, "", "policy", "why", "-f", file)
	rows := strings.Fields(got.out)
	text := strings.Join(rows, " ")
	for _, want := range []string{
		"VirtualMachine default/web POLICY CREATE EDIT OF THE GUEST OTHER EDIT EXCEPTIONS MESSAGE",
		"audits audited audited audited at most 2 cores, not 4",
		"creates refused not judged not judged at most 2 cores, not 4",
		"denies refused refused warned at most 2 cores, not 4",
		"fails refused refused warned spec.matchConditions[0].expression: no such key: labels",
		"others not judged not judged not judged",
		"warns warned warned warned at most 2 cores, not 4",
	} {
		if got.err != nil || !strings.Contains(text, want) {
			t.Errorf("%v: no '%s' in\n%s%s", got.err, want, got.out, got.errOut)
		}
	}
}
