package policy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/policy"
	"sigs.k8s.io/yaml"
)

// TestAsValidatingPolicy: a policy that needs only object, params and namespace becomes a ValidatingAdmissionPolicy with all its parts, and another one says
// why it cannot.
func TestAsValidatingPolicy(t *testing.T) {
	t.Parallel()
	of := read(t, "owner", `
paramKind: {apiVersion: v1, kind: ConfigMap}
paramRef: {name: teams, namespace: shared, parameterNotFoundAction: Deny}
matchConstraints: {resources: [virtualmachines], operations: [CREATE], namespaceSelector: {matchLabels: {tier: gold}},
  objectSelector: {matchLabels: {app: web}}}
matchConditions: [{name: named, expression: "object.metadata.name != ''"}]
variables: [{name: team, expression: "object.metadata.labels['team']"}]
validations: [{expression: "variables.team in params.data", messageExpression: "'no team ' + variables.team", message: unknown team, reason: Forbidden}]
auditAnnotations: [{key: team, valueExpression: "variables.team"}]
validationActions: [Warn, Audit]
failurePolicy: Ignore
`)
	written, errs := policy.AsValidatingPolicy(of, nil)
	if len(errs) > 0 || len(written.Notes) > 0 {
		t.Fatal(errs, written)
	}
	got, err := yaml.Marshal(map[string]any{"policy": written.Policy.Spec, "binding": written.Binding.Spec})
	if err != nil {
		t.Fatal(err)
	}
	const want = `binding:
  paramRef:
    name: teams
    namespace: shared
    parameterNotFoundAction: Deny
  policyName: owner
  validationActions:
  - Warn
  - Audit
policy:
  auditAnnotations:
  - key: team
    valueExpression: variables.team
  failurePolicy: Ignore
  matchConditions:
  - expression: object.metadata.name != ''
    name: named
  matchConstraints:
    namespaceSelector:
      matchLabels:
        tier: gold
    objectSelector:
      matchLabels:
        app: web
    resourceRules:
    - apiGroups:
      - kubevirt.io
      apiVersions:
      - v1
      operations:
      - CREATE
      resources:
      - virtualmachines
  paramKind:
    apiVersion: v1
    kind: ConfigMap
  validations:
  - expression: variables.team in params.data
    message: unknown team
    messageExpression: '''no team '' + variables.team'
    reason: Forbidden
  variables:
  - expression: object.metadata.labels['team']
    name: team
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Both resources and operations: the conditions of the webhooks, and no VMI that a controller makes for a VM.
	both := read(t, "both", `validations: [{expression: "has(object.metadata.labels)", field: metadata.labels}]`)
	written, errs = policy.AsValidatingPolicy(both, []string{"system:serviceaccount:kiln-system:kiln-controller"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var conditions []string
	for _, c := range written.Policy.Spec.MatchConditions {
		conditions = append(conditions, c.Name)
	}
	if got := fmt.Sprint(conditions); got != "[kiln-something-to-judge kiln-more-than-a-stop kiln-not-made-for-a-vm]" ||
		!strings.Contains(written.Policy.Spec.MatchConditions[2].Expression, "in ['system:serviceaccount:kiln-system:kiln-controller']") || len(written.Notes) != 2 {
		t.Errorf("%s, notes %q", got, written.Notes)
	}
	for _, test := range [][2]string{
		{`validations: [{expression: "guest == null"}]`,
			"spec.validations[0].expression: Forbidden: it reads 'guest'"},
		{`{variables: [{name: a, expression: "instancetype == null"}], validations: [{expression: "variables.a"}]}`,
			"spec.variables[0].expression: Forbidden: it reads 'instancetype'"},
		{`{matchConditions: [{name: a, expression: "preference != null"}], validations: [{expression: "true"}]}`,
			"spec.matchConditions[0].expression: Forbidden: it reads 'preference'"},
		{`validations: [{expression: "true", messageExpression: "guest.metadata.name"}]`,
			"spec.validations[0].messageExpression: Forbidden: it reads 'guest'"},
		{`{validations: [{expression: "true"}], auditAnnotations: [{key: a, valueExpression: "guest.metadata.name"}]}`,
			"spec.auditAnnotations[0].valueExpression: Forbidden: it reads 'guest'"},
		{`validations: [{expression: "object.metadata.nothing == 1"}]`,
			"undefined field 'nothing'"},
		{`{matchConstraints: {resources: [virtualmachines]}, validations: [{expression: "object.spec.template.spec.domain.guest == 1"}]}`,
			"undefined field 'guest'"},
	} {
		if _, errs := policy.AsValidatingPolicy(read(t, "p", test[0]), nil); !strings.Contains(fmt.Sprint(errs), test[1]) {
			t.Errorf("%s: %v, want '%s'", test[0], errs, test[1])
		}
	}
}

// TestConditionsOfTheWebhooks: a ValidatingAdmissionPolicy judges the updates that the webhooks judge.
func TestConditionsOfTheWebhooks(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../manifests/webhook/configurations/configurations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	installed := regexp.MustCompile(`\s+`).ReplaceAllString(string(raw), " ")
	for _, expression := range []string{policy.SomethingToJudge, policy.SpecChangesIfBeingDeleted, policy.MoreThanAStop} {
		if !strings.Contains(installed, expression) {
			t.Errorf("no webhook has the condition\n%s", expression)
		}
	}
}
