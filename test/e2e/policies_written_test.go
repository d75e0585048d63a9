package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestGuestPolicyJudgesWhatComesLater: a VM whose instancetype is written after it is judged when the controller pins it, and does not start.
func TestGuestPolicyJudgesWhatComesLater(t *testing.T) {
	s := newSpace(t)
	name := s.policy("few", fewSockets)
	s.settled("the policy refuses", func() bool { return s.denied(vm("new"), name) })
	evading := vm("evading", append(running, "{name: small}", "{name: own, kind: VirtualMachineInstancetype}")...)
	s.create(evading)
	s.create(size("own", 4, "128Mi"))
	s.eventually("the VM says why it does not start", func() bool {
		return strings.Contains(s.must(s.read("vm", "evading", "{.status.conditions}")).stdout, "at most one socket")
	})
	if s.exists("vmi", "evading") {
		t.Error("the VM started")
	}
}

// TestGuestPolicyIsJudgedWhenWritten: a policy that does not compile, costs too much or names a field that does not exist is refused at its position, in
// time. Tenants may read policies and not write them.
func TestGuestPolicyIsJudgedWhenWritten(t *testing.T) {
	s := newSpace(t)
	all := "object.metadata.labels.all(%s, "
	nested := fmt.Sprintf(all+all+all+all, "a", "b", "c", "d") + "a + b + c + d != '')" + strings.Repeat(")", 3)
	for _, test := range []struct{ why, expression, want string }{
		{"no CEL", "object.metadata.name ==", `spec.validations[0].expression: Invalid value: "object.metadata.name ==": 1:24`},
		{"on a second line", "true &&\\n  object.metadata.nam == 'a'", `Invalid value: "true &&   object.metadata.nam == 'a'": 2:18: undefined field 'nam'`},
		{"another type", "object.metadata.name", "spec.validations[0].expression"},
		{"a nested comprehension", nested, "cost"},
	} {
		began := time.Now()
		result := s.kubectl(s.policyText(s.name+"-wrong", `matchConstraints: {}, validations: [{expression: "`+test.expression+`"}]`), "apply", "-f", "-")
		if result.err == nil || !strings.Contains(result.stderr, test.want) || time.Since(began) > 20*time.Second {
			t.Errorf("%s: after %s %s%s, want '%s'", test.why, time.Since(began), result.stdout, result.stderr, test.want)
		}
	}
	s.must(s.kubectl("", "create", "rolebinding", "tenant", "--clusterrole=admin", "--user=tenant"))
	for verb, want := range map[string]string{"list": "yes", "create": "no", "update": "no", "delete": "no"} {
		var allowed string
		if !s.soon(func() bool {
			allowed = strings.TrimSpace(s.kubectl("", "auth", "can-i", verb, "guestpolicies", "--as=tenant", "--as-group=system:authenticated").stdout)
			return allowed == want
		}) {
			t.Errorf("may a tenant %s policies? %s", verb, allowed)
		}
	}
}

// TestExpensiveGuestPolicyEnds: a policy that is admitted because it may cost what is allowed, and costs more on a hostile object, refuses that object in
// time and names itself. Other objects are judged as before.
func TestExpensiveGuestPolicyEnds(t *testing.T) {
	s := newSpace(t)
	name := s.policy("dear", `matchConstraints: {resources: [virtualmachines]}, validations: [{expression: "
  !has(object.spec.template.spec.tolerations) || object.spec.template.spec.tolerations.all(a,
  object.spec.template.spec.tolerations.all(b, a.key != '' && b.key != ''))"}]`)
	var hostile []string
	for i := range 500 {
		hostile = append(hostile, fmt.Sprintf("{key: key-%d, operator: Exists}", i))
	}
	many := vm("many", "      nodeSelector:", "      tolerations: ["+strings.Join(hostile, ", ")+"]\n      nodeSelector:")
	// The API server waits 10 s for the webhook: an answer with the webhook's words has ended in time.
	s.settled("it refuses the object, and says why", func() bool {
		return s.denied(many, "GuestPolicy '"+name+"' failed: spec.validations[0].expression", "cost")
	})
	s.create(vm("few"))
}
