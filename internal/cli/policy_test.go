package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/policytest"
	"sigs.k8s.io/yaml"
)

const examplePolicies = "../../examples/policies"

// tested runs 'policy test' on a folder.
func tested(t *testing.T, folder string) (policytest.Report, answer) {
	t.Helper()
	got := call(t, "", "policy", "test", folder, "-o", "json")
	var r policytest.Report
	if got.out != "" {
		if err := json.Unmarshal([]byte(got.out), &r); err != nil {
			t.Fatalf("%v\n%s", err, got.out)
		}
	}
	return r, got
}

// TestExamplePolicies: all cases of the examples pass, and each example has a case that is allowed and one that is denied.
func TestExamplePolicies(t *testing.T) {
	t.Parallel()
	r, got := tested(t, examplePolicies)
	if got.err != nil || r.Policies != 9 || r.Failed+len(r.Findings) > 0 {
		t.Fatalf("%d policies, %d failed, findings %v: %v", r.Policies, r.Failed, r.Findings, got.err)
	}
	answers := map[string]map[v1alpha1.GuestPolicyAnswer]int{}
	for _, c := range r.Cases {
		if answers[c.Policy] == nil {
			answers[c.Policy] = map[v1alpha1.GuestPolicyAnswer]int{}
		}
		answers[c.Policy][c.Seen.Answer]++
		if c.Seen.Answer == v1alpha1.PolicyDenies && len(c.Expected.Violations) == 0 {
			t.Errorf("%s: case '%s' names no message", c.Policy, c.Name)
		}
	}
	for name, seen := range answers {
		if seen[v1alpha1.PolicyAllows] == 0 || seen[v1alpha1.PolicyDenies] == 0 {
			t.Errorf("%s: %v, want cases that are allowed and denied", name, seen)
		}
	}
}

// TestExamplePoliciesCanFail: without any of its validations, and with one that is always violated, an example fails its own cases.
func TestExamplePoliciesCanFail(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(examplePolicies, "*", "policy.yaml"))
	if err != nil || len(files) != 9 {
		t.Fatalf("%d policies: %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var policy v1alpha1.GuestPolicy
		if err := yaml.UnmarshalStrict(raw, &policy); err != nil {
			t.Fatal(err)
		}
		for i := range policy.Spec.Validations {
			for _, expression := range []string{"true", "false"} {
				changed := policy.DeepCopy()
				changed.Spec.Validations[i].Expression = expression
				folder := copiedFolder(t, filepath.Dir(file))
				raw, err := yaml.Marshal(changed)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "policy.yaml"), raw, 0o600); err != nil {
					t.Fatal(err)
				}
				if r, got := tested(t, folder); !errors.Is(got.err, cmdutil.ErrRejected) || r.Failed == 0 {
					t.Errorf("%s: nothing fails when validations[%d] is '%s': %v", policy.Name, i, expression, got.err)
				}
			}
		}
	}
}

// TestUnselected: 'validate' says that a policy of --policy does not select a VM: the verdict is no answer about the policy then.
func TestUnselected(t *testing.T) {
	t.Parallel()
	_, file := write(t, size, vm)
	of := func(selects string) string {
		_, policy := write(t, "apiVersion: kilnvm.io/v1alpha1\nkind: GuestPolicy\nmetadata: {name: trial}\nspec:\n"+selects+
			"  validations: [{expression: 'true'}]\n")
		return policy
	}
	const message = "GuestPolicy 'trial' does not select VirtualMachine shop/web\n"
	for selects, want := range map[string]string{
		"": "",
		"  matchConstraints: {objectSelector: {matchLabels: {tier: front}}}\n":                          message,
		"  matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: bank}}}\n": message,
		"  matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}\n": "",
		"  matchConditions: [{name: never, expression: 'false'}]\n":                                     message,
		"  matchConditions: [{name: fails, expression: 'request.userInfo.username == \"x\"'}]\n":        "",
	} {
		got := call(t, "", "validate", "-f", file, "--policy", of(selects))
		if has := strings.Contains(got.errOut, message); has != (want == message) || !strings.Contains(got.out+got.errOut, "VirtualMachine shop/web is ") {
			t.Errorf("%s: %v\n%s%s", selects, got.err, got.out, got.errOut)
		}
	}
}

