package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/policyaudit"
)

// TestValidateWithPolicies: policies of --policy and among the files judge, with the exit statuses and documents of all other causes.
func TestValidateWithPolicies(t *testing.T) {
	t.Parallel()
	many := strings.Replace(cores, "cores: 2", "cores: 4", 1)
	warns := onePolicy + "  validationActions: [Warn]\n"
	admins := strings.Replace(onePolicy, "guest.spec", ">-\n      'admins' in request.userInfo.groups || request.userInfo.username == 'ann' || guest.spec", 1)
	team := strings.Replace(onePolicy, "spec:\n", "spec:\n  matchConstraints: {namespaceSelector: {matchLabels: {team: shop}}}\n", 1)
	byName := strings.Replace(onePolicy, "spec:\n", "spec:\n  matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}\n", 1)
	namespace := "---\n{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {team: shop}}}\n"
	const denied = "GuestPolicy 'cores': at most 2 cores, not 4"
	for _, test := range []struct {
		why, policy, files string
		args               []string
		status             int
		says               string
	}{
		{"a VM that is allowed", onePolicy, cores, nil, 0, "is accepted"},
		{"a VM that is denied", onePolicy, many, nil, 1, "spec.template.spec.domain.cpu.cores: Invalid value: 4: " + denied},
		{"with the line of the file", onePolicy, many, nil, 1, "all.yaml:4: spec: {runStrategy"},
		{"a warning", warns, many, nil, 0, "Warning: VirtualMachine default/web: " + denied},
		{"a policy among the files", "", many + "---\n" + onePolicy, nil, 1, denied},
		{"a policy among the files that does not compile", "", cores + "---\n" + strings.Replace(onePolicy, "guest.spec.domain", "guest.spec.domian", 1), nil, 1,
			"spec.validations[0].expression"},
		{"a policy of --policy replaces the policy of the files", warns, many + "---\n" + onePolicy, nil, 0, "Warning: VirtualMachine default/web: " + denied},
		{"nobody's request", admins, many, nil, 1, "GuestPolicy 'cores' failed: spec.validations[0].expression: no such key: username"},
		{"a user's request", admins, many, []string{"--as", "bob"}, 1, denied},
		{"another user's request", admins, many, []string{"--as", "ann"}, 0, "is accepted"},
		{"a group's request", admins, many, []string{"--as", "bob", "--as-group", "admins"}, 0, "is accepted"},
		{"a namespace that no file has", team, many, nil, 0, "is accepted"},
		{"a namespace that a file has", team, many + namespace, nil, 1, denied},
		{"each namespace has its name as label", byName, many, nil, 1, denied},
		{"also one of a file", byName, many + namespace, nil, 1, denied},
		{"a policy that does not compile", strings.Replace(onePolicy, "guest.spec.domain", "guest.spec.domian", 1), cores, nil, 2, "--policy: "},
		{"a file without policies", cores, cores, nil, 2, "--policy: no GuestPolicy in "},
	} {
		_, policy := write(t, test.policy)
		_, file := write(t, test.files)
		args := []string{"validate", "-f", file}
		if test.policy != "" {
			args = append(args, "--policy", policy)
		}
		got := call(t, "", append(args, test.args...)...)
		output := got.out + got.errOut
		if got.err != nil {
			output += got.err.Error()
		}
		if cmdutil.ExitStatus(got.err) != test.status || !strings.Contains(output, test.says) {
			t.Errorf("%s: exit status %d, want %d and '%s':\n%s", test.why, cmdutil.ExitStatus(got.err), test.status, test.says, output)
		}
	}
}

// TestEachMistakeOfPolicies: mistakes of several expressions, and of several policies, are reported at once.
func TestEachMistakeOfPolicies(t *testing.T) {
	t.Parallel()
	_, policies := write(t, strings.ReplaceAll(onePolicy, "guest.spec.domain", "guest.spec.domian")+"---\n"+onePolicy)
	_, file := write(t, cores)
	got := call(t, "", "validate", "-f", file, "--policy", policies)
	lines := strings.Split(got.err.Error(), "\n")
	if cmdutil.ExitStatus(got.err) != 2 || len(lines) != 3 || !strings.Contains(lines[0], ":6: GuestPolicy cores: spec.validations[0].expression: ") ||
		!strings.Contains(lines[1], "messageExpression: ") || !strings.HasSuffix(lines[2], "two policies are named 'cores'") {
		t.Errorf("%q", lines)
	}
}

