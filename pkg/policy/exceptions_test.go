package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// twoCores denies guests with more than one core, and with more than one socket; both validations fail for guests of small.
const twoCores = `
exceptions: {allowed: true, maxDuration: 48h, approvers: [{kind: Group, name: security}]}
validations:
- {name: cores, expression: guest.spec.domain.cpu.cores <= 1, message: too many cores}
- {name: disks, expression: size(guest.spec.domain.devices.disks) <= 1, message: too many disks}`

// morning is the time of the requests.
var morning = time.Date(2027, 3, 1, 8, 0, 0, 0, time.UTC)

// approved is an exception that permits one validation of policy 'cores' for VM shop/web until two hours after the morning.
const approved = `
metadata: {name: until-ten, namespace: shop, generation: 3, creationTimestamp: "2027-03-01T07:00:00Z"}
spec:
  policies: [{name: cores, validations: [cores]}]
  virtualMachines: {names: [web]}
  reason: a migration
  expires: "2027-03-01T10:00:00Z"
  requestedBy: ann
status: {approvals: [{policy: cores, by: bob, as: {kind: Group, name: security}, generation: 3}]}`

// exception reads an exception, changed by edits.
func exception(t testing.TB, edits ...func(*v1alpha1.GuestPolicyException)) *v1alpha1.GuestPolicyException {
	t.Helper()
	x := &v1alpha1.GuestPolicyException{}
	if err := yaml.UnmarshalStrict([]byte(approved), x); err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(x)
	}
	return x
}

// exceptions is a source of these exceptions.
func exceptions(all ...*v1alpha1.GuestPolicyException) policy.ExceptionSource {
	return func(namespace string) (found []*policy.Exception) {
		for _, of := range all {
			if of.Namespace == namespace {
				found = append(found, policy.NewException(of))
			}
		}
		slices.SortFunc(found, policy.CompareExceptions)
		return found
	}
}

// TestException: an exception permits the validations that it names, until its end. The result contains the exception, for people and for the
// audit event.
func TestException(t *testing.T) {
	t.Parallel()
	p := compile(t, "cores", twoCores)
	request := small()
	request.Exceptions, request.Now = exceptions(exception(t)), morning
	result := policy.Judge(nil, []*policy.Policy{p}, request)
	if len(result.Errors) != 1 || !strings.Contains(result.Errors[0].Detail, "too many disks") {
		t.Errorf("errors %v, want only the validation that the exception does not name", result.Errors)
	}
	want := "GuestPolicy 'cores': too many cores; permitted until 2027-03-01 10:00 UTC by GuestPolicyException 'shop/until-ten'"
	if len(result.Warnings) != 1 || result.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", result.Warnings, want)
	}
	if audit := result.Audit[policy.ExceptionsKey]; !strings.Contains(audit, `"exception":"shop/until-ten"`) || strings.Contains(audit, "disks") {
		t.Errorf("audit %s", audit)
	}
	if len(result.Violations) != 2 || result.Violations[0].Exception != "shop/until-ten" || result.Violations[1].Exception != "" {
		t.Errorf("violations %+v: an exception hides none", result.Violations)
	}
}

