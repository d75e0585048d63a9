package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/policyaudit"
)

const (
	// exceptedPolicy is onePolicy, which permits exceptions.
	exceptedPolicy = onePolicy + "  exceptions: {allowed: true, maxDuration: 168h, approvers: [{kind: User, name: bob}]}\n"
	// coresException permits the violations of VM web until March 5 of 2027.
	coresException = `apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicyException
metadata: {name: load-test, namespace: default, creationTimestamp: "2027-03-01T00:00:00Z"}
spec:
  policies: [{name: cores}]
  virtualMachines: {names: [web]}
  reason: a test
  expires: "2027-03-05T00:00:00Z"
  requestedBy: ann
status: {approvals: [{policy: cores, by: bob, as: {kind: User, name: bob}}]}
`
)

// TestPolicyTestWithExceptions: a case with a time tests what an exception permits, and from when on it permits nothing.
func TestPolicyTestWithExceptions(t *testing.T) {
	t.Parallel()
	test := strings.Replace(oneTest, "cases:\n", "cluster: [exception.yaml]\ncases:\n"+
		"- {name: in time, object: many.yaml, now: 2027-03-04T23:59:59Z, expect: excepted, message: not 4}\n"+
		"- {name: later, object: many.yaml, now: 2027-03-05T00:00:00Z, expect: denied}\n", 1)
	test = strings.Replace(test, "{name: many, ", "{name: many, now: 2027-03-06T00:00:00Z, ", 1)
	for _, tried := range []struct {
		why, exception string
		status         int
		says           string
	}{
		{"an approved exception", coresException, 0, "4 cases passed"},
		{"nobody has approved it", strings.Replace(coresException, "by: bob", "by: ann", 1), 1, "expected excepted: 'not 4', got denied"},
	} {
		got := call(t, "", "policy", "test", policyFiles(t, map[string]string{
			"cores.yaml": exceptedPolicy, "cores_test.yaml": test, "exception.yaml": tried.exception}))
		if cmdutil.ExitStatus(got.err) != tried.status || !strings.Contains(got.out, tried.says) {
			t.Errorf("%s: exit status %d, want %d and '%s':\n%s%v", tried.why, cmdutil.ExitStatus(got.err), tried.status, tried.says, got.out, got.err)
		}
	}
}

// TestExceptionsOfFiles: an audit, 'policy why' and 'validate' take the exceptions of files. An audit has exit status 0 if all violations are permitted.
func TestExceptionsOfFiles(t *testing.T) {
	t.Parallel()
	many := strings.Replace(cores, "cores: 2", "cores: 4", 1)
	lasting := strings.NewReplacer("2027-03-05", "2099-03-05", "2027-03-01", "2099-03-01").Replace(coresException)
	_, file := write(t, many, exceptedPolicy, lasting)
	audit := call(t, "", "policy", "audit", "-f", file)
	if audit.err != nil || !strings.Contains(audit.out, "not 4 (permitted until 2099-03-05 00:00 UTC by default/load-test)") ||
		!strings.Contains(audit.errOut, "1 violation, 1 of them permitted by GuestPolicyExceptions") {
		t.Errorf("%v\n%s%s", audit.err, audit.out, audit.errOut)
	}
	why := call(t, "", "policy", "why", "-f", file, "-o", "json")
	var answered struct{ Items []policyaudit.Why }
	if err := json.Unmarshal([]byte(why.out), &answered); err != nil || len(answered.Items) != 1 || len(answered.Items[0].Policies) != 1 ||
		answered.Items[0].Policies[0].Create != policyaudit.SayExcepted || len(answered.Items[0].Policies[0].Exceptions) != 1 {
		t.Errorf("%v: %v: %s%s", why.err, err, why.out, why.errOut)
	}
	valid := call(t, "", "validate", "-f", file)
	if valid.err != nil || !strings.Contains(valid.errOut, "permitted until 2099-03-05 00:00 UTC by GuestPolicyException 'default/load-test'") {
		t.Errorf("%v\n%s%s", valid.err, valid.out, valid.errOut)
	}
	_, over := write(t, many, exceptedPolicy, strings.Replace(coresException, "2027-03-05", "2026-03-05", 1))
	if got := call(t, "", "validate", "-f", over); cmdutil.ExitStatus(got.err) != 1 || !strings.Contains(got.out+got.errOut, "spec.expires") ||
		!strings.Contains(got.out+got.errOut, "is over") {
		t.Errorf("%v\n%s%s", got.err, got.out, got.errOut)
	}
}