// TestValidateAnswersPoliciesInJSON: a violation is a cause like any other.
func TestValidateAnswersPoliciesInJSON(t *testing.T) {
	t.Parallel()
	_, policy := write(t, onePolicy)
	_, file := write(t, strings.Replace(cores, "cores: 2", "cores: 4", 1))
	got := call(t, "", "validate", "-f", file, "--policy", policy, "-o", "json")
	var verdict workbench.Judgement
	if err := json.Unmarshal(item(t, got), &verdict); err != nil || cmdutil.ExitStatus(got.err) != 1 || verdict.Allowed || len(verdict.Causes) != 1 {
		t.Fatalf("%v %v: %s", err, got.err, got.out)
	}
	want := workbench.Cause{
		Type: "FieldValueInvalid", Field: "spec.template.spec.domain.cpu.cores", Message: "Invalid value: 4: GuestPolicy 'cores': at most 2 cores, not 4",
		File: file, Line: 4,
	}
	if verdict.Causes[0] != want {
		t.Errorf("got %+v, want %+v", verdict.Causes[0], want)
	}
}

func TestPolicyAuditOfFiles(t *testing.T) {
	t.Parallel()
	many := strings.Replace(strings.Replace(cores, "cores: 2", "cores: 4", 1), "name: web", "name: big", 1)
	_, policy := write(t, onePolicy)
	for _, test := range []struct {
		why, files string
		args       []string
		status     int
		says       string
	}{
		{"nothing violates it", cores, []string{"--policy", policy}, 0, "1 object by 1 policy: 0 violations\n"},
		{"a VM violates it", cores + "---\n" + many, []string{"--policy", policy}, 1,
			"NAMESPACE   NAME     POLICY   MESSAGE                   FIELD\n" +
				"default     vm/big   cores    at most 2 cores, not 4    spec.template.spec.domain.cpu.cores\n2 objects by 1 policy: 1 violation\n"},
		{"with actions", cores + "---\n" + many, []string{"--policy", policy, "-o", "wide"}, 1, "NAMESPACE NAME POLICY ACTIONS MESSAGE FIELD\n" +
			"default vm/big cores Deny at most 2 cores"},
		{"names", cores + "---\n" + many, []string{"--policy", policy, "-o", "name"}, 1, "virtualmachine.kubevirt.io/big"},
		{"a policy among the files", many + "---\n" + onePolicy, nil, 1, "1 violation"},
		{"no policy", cores, nil, 0, "there is no GuestPolicy, so nothing violates one"},
		{"no policy, and a file that cannot be read", cores + "---\na: [", nil, 2, "error: "},
		{"a file that cannot be read", cores + "---\na: [", []string{"--policy", policy}, 2, "error: "},
	} {
		_, file := write(t, test.files)
		got := call(t, "", append([]string{"policy", "audit", "-f", file}, test.args...)...)
		output := got.out + got.errOut
		if got.err != nil {
			output += got.err.Error()
		}
		if cmdutil.ExitStatus(got.err) != test.status || !strings.Contains(strings.Join(strings.Fields(output), " "), strings.Join(strings.Fields(test.says), " ")) {
			t.Errorf("%s: exit status %d, want %d and '%s':\n%s", test.why, cmdutil.ExitStatus(got.err), test.status, test.says, output)
		}
	}
	_, file := write(t, many)
	got := call(t, "", "policy", "audit", "-f", file, "--policy", policy, "-o", "json")
	var audit policyaudit.Audit
	if err := json.Unmarshal([]byte(got.out), &audit); err != nil || cmdutil.ExitStatus(got.err) != 1 || len(audit.Violations) != 1 {
		t.Fatalf("%v %v: %s", err, got.err, got.out)
	}
	if v := audit.Violations[0]; v.Name != "big" || v.Policy != "cores" || v.Field != "spec.template.spec.domain.cpu.cores" || len(v.Actions) != 1 {
		t.Errorf("got %+v", v)
	}
}

// TestPolicyAuditOfACluster: a cluster without policies has no violation; one whose policies the user may not list has no answer.
func TestPolicyAuditOfACluster(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		forbidden []string
		status    int
		says      string
	}{{nil, 0, "there is no GuestPolicy, so nothing violates one"}, {[]string{"guestpolicies"}, 2, "you may not list GuestPolicies"}} {
		got := call(t, "", append([]string{"policy", "audit", "-A"}, (&apiServer{forbidden: c.forbidden}).serve(t, vm)...)...)
		output := got.errOut
		if got.err != nil {
			output += got.err.Error()
		}
		if cmdutil.ExitStatus(got.err) != c.status || !strings.Contains(output, c.says) || got.out != "" {
			t.Errorf("%q: exit status %d, want %d: %s%s", c.forbidden, cmdutil.ExitStatus(got.err), c.status, output, got.out)
		}
	}
}
