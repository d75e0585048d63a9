package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/poll"
)

// TestPolicyWithParams: a policy reads the limit of a ConfigMap in a namespace of administrators. It refuses until Kiln may read the ConfigMap, follows each
// change of it, and a ConfigMap of the tenant with the same name has no effect.
func TestPolicyWithParams(t *testing.T) {
	s := newSpace(t)
	admins := s.name + "-admins"
	if err := s.on.MakeNamespace(t.Context(), admins); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.on.RemoveNamespace(context.Background(), admins) })
	limit := func(namespace, sockets string) {
		s.must(s.kubectl(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: limits, namespace: %s}, data: {sockets: "%s"}}`, namespace, sockets),
			"apply", "-n", namespace, "-f", "-"))
	}
	limit(admins, "1")
	spec := func(member string) string {
		return fmt.Sprintf(`paramKind: {apiVersion: v1, kind: ConfigMap}, paramRef: {name: limits, namespace: %s, parameterNotFoundAction: Deny},
  matchConstraints: {}, validations: [{field: spec.domain.cpu.sockets, message: "too many sockets",
  expression: "guest == null || guest.spec.domain.cpu.sockets <= uint(params.%s.sockets)"}]`, admins, member)
	}
	if got := s.kubectl(s.policyText(s.name+"-unknown", spec("date")), "apply", "-f", "-"); !strings.Contains(got.stderr, "spec.validations[0].expression") ||
		!strings.Contains(got.stderr, "undefined field 'date'") {
		t.Errorf("a field that ConfigMaps do not have: %s%s", got.stdout, got.stderr)
	}
	policy := s.policy("limits", spec("data"))
	readable := func() string {
		return s.kubectl("", "get", "guestpolicy", policy, "-o",
			`jsonpath={range .status.conditions[?(@.type=="ParamsReadable")]}{.reason}: {.message}{end}`).stdout
	}
	s.eventually("the condition contains the right that is missing", func() bool {
		text := readable()
		return strings.HasPrefix(text, v1alpha1.ReasonParamsForbidden+": ") && strings.Contains(text, "list and watch on configmaps with resourceNames [limits]")
	})
	s.settled("a policy whose params cannot be read refuses", func() bool { return s.denied(sockets("big"), policy, "configmaps") })

	s.must(s.kubectl("", "create", "role", "params", "-n", admins, "--verb=list,watch", "--resource=configmaps", "--resource-name=limits"))
	s.must(s.kubectl("", "create", "rolebinding", "params", "-n", admins, "--role=params",
		"--serviceaccount="+s.on.Namespace+":kiln-webhook", "--serviceaccount="+s.on.Namespace+":kiln-controller"))
	s.settled("the violation contains the param", func() bool {
		return s.denied(sockets("big"), fmt.Sprintf("GuestPolicy '%s' with ConfigMap %s/limits: too many sockets", policy, admins))
	})
	// The controller looks at the rights once a minute.
	if !poll.Until(2*time.Minute, func() bool { return strings.HasPrefix(readable(), v1alpha1.ReasonParamsReadable+": ") }) {
		t.Errorf("after the grant: %s", readable())
	}
	limit(s.name, "8")
	if !s.denied(sockets("big"), "too many sockets") {
		t.Error("a ConfigMap in the namespace of the VM has an effect")
	}
	admitted := func() bool { return s.kubectl(sockets("big"), "create", "--dry-run=server", "-f", "-").err == nil }
	limit(admins, "2")
	s.settled("a higher limit permits", admitted)
	limit(admins, "many")
	s.settled("a limit that is no number refuses", func() bool { return s.denied(sockets("big"), policy) })
	limit(admins, "2")
	s.settled("the limit is mended", admitted)
	s.must(s.kubectl("", "delete", "configmap", "limits", "-n", admins))
	s.settled("a policy without its params refuses", func() bool { return s.denied(sockets("big"), policy) })
}
