package admission

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/yaml"
)

const (
	excepting = `
apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicy
metadata: {name: one-socket}
spec:
  exceptions: {allowed: true, maxDuration: 48h, approvers: [{kind: Group, name: security}, {kind: User, name: ann}]}
  validations: [{name: sockets, expression: "guest.spec.domain.cpu.sockets <= 1"}]
`
	untilTen = `
apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicyException
metadata: {name: until-ten, namespace: team, generation: 3, creationTimestamp: "2027-03-01T07:00:00Z"}
spec:
  policies: [{name: one-socket, validations: [sockets]}]
  virtualMachines: {names: [web]}
  reason: a migration
  expires: "2027-03-01T10:00:00Z"
`
)

// exceptionHooks are the hooks of a cluster with policy one-socket, at eight in the morning.
func exceptionHooks(t *testing.T) map[string]Hook {
	t.Helper()
	written := &v1alpha1.GuestPolicy{}
	if err := yaml.UnmarshalStrict([]byte(excepting), written); err != nil {
		t.Fatal(err)
	}
	compiled, mistakes := policy.Compile(written)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	server := newCluster(t)
	server.Reviewer.Policies = func() ([]*policy.Policy, error) { return []*policy.Policy{compiled}, nil }
	server.Reviewer.Now = func() time.Time { return time.Date(2027, 3, 1, 8, 0, 0, 0, time.UTC) }
	return server.Hooks()
}

// answerException sends a request to both webhooks, and returns the object that is stored, and the message of a refusal.
func answerException(t *testing.T, hooks map[string]Hook, request *admissionv1.AdmissionRequest) (stored, refusal string) {
	t.Helper()
	stored = patched(t, request, ask(t, hooks[MutateException], request))
	request.Object.Raw = []byte(stored)
	if response := ask(t, hooks[ValidateException], request); !response.Allowed {
		return stored, response.Result.Message
	}
	return stored, ""
}

