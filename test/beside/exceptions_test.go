package beside

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// TestExceptedVM: a VM that violates a policy with an approved exception is created, and its annotation names the exception beside virt-controller. The
// annotation goes with the exception.
func TestExceptedVM(t *testing.T) {
	s := newSpace(t)
	approver := s.name + "-approver"
	kubectl := func(input string, args ...string) string {
		t.Helper()
		stdout, stderr, err := s.on.Kubectl(t.Context(), input, append(args, "-n", s.name)...)
		if err != nil {
			t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr)
		}
		return stdout + stderr
	}
	kubectl(fmt.Sprintf(`{apiVersion: kilnvm.io/v1alpha1, kind: GuestPolicy, metadata: {name: %[1]s}, spec: {
		matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}},
		exceptions: {allowed: true, maxDuration: 24h, approvers: [{kind: User, name: %[2]s}]},
		validations: [{name: name, expression: "object.metadata.name != 'denied'"}]}}`, s.name, approver), "create", "-f", "-")
	t.Cleanup(func() {
		_, _, _ = s.on.Kubectl(context.Background(), "", "delete", "guestpolicy", s.name, "--ignore-not-found")
	})
	kubectl("", "create", "rolebinding", "approvers", "--clusterrole=kiln-exception-approver", "--user="+approver)
	kubectl(fmt.Sprintf(`{apiVersion: kilnvm.io/v1alpha1, kind: GuestPolicyException, metadata: {name: friday}, spec: {policies: [{name: %s}],
		virtualMachines: {names: [denied]}, reason: a migration, expires: %q}}`, s.name, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)),
		"create", "-f", "-")
	s.eventually("the approver approves", func() (bool, any) {
		stdout, stderr, err := s.on.Kiln(t.Context(), "", "policy", "approve", "friday", "-n", s.name, "--as="+approver)
		return err == nil, stdout + stderr
	})
	kubectl("", "wait", "guestpolicyexception/friday", "--for=condition=InForce", "--timeout=1m")
	s.eventually("the VM is created", func() (bool, any) {
		_, stderr, err := s.on.Kubectl(t.Context(), fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: denied, namespace: %s},
			spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 64Mi}, devices: {}}}}}}`, s.name), "create", "-f", "-")
		return err == nil && strings.Contains(stderr, "by GuestPolicyException '"+s.name+"/friday'"), stderr
	})
	excepted := func() string { return s.machine("denied").Annotations[v1alpha1.AnnotationExcepted] }
	s.eventually("the VM names its exception", func() (bool, any) {
		return strings.HasSuffix(excepted(), "by GuestPolicyException '"+s.name+"/friday'"), excepted()
	})
	s.eventually("virt-controller has seen the VM", func() (bool, any) {
		status := s.machine("denied").Status
		return status.PrintableStatus == "Stopped", status
	})
	kubectl("", "delete", "guestpolicyexception", "friday")
	s.eventually("the annotation goes with the exception", func() (bool, any) { return excepted() == "", excepted() })
	s.eventually("admission would refuse the VM now", func() (bool, any) {
		refused := s.machine("denied").Annotations[v1alpha1.AnnotationRefused]
		return refused != "", refused
	})
}