// copiedFolder returns a copy of a folder without folders.
func copiedFolder(t *testing.T, folder string) string {
	t.Helper()
	into := t.TempDir()
	if err := os.CopyFS(into, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return into
}

const (
	onePolicy = `apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicy
metadata: {name: cores}
spec:
  validations:
  - expression: guest.spec.domain.?cpu.?cores.orValue(1) <= 2
    messageExpression: "'at most 2 cores, not ' + string(guest.spec.domain.cpu.cores)"
    field: spec.domain.cpu.cores
`
	oneTest = `apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicyTest
policy: cores
cases:
- {name: few, object: few.yaml, expect: allowed}
- {name: many, object: many.yaml, expect: denied, message: not 4, matches: '^at most \d cores', field: spec.template.spec.domain.cpu.cores}
`
	cores = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web}
spec: {runStrategy: Halted, template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}}}
`
)

// policyFiles writes a policy with two cases that pass, with files changed or added.
func policyFiles(t *testing.T, changed map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{
		"cores.yaml": onePolicy, "cores_test.yaml": oneTest, "few.yaml": cores, "many.yaml": strings.Replace(cores, "cores: 2", "cores: 4", 1),
	}
	for name, text := range changed {
		files[name] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestPolicyTestAnswers(t *testing.T) {
	t.Parallel()
	change := func(text string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("nothing to change: %s", pairs[i])
			}
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
	update := "- {name: update, object: many.yaml, oldObject: few.yaml, expect: denied, message: not 4}\n"
	groups := change(onePolicy, "expression: guest.spec", "expression: >-\n      'admins' in request.userInfo.groups || guest.spec")
	second := func(expression string) map[string]string {
		return map[string]string{"cores.yaml": onePolicy + "  - expression: " + expression + "\n"}
	}
	test := func(pairs ...string) map[string]string {
		return map[string]string{"cores_test.yaml": change(oneTest, pairs...)}
	}
	for _, tried := range []struct {
		why    string
		files  map[string]string
		status int
		says   string
	}{
		{"all pass", nil, 0, ": 1 policy: 2 cases passed, 0 failed\n"},
		{"an update", map[string]string{"cores_test.yaml": oneTest + update}, 0, "3 cases passed"},
		{"an update that makes no difference", map[string]string{
			"cores_test.yaml": oneTest + change(update, "few.yaml", "stopped.yaml", "denied", "warned"),
			"stopped.yaml":    change(cores, "cores: 2", "cores: 4", "Halted", "Manual"),
		}, 0, "3 cases passed"},
		{"a user", map[string]string{"cores.yaml": groups, "cores_test.yaml": oneTest +
			"- {name: admin, object: many.yaml, user: {username: ann, groups: [admins]}, expect: allowed}\n"}, 0, "3 cases passed"},
		{"a warning", map[string]string{"cores.yaml": onePolicy + "  validationActions: [Warn]\n", "cores_test.yaml": change(oneTest, "denied", "warned")}, 0, ""},
		{"an audit", map[string]string{"cores.yaml": onePolicy + "  validationActions: [Audit]\n", "cores_test.yaml": change(oneTest, "denied", "audited")}, 0, ""},
		{"a VM that the policy does not match", map[string]string{"cores.yaml": change(onePolicy, "spec:\n", "spec:\n  matchConstraints: {operations: [UPDATE]}\n"),
			"cores_test.yaml": change(oneTest, "object: many.yaml", "object: many.yaml, oldObject: few.yaml")}, 0, ""},

		{"another answer", test("denied, ", "allowed, "), 1, "message, matches and field must not be set"},
		{"a VM that is allowed", map[string]string{"many.yaml": cores}, 1, "cores_test.yaml:6: expected denied: 'not 4' /^at most \\d cores/ at " +
			"spec.template.spec.domain.cpu.cores, got allowed\n"},
		{"a VM that is denied", map[string]string{"few.yaml": change(cores, "cores: 2", "cores: 3")}, 1, "expected allowed, got denied: 'at most 2 cores, not 3'"},
		{"another message", test("not 4", "not 5"), 1, "FAIL  cores: many\n"},
		{"another expression", test("^at most", "^most"), 1, "FAIL  cores: many\n"},
		{"another field", test("cpu.cores}", "cpu}"), 1, "FAIL  cores: many\n"},
		{"no case", map[string]string{"cores_test.yaml": oneTest[:strings.Index(oneTest, "cases:")] + "cases: []\n"}, 1, "the test has no case"},
		{"no test", map[string]string{"cores_test.yaml": ""}, 1, "FAIL  cores: the policy has no case\n"},
		{"a validation that nothing violates", second("guest != null"), 1,
			"no case violates spec.validations[1], 'guest != null'\n"},
		{"a violation that no case expects shows nothing", second("guest.spec.domain.?cpu.?cores.orValue(1) != 4"), 1,
			"no case violates spec.validations[1]"},
		{"an expression that fails", map[string]string{"cores.yaml": change(onePolicy, ".?cpu.?cores.orValue(1)", ".firmware.uuid.size()") +
			"  failurePolicy: Ignore\n"}, 1, "got failed: 'spec.validations[0].expression: no such key: uuid'"},
		{"a VM that Kiln refuses", map[string]string{"many.yaml": change(cores, "guest: 1Gi", "guest: -1Gi")}, 1,
			"the object is refused whatever the policy says: "},
		{"a VM that the schema refuses", map[string]string{"many.yaml": change(cores, "cores: 2", "kernels: 4")}, 1, "kernels: Forbidden: unknown field"},
		{"a policy that does not compile", map[string]string{"cores.yaml": change(onePolicy, "?cores.orValue", "?kernels.orValue")}, 1,
			"cores.yaml:6 [policy-invalid]"},
		{"a policy that the schema refuses", map[string]string{"cores.yaml": change(onePolicy, "field:", "path:")}, 1, "path: Forbidden: unknown field"},
		{"two policies of a name", map[string]string{"more.yaml": onePolicy}, 1, "another policy of the folder has this name"},
		{"a test of no policy", map[string]string{"more_test.yaml": change(oneTest, "policy: cores", "policy: none")}, 1,
			"no GuestPolicy of this folder is named 'none'"},
		{"a test of a mistyped policy", map[string]string{"more_test.yaml": change(oneTest, "policy: cores", "policy: Core")}, 1,
			"no GuestPolicy of this folder is named 'Core'; did you mean 'cores'?"},
		{"a field that a test does not have", test("expect: allowed", "expect: allowed, massage: a"), 1,
			`unknown field "cases[0].massage"`},
		{"an answer that does not exist", test("expect: allowed", "expect: allow"), 1, "expect must be one of"},
		{"a pattern that is not valid", test(`^at most \d cores`, "("), 1, "matches is not a regular expression"},
		{"two cases of a name", test("name: many", "name: few"), 1, "another case of this test has this name"},
		{"a file that is not there", test("object: few.yaml", "object: none.yaml"), 1, "the file 'none.yaml' is not in"},
		{"a file outside of the folder", test("object: few.yaml", "object: ../../../../etc/passwd"), 1, "is not in the"},
		{"a cluster outside of the folder", test("cases:", "cluster: [/etc/passwd]\ncases:"), 1, "is not in the"},
		{"an update of a VMI", map[string]string{"cores_test.yaml": oneTest + "- {name: vmi, object: vmi.yaml, oldObject: vmi.yaml, expect: allowed}\n",
			"vmi.yaml": "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a}\nspec: {domain: {memory: {guest: 1Gi}, devices: {}}}\n"}, 1,
			"policies judge only VirtualMachines when they are updated"},
		{"a case that is no VM", test("object: few.yaml", "object: cores.yaml"), 1, "is neither a VirtualMachine nor"},
		{"a file that cannot be read", map[string]string{"broken.yaml": "a: ["}, 2, "[unreadable]"},
		{"a control character of a name", test("name: few", `name: "a\e[2Jb"`), 0, "cores: a?[2Jb\n"},
	} {
		got := call(t, "", "policy", "test", policyFiles(t, tried.files))
		if cmdutil.ExitStatus(got.err) != tried.status || !strings.Contains(got.out, tried.says) {
			t.Errorf("%s: exit status %d, want %d and '%s':\n%s%v", tried.why, cmdutil.ExitStatus(got.err), tried.status, tried.says, got.out, got.err)
		}
	}
}

// TestPolicyTestNeedsAPolicy: a mistyped folder must not pass.
func TestPolicyTestNeedsAPolicy(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if got := call(t, "", "policy", "test", folder); cmdutil.ExitStatus(got.err) != 2 || got.out != "" {
			t.Errorf("exit status %d: %v %s", cmdutil.ExitStatus(got.err), got.err, got.out)
		}
	}
	r, _ := tested(t, policyFiles(t, map[string]string{"many.yaml": cores}))
	if !slices.ContainsFunc(r.Cases, func(c policytest.Case) bool { return !c.Passed && c.Reason != "" && c.Line == 6 }) {
		t.Errorf("no failed case with its line: %+v", r.Cases)
	}
}