// set returns a document with another value at a path of keys and indices.
func set(t *testing.T, document, path string, value any) string {
	t.Helper()
	var read any
	if err := json.Unmarshal(toJSON(t, document), &read); err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(setAt(read, strings.Split(path, "."), value))
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

// setAt returns a value with another one at a path.
func setAt(in any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if list, ok := in.([]any); ok {
		i, _ := strconv.Atoi(path[0])
		list[i] = setAt(list[i], path[1:], value)
		return list
	}
	fields, _ := in.(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	fields[path[0]] = setAt(fields[path[0]], path[1:], value)
	return fields
}

// TestRequesterOfAnException: admission records the account that creates an exception or changes its spec, whatever the object says.
func TestRequesterOfAnException(t *testing.T) {
	hooks := exceptionHooks(t)
	for _, text := range []string{untilTen, set(t, untilTen, "spec.requestedBy", "ann")} {
		request := create(t, text)
		request.UserInfo.Username = "eve"
		stored, refusal := answerException(t, hooks, request)
		if refusal != "" || gjson.Get(stored, "spec.requestedBy").Str != "eve" {
			t.Errorf("%s: stored %s", refusal, stored)
		}
	}
	unrecorded := create(t, set(t, untilTen, "spec.requestedBy", "ann"))
	unrecorded.UserInfo.Username = "eve"
	if response := ask(t, hooks[ValidateException], unrecorded); response.Allowed || !strings.Contains(response.Result.Message, "spec.requestedBy") {
		t.Errorf("without the mutating webhook: %+v", response)
	}
	stored := set(t, untilTen, "spec.requestedBy", "ann")
	for _, test := range []struct{ why, after, by string }{
		{"labels", set(t, stored, "metadata.labels.a", "b"), "ann"},
		{"a manifest without the account", string(toJSON(t, untilTen)), "ann"},
		{"a forged account", set(t, stored, "spec.requestedBy", "bob"), "ann"},
		{"another reason", set(t, stored, "spec.reason", "another"), "eve"},
		{"another reason and a forged account", set(t, set(t, stored, "spec.reason", "another"), "spec.requestedBy", "bob"), "eve"},
	} {
		request := update(t, stored, test.after)
		request.UserInfo.Username = "eve"
		if after, refusal := answerException(t, hooks, request); refusal != "" || gjson.Get(after, "spec.requestedBy").Str != test.by {
			t.Errorf("%s: %s, by %s", test.why, refusal, gjson.Get(after, "spec.requestedBy").Str)
		}
	}
}

// TestExceptionThatThePolicyDoesNotPermit: a refusal names the field, and what the policy permits.
func TestExceptionThatThePolicyDoesNotPermit(t *testing.T) {
	hooks := exceptionHooks(t)
	forged := set(t, untilTen, "metadata.creationTimestamp", "2027-03-09T07:00:00Z") // the API server replaces it
	for _, test := range []struct{ why, text, want string }{
		{"over", set(t, untilTen, "spec.expires", "2027-03-01T08:00:00Z"), `spec.expires: Invalid value: "2027-03-01 08:00 UTC": is over`},
		{"too long", set(t, untilTen, "spec.expires", "2027-03-03T08:00:01Z"), "GuestPolicy 'one-socket' permits exceptions of at most 48h0m0s"},
		{"too long with a forged creation", set(t, forged, "spec.expires", "2027-03-10T08:00:00Z"), "may last until 2027-03-03 08:00 UTC"},
		{"labels", set(t, untilTen, "spec.virtualMachines", map[string]any{"selector": map[string]any{}}), "spec.virtualMachines.selector"},
		{"an unknown validation", set(t, untilTen, "spec.policies.0.validations.0", "cores"), `spec.policies[0].validations[0]: Unsupported value: "cores"`},
	} {
		request := create(t, test.text)
		request.UserInfo.Username = "eve"
		if _, refusal := answerException(t, hooks, request); !strings.Contains(refusal, test.want) {
			t.Errorf("%s: %q, want %q", test.why, refusal, test.want)
		}
	}
	early := create(t, set(t, untilTen, "spec.policies.0.name", "later"))
	request := ask(t, hooks[ValidateException], early)
	if len(request.Warnings) != 1 || !strings.Contains(request.Warnings[0], "there is no GuestPolicy 'later'") {
		t.Errorf("a policy that comes later: %q", request.Warnings)
	}
}

// TestApprovalOfAnException: only an approver who did not request the exception approves it, as it is, and only in their own name.
func TestApprovalOfAnException(t *testing.T) {
	hooks := exceptionHooks(t)
	stored := set(t, untilTen, "spec.requestedBy", "ann")
	approval := func(value any) string { return set(t, stored, "status.approvals", []any{value}) }
	type fields map[string]any
	security := authenticationv1.UserInfo{Username: "bob", Groups: []string{"security"}}
	for _, test := range []struct {
		why, after string
		user       authenticationv1.UserInfo
		refusal    string
	}{
		{"an approver", approval(fields{"policy": "one-socket"}), security, ""},
		{"an approver of this generation", approval(fields{"policy": "one-socket", "generation": 3}), security, ""},
		{"an approver of the generation before", approval(fields{"policy": "one-socket", "generation": 2}), security, "status.approvals[0].generation"},
		{"a tenant", approval(fields{"policy": "one-socket"}), authenticationv1.UserInfo{Username: "eve"}, "is not among spec.exceptions.approvers"},
		{"a tenant who names an approver", approval(fields{"policy": "one-socket", "by": "bob", "as": fields{"kind": "Group", "name": "security"}, "generation": 3}),
			authenticationv1.UserInfo{Username: "eve"}, "is not among spec.exceptions.approvers"},
		{"the requester, who is an approver", approval(fields{"policy": "one-socket"}), authenticationv1.UserInfo{Username: "ann"}, "somebody else must approve it"},
		{"a policy that the exception does not name", approval(fields{"policy": "other"}), security, "status.approvals[0].policy"},
	} {
		request := update(t, stored, test.after)
		request.SubResource, request.UserInfo = "status", test.user
		after, refusal := answerException(t, hooks, request)
		if test.refusal != "" {
			if !strings.Contains(refusal, test.refusal) {
				t.Errorf("%s: %q, want %q", test.why, refusal, test.refusal)
			}
			continue
		}
		is := gjson.Get(after, "status.approvals.0")
		if refusal != "" || is.Get("by").Str != "bob" || is.Get("as.name").Str != "security" || is.Get("generation").Int() != 3 {
			t.Errorf("%s: %q, %s", test.why, refusal, is)
		}
	}
	renamed := update(t, stored, set(t, approval(fields{"policy": "one-socket"}), "spec.requestedBy", "eve"))
	renamed.SubResource, renamed.UserInfo.Username = "status", "ann"
	if _, refusal := answerException(t, hooks, renamed); !strings.Contains(refusal, "somebody else must approve it") {
		t.Errorf("the requester names another one in an update of the status: %q", refusal)
	}
	forged := update(t, stored, approval(fields{"policy": "one-socket", "by": "carol", "as": fields{"kind": "Group", "name": "security"}, "generation": 3}))
	forged.SubResource, forged.UserInfo = "status", security
	if response := ask(t, hooks[ValidateException], forged); response.Allowed {
		t.Error("without the mutating webhook, an approver writes the name of another one")
	}
	approved := approval(fields{"policy": "one-socket", "by": "bob", "as": fields{"kind": "Group", "name": "security"}, "generation": 3})
	for why, after := range map[string]string{
		"a condition beside the approval": set(t, approved, "status.conditions", []any{}), "an approval that is taken away": stored,
	} {
		request := update(t, approved, after)
		request.SubResource, request.UserInfo.Username = "status", "system:serviceaccount:kiln-system:kiln-controller"
		if _, refusal := answerException(t, hooks, request); refusal != "" {
			t.Errorf("%s: %s", why, refusal)
		}
	}
}