// TestExceptionsWithoutEffect: what permits nothing, and the reason: attempts of a tenant, wrong clocks, and what an administrator takes back.
func TestExceptionsWithoutEffect(t *testing.T) {
	t.Parallel()
	type of = *v1alpha1.GuestPolicyException
	label := func(x of) {
		x.Spec.VirtualMachines = v1alpha1.GuestPolicyExceptionMatch{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	}
	for _, test := range []struct {
		why    string
		spec   string
		edit   func(of)
		now    time.Time
		reason string
	}{
		{why: "as it is", reason: v1alpha1.ReasonApproved},
		{why: "it has ended", now: morning.Add(2 * time.Hour), reason: v1alpha1.ReasonExpired},
		{why: "a clock is a year ahead", now: morning.AddDate(1, 0, 0), reason: v1alpha1.ReasonExpired},
		{why: "the clock is right again", reason: v1alpha1.ReasonApproved},
		{why: "a clock is an hour behind", now: morning.Add(-time.Hour), reason: v1alpha1.ReasonApproved},
		{why: "nobody has approved", edit: func(x of) { x.Status.Approvals = nil }, reason: v1alpha1.ReasonNotApproved},
		{why: "the requester has approved", edit: func(x of) { x.Status.Approvals[0].By = "ann" }, reason: v1alpha1.ReasonNotApproved},
		{why: "the requester is not recorded", edit: func(x of) { x.Spec.RequestedBy = "" }, reason: v1alpha1.ReasonNotApproved},
		{why: "the approver is not recorded", edit: func(x of) { x.Status.Approvals[0].By = "" }, reason: v1alpha1.ReasonNotApproved},
		{why: "the spec has changed since", edit: func(x of) { x.Generation++ }, reason: v1alpha1.ReasonNotApproved},
		{why: "another policy is approved", edit: func(x of) { x.Status.Approvals[0].Policy = "memory" }, reason: v1alpha1.ReasonNotApproved},
		{why: "the approver is not listed any more", spec: strings.Replace(twoCores, "security", "auditors", 1), reason: v1alpha1.ReasonNotApproved},
		{why: "an approver whom nobody named", edit: func(x of) { x.Status.Approvals[0].As.Kind = "User" }, reason: v1alpha1.ReasonNotApproved},
		{why: "exceptions are not allowed", spec: strings.Replace(twoCores, "allowed: true", "allowed: false", 1), reason: v1alpha1.ReasonNotAllowed},
		{why: "the policy has none", spec: twoCores[strings.Index(twoCores, "validations"):], reason: v1alpha1.ReasonNotAllowed},
		{why: "it is too long", edit: func(x of) { x.Spec.Expires.Time = morning.Add(48 * time.Hour) }, reason: v1alpha1.ReasonNotAllowed},
		{why: "it is too long, approved by a clock that is ahead", now: morning.AddDate(0, 0, 7),
			edit: func(x of) { x.Spec.Expires.Time = morning.AddDate(0, 0, 8) }, reason: v1alpha1.ReasonNotAllowed},
		{why: "labels, which tenants write", edit: label, reason: v1alpha1.ReasonNotAllowed},
		{why: "labels are permitted", edit: label, spec: strings.Replace(twoCores, "maxDuration", "selectors: true, maxDuration", 1),
			reason: v1alpha1.ReasonApproved},
		{why: "a validation that does not exist", edit: func(x of) { x.Spec.Policies[0].Validations = []string{"memory"} }, reason: v1alpha1.ReasonNotAllowed},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			spec, now := twoCores, morning
			if test.spec != "" {
				spec = test.spec
			}
			if !test.now.IsZero() {
				now = test.now
			}
			x := exception(t)
			if test.edit != nil {
				test.edit(x)
			}
			p := compile(t, "cores", spec)
			if state := p.ExceptionState(x, now); state.Reason != test.reason || (state.Message == "") != state.InForce() {
				t.Errorf("%+v, want %s", state, test.reason)
			}
			request := small()
			request.Exceptions, request.Now = exceptions(x), now
			denied := 2
			if test.reason == v1alpha1.ReasonApproved {
				denied = 1
			}
			if result := policy.Judge(nil, []*policy.Policy{p}, request); len(result.Errors) != denied {
				t.Errorf("%d errors, want %d: %v", len(result.Errors), denied, result.Errors)
			}
		})
	}
}

