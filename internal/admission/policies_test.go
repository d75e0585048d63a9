package admission

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const onlyOneSocket = `
apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicy
metadata: {name: one-socket}
spec:
  matchConstraints: {namespaceSelector: {matchLabels: {tier: gold}}}
  validationActions: [Deny, Audit]
  validations: [{expression: "guest.spec.domain.cpu.sockets <= 1", message: one socket, field: spec.domain.cpu}]
  auditAnnotations: [{key: by, valueExpression: "request.userInfo.username + (request.dryRun ? ' tries' : '')"}]
`

// TestPoliciesOfWebhooks: the mutating webhook admits what the policies alone refuse, and the validating webhook refuses it, with annotations for the audit
// event. Nothing is read from the API server for that.
func TestPoliciesOfWebhooks(t *testing.T) {
	written := &v1alpha1.GuestPolicy{}
	if err := yaml.UnmarshalStrict([]byte(onlyOneSocket), written); err != nil {
		t.Fatal(err)
	}
	compiled, mistakes := policy.Compile(written)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	size, team := document(t, catalog), document(t, "{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: gold}}}")
	known := []*unstructured.Unstructured{size, snapshot(t, size), team}
	server, made := counted(t, nil, known)
	server.Reviewer.Policies = func() ([]*policy.Policy, error) { return []*policy.Policy{compiled}, nil }
	request := create(t, sparse)
	request.UserInfo.Username, request.DryRun = "ann", new(true)
	first := ask(t, server.Hooks()[MutateVM], request)
	second := create(t, patched(t, request, first))
	second.UserInfo, second.DryRun = request.UserInfo, request.DryRun
	response := ask(t, server.Hooks()[ValidateVM], second)
	if response.Allowed || response.Result.Code != 422 || len(response.Result.Details.Causes) != 1 {
		t.Fatalf("%+v", response)
	}
	cause := response.Result.Details.Causes[0]
	if cause.Field != "spec.template.spec.domain.cpu" || !strings.Contains(cause.Message, "GuestPolicy 'one-socket': one socket") {
		t.Errorf("%+v", cause)
	}
	audit := response.AuditAnnotations
	if audit["one-socket_by"] != "ann tries" || !strings.Contains(audit["validation_failure"], `"policy":"one-socket"`) {
		t.Errorf("audit annotations %v", audit)
	}
	if *made != (requests{}) {
		t.Errorf("requests that left the process: %+v", *made)
	}
}

// TestWrittenPolicies: a policy that does not compile is refused with line and column.
func TestWrittenPolicies(t *testing.T) {
	for _, test := range []struct{ why, from, to, field, says string }{
		{"a policy", "", "", "", ""},
		{"a field that does not exist", "guest.spec.domain.cpu.sockets <= 1",
			"true &&\\n guest.spec.cpu.sockets <= 1", "spec.validations[0].expression", "2:12: undefined field 'cpu'"},
		{"an illegal key of an audit annotation", "key: by", "key: 'b y'", "spec.auditAnnotations[0].key", "legal key"},
		{"a policy whose author wrote a deletionTimestamp", "metadata: {name: one-socket}",
			"metadata: {name: one-socket, deletionTimestamp: '2026-01-01T00:00:00Z'}", "", ""},
	} {
		text := onlyOneSocket
		if test.from != "" {
			if !strings.Contains(text, test.from) {
				t.Fatalf("nothing to change: %s", test.from)
			}
			text = strings.Replace(text, test.from, test.to, 1)
		}
		response := ask(t, newCluster(t).Hooks()[ValidatePolicy], create(t, text))
		if response.Allowed != (test.field == "") {
			t.Errorf("%s: %+v", test.why, response)
			continue
		}
		if !response.Allowed {
			if cause := response.Result.Details.Causes[0]; cause.Field != test.field || !strings.Contains(cause.Message, test.says) {
				t.Errorf("%s: %+v", test.why, cause)
			}
		}
	}
}

// TestForgedPinsOfAVMI: an update that only controllers may write is refused for that, although a policy cannot be evaluated because a pinned revision does not
// exist.
func TestForgedPinsOfAVMI(t *testing.T) {
	written := &v1alpha1.GuestPolicy{}
	if err := yaml.UnmarshalStrict([]byte(onlyOneSocket), written); err != nil {
		t.Fatal(err)
	}
	compiled, _ := policy.Compile(written)
	server := newCluster(t)
	server.Reviewer.Policies = func() ([]*policy.Policy, error) { return []*policy.Policy{compiled}, nil }
	const pinned = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, spec: {domain: {devices: {}}},
  metadata: {name: web, namespace: team, annotations: {kilnvm.io/pins: '{"presets":[],"profiles":[]}'}}}`
	forged := update(t, pinned, strings.Replace(pinned, `"profiles":[]`, `"profiles":["web-aaaaaaaaaaaaaaaaaaaaaaaaaa"]`, 1))
	forged.UserInfo.Username = "tenant"
	response := ask(t, server.Hooks()[ValidateVMI], forged)
	if response.Allowed || response.Result.Code != 422 || !strings.Contains(response.Result.Message, "only controllers may change") {
		t.Errorf("%+v", response.Result)
	}
}
