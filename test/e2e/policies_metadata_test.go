package e2e

import (
	"strings"
	"testing"
)

// TestGuestPolicySeesMetadataOfUpdates: a policy about labels and annotations judges an update that changes only these, of a VM and of a VMI without a VM, by
// each way of writing it. What was violated before is forgiven, and what an update adds is not.
func TestGuestPolicySeesMetadataOfUpdates(t *testing.T) {
	s := newSpace(t)
	alone := strings.Replace(strings.Replace(bare, "sockets: 2", "sockets: 1", 1), "name: bare}", "name: bare, labels: {tier: test}}", 1)
	s.create(strings.Replace(vm("demo"), "name: demo", "name: demo, labels: {tier: test}", 1))
	s.create(alone)
	name := s.policy("tier", `matchConstraints: {}, validations: [
  {expression: "object.metadata.?labels.?tier.orValue('') != 'production'", message: "production is for operators"},
  {expression: "object.metadata.?annotations['example.org/owner'].orValue('') != 'root'", message: "root owns nothing"},
  {expression: "object.metadata.?labels.?team.hasValue()", message: "a team is missing"}]`)
	s.settled("the policy refuses", func() bool {
		return s.denied(strings.Replace(alone, "name: bare, labels: {tier: test", "name: other, labels: {tier: production", 1), name, "production is for operators")
	})
	for _, object := range []string{"vm/demo", "vmi/bare"} {
		for _, c := range []struct {
			args    []string
			message string
		}{
			{[]string{"label", "--overwrite", object, "tier=production"}, "production is for operators"},
			{[]string{"annotate", object, "example.org/owner=root"}, "root owns nothing"},
			{[]string{"patch", object, "--type=merge", "-p", `{"metadata": {"labels": {"tier": "production"}}}`}, "production is for operators"},
			{[]string{"patch", object, "--type=json", "-p", `[{"op": "replace", "path": "/metadata/labels/tier", "value": "production"}]`},
				"production is for operators"},
		} {
			if result := s.kubectl("", c.args...); result.err == nil || !strings.Contains(result.stderr, "GuestPolicy '"+name+"': "+c.message) {
				t.Errorf("%s: %s%s", strings.Join(c.args, " "), result.stdout, result.stderr)
			}
		}
		result := s.kubectl("", "label", object, "other=label")
		if result.err != nil || !strings.Contains(result.stderr, "a team is missing; admitted: violated before") {
			t.Errorf("%s has had no team before the policy came, and another label is refused or not warned of: %s%s", object, result.stdout, result.stderr)
		}
		s.must(s.kubectl("", "label", object, "team=web"))
		if result := s.kubectl("", "label", object, "team-"); result.err == nil || !strings.Contains(result.stderr, "a team is missing") {
			t.Errorf("%s loses its team: %s%s", object, result.stdout, result.stderr)
		}
	}
}
