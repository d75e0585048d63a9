package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// fewSocketsExcept is fewSockets, from which somebody may permit exceptions.
func fewSocketsExcept(approver string) string {
	return strings.Replace(fewSockets, "validations: [{", "validations: [{name: sockets, ", 1) +
		fmt.Sprintf(`, exceptions: {allowed: true, maxDuration: 24h, approvers: [{kind: User, name: %s}, {kind: User, name: %s-2}]}`, approver, approver)
}

// exceptionText is a GuestPolicyException that permits a policy's violations by VM 'big'.
func exceptionText(policy string, expires time.Time) string {
	return fmt.Sprintf(`{apiVersion: kilnvm.io/v1alpha1, kind: GuestPolicyException, metadata: {name: big}, spec: {policies: [{name: %s, validations: [sockets]}],
  virtualMachines: {names: [big]}, reason: a migration, expires: "%s", requestedBy: nobody}}`, policy, expires.UTC().Format(time.RFC3339))
}

// sockets is a VM with two sockets.
func sockets(name string) string {
	return vm(name, "  instancetype: {name: small}\n", "", "domain:\n", "domain:\n        cpu: {sockets: 2}\n        memory: {guest: 64Mi}\n")
}

// TestExceptionOfATeam: a team requests an exception, which has no effect until an approver of the policy has approved it. It is for one VM, until its end, and
// what a tenant writes about accounts and time has no effect.
func TestExceptionOfATeam(t *testing.T) {
	s := newSpace(t)
	tenant, approver := s.name+"-tenant", s.name+"-approver"
	for _, of := range []string{tenant, approver} {
		s.must(s.kubectl("", "create", "rolebinding", of, "--clusterrole=edit", "--user="+of))
	}
	s.must(s.kubectl("", "create", "rolebinding", "approvers", "--clusterrole=kiln-exception-approver", "--user="+approver, "--user="+approver+"-2"))
	policy := s.policy("few", fewSocketsExcept(approver))
	s.settled("the policy refuses", func() bool { return s.denied(sockets("big"), policy+"': at most one socket") })
	tenants := func(manifest string, args ...string) string {
		result := s.kubectl(manifest, append(args, "--as="+tenant)...)
		return result.stdout + result.stderr
	}
	field := func(path string) string {
		return s.must(s.kubectl("", "get", "guestpolicyexception", "big", "-o", "jsonpath="+path)).stdout
	}
	s.eventually("the tenant may write exceptions", func() bool {
		return s.kubectl("", "auth", "can-i", "create", "guestpolicyexceptions", "--as="+tenant).err == nil
	})

	long := exceptionText(policy, time.Now().Add(48*time.Hour))
	if output := tenants(long, "create", "-f", "-"); !strings.Contains(output, "permits exceptions of at most 24h0m0s") {
		t.Errorf("an exception of two days: %s", output)
	}
	if output := tenants(exceptionText(policy, time.Now().Add(time.Hour)), "create", "-f", "-"); !strings.Contains(output, "created") {
		t.Fatal(output)
	}
	if by := field("{.spec.requestedBy}"); by != tenant {
		t.Errorf("requested by '%s', want '%s' and not what the manifest says", by, tenant)
	}
	if !s.denied(sockets("big"), policy) {
		t.Error("an exception that nobody has approved has an effect")
	}
	forged := fmt.Sprintf(`{"status": {"approvals": [{"policy": "%s", "by": "%s", "as": {"kind": "User", "name": "%s"}, "generation": 1}]}}`,
		policy, approver, approver)
	approval := []string{"patch", "guestpolicyexception", "big", "--subresource=status", "--type=merge", "-p", forged}
	if output := tenants("", approval...); !strings.Contains(output, "Forbidden") {
		t.Errorf("the tenant approves: %s", output)
	}
	if result := s.kubectl("", append(approval, "--as="+approver+"-2")...); !strings.Contains(result.stdout, "patched") {
		t.Errorf("another approver approves: %s", result.stderr)
	}
	if by := field("{.status.approvals[0].by}"); by != approver+"-2" {
		t.Errorf("approved by '%s', which the patch says, and not by the account of the request", by)
	}
	s.settled("the exception permits", func() bool { return s.kubectl(sockets("big"), "create", "--dry-run=server", "-f", "-").err == nil })
	if output := tenants(sockets("big"), "create", "-f", "-"); !strings.Contains(output, "; permitted until ") || !strings.Contains(output, s.name+"/big") {
		t.Errorf("the VM of the exception: %s", output)
	}
	if !s.denied(sockets("other"), policy) {
		t.Error("the exception is for another VM, too")
	}
	s.eventually("the exception is in force", func() bool {
		return field(`{.status.conditions[?(@.type=="InForce")].reason}`) == "Approved"
	})
	s.eventually("the VM names its exception", func() bool {
		excepted := s.kubectl("", "get", "vm", "big", "-o", `jsonpath={.metadata.annotations.kilnvm\.io/excepted}`).stdout
		return strings.Contains(excepted, policy) && strings.HasSuffix(excepted, "by GuestPolicyException '"+s.name+"/big'")
	})

	// The approver's own edit takes the approval away, because the approver is the requester then.
	s.must(s.kubectl("", "delete", "vm", "big"))
	s.must(s.kubectl("", "patch", "guestpolicyexception", "big", "--type=merge", "-p", `{"spec": {"reason": "for me"}}`, "--as="+approver))
	s.settled("an approval of an earlier spec is void", func() bool { return s.denied(sockets("big"), policy) })
	if output := s.kiln("policy", "approve", "big", "--as="+approver); s.status(output) != 1 || !strings.Contains(output.stderr, "somebody else must approve it") {
		t.Errorf("the requester approves: %s%s", output.stdout, output.stderr)
	}
	ends := time.Now().Add(25 * time.Second)
	patch := fmt.Sprintf(`{"spec": {"reason": "for the team", "expires": "%s"}}`, ends.UTC().Format(time.RFC3339))
	s.must(s.kubectl("", "patch", "guestpolicyexception", "big", "--type=merge", "-p", patch, "--as="+tenant))
	if output := s.kiln("policy", "approve", "big", "--as="+approver); s.status(output) != 0 || !strings.Contains(output.stdout, "requested by:  "+tenant) {
		t.Errorf("the approver approves: %s%s", output.stdout, output.stderr)
	}
	s.settled("the exception permits again", func() bool {
		return s.kubectl(sockets("big"), "create", "--dry-run=server", "-f", "-").err == nil || time.Now().After(ends)
	})
	s.settled("the exception has ended by its date", func() bool { return s.denied(sockets("big"), policy) })
	if time.Now().Before(ends.Truncate(time.Second)) {
		t.Error("the exception has ended before its date")
	}
	s.eventually("the condition says that it has ended", func() bool {
		return field(`{.status.conditions[?(@.type=="InForce")].reason}`) == "Expired"
	})
}