// TestExceptionsOfOthers: an exception is for the VMs that it selects in its own namespace.
func TestExceptionsOfOthers(t *testing.T) {
	t.Parallel()
	x := exception(t)
	for _, test := range []struct {
		namespace, name string
		selects         bool
	}{{"shop", "web", true}, {"shop", "web2", false}, {"bank", "web", false}, {"shop", "", false}} {
		object := &metav1.ObjectMeta{Namespace: test.namespace, Name: test.name, Labels: labels.Set{"app": "web"}}
		if got := policy.NewException(x).Selects(object); got != test.selects {
			t.Errorf("%s/%s: %v", test.namespace, test.name, got)
		}
	}
	bad := exception(t, func(x *v1alpha1.GuestPolicyException) {
		x.Spec.VirtualMachines = v1alpha1.GuestPolicyExceptionMatch{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}}
	})
	if policy.NewException(bad).Selects(&metav1.ObjectMeta{Namespace: "shop", Name: "web"}) {
		t.Error("a wrong selector selects")
	}
}

// TestApprover: accounts, groups and ServiceAccounts approve, each only by the kind under which the policy has them.
func TestApprover(t *testing.T) {
	t.Parallel()
	p := compile(t, "cores", `
exceptions:
  allowed: true
  maxDuration: 1h
  approvers: [{kind: User, name: bob}, {kind: Group, name: security}, {kind: ServiceAccount, namespace: ops, name: bot}]
validations: [{expression: "true"}]`)
	for _, test := range []struct {
		user authenticationv1.UserInfo
		kind string
	}{
		{authenticationv1.UserInfo{Username: "bob"}, "User"},
		{authenticationv1.UserInfo{Username: "eve", Groups: []string{"staff", "security"}}, "Group"},
		{authenticationv1.UserInfo{Username: "system:serviceaccount:ops:bot"}, "ServiceAccount"},
		{authenticationv1.UserInfo{Username: "security", Groups: []string{"bob"}}, ""},
		{authenticationv1.UserInfo{Username: "system:serviceaccount:shop:bot"}, ""},
		{authenticationv1.UserInfo{Username: "bot"}, ""},
	} {
		if as, may := p.Approver(test.user); as.Kind != test.kind || may != (test.kind != "") {
			t.Errorf("%s: %+v", test.user.Username, as)
		}
	}
}

// TestMistakesInExceptionsOfPolicies: a policy that permits exceptions says how long and by whom, and names its validations once.
func TestMistakesInExceptionsOfPolicies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ spec, at string }{
		{`exceptions: {allowed: true, approvers: [{kind: User, name: bob}]}`, "spec.exceptions.maxDuration"},
		{`exceptions: {allowed: true, maxDuration: -1h, approvers: [{kind: User, name: bob}]}`, "spec.exceptions.maxDuration"},
		{`exceptions: {allowed: true, maxDuration: 1h}`, "spec.exceptions.approvers"},
		{`exceptions: {allowed: false, approvers: [{kind: Admin, name: bob}]}`, "spec.exceptions.approvers[0].kind"},
		{`exceptions: {allowed: false, approvers: [{kind: User}]}`, "spec.exceptions.approvers[0].name"},
		{`exceptions: {allowed: false, approvers: [{kind: ServiceAccount, name: bot}]}`, "spec.exceptions.approvers[0].namespace"},
		{`exceptions: {allowed: false, approvers: [{kind: Group, name: a, namespace: b}]}`, "spec.exceptions.approvers[0].namespace"},
	} {
		_, errs := policy.Compile(read(t, "p", test.spec+"\nvalidations: [{expression: 'true'}]"))
		if len(errs) != 1 || errs[0].Field != test.at {
			t.Errorf("%s: %v, want a mistake at %s", test.spec, errs, test.at)
		}
	}
	_, errs := policy.Compile(read(t, "p", "validations: [{name: a, expression: 'true'}, {name: a, expression: 'true'}, "+
		"{expression: 'true'}, {expression: 'true'}]"))
	if len(errs) != 1 || errs[0].Field != "spec.validations[1].name" {
		t.Errorf("two validations of one name: %v", errs)
	}
}
