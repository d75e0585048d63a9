package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// policy writes a GuestPolicy for the namespace of the test alone. The rest of its spec is given in flow style, without braces. It is deleted with
// the test.
func (s space) policy(name, spec string) string {
	s.Helper()
	name = s.name + "-" + name
	s.T.Cleanup(func() { s.kubectlAfter("delete", "guestpolicy", name, "--ignore-not-found") })
	s.must(s.kubectl(s.policyText(name, spec), "apply", "-f", "-"))
	return name
}

func (s space) policyText(name, spec string) string {
	return fmt.Sprintf(`{apiVersion: kilnvm.io/v1alpha1, kind: GuestPolicy, metadata: {name: %s}, spec: {%s}}`, name,
		strings.Replace(spec, "matchConstraints: {", "matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+s.name+"}}, ", 1))
}

// settled waits until both replicas of the webhook answer alike: informers of both have seen what was written.
func (s space) settled(what string, done func() bool) {
	s.Helper()
	s.eventually(what, func() bool {
		for range 6 {
			if !done() {
				return false
			}
		}
		return true
	})
}

// denied reports whether a dry run of a manifest is refused with all the words.
func (s space) denied(manifest string, words ...string) bool {
	result := s.kubectl(manifest, "create", "--dry-run=server", "-f", "-")
	for _, word := range words {
		if !strings.Contains(result.stderr, word) {
			return false
		}
	}
	return result.err != nil
}

const (
	onlySmall = `matchConstraints: {resources: [virtualmachines]}, validations: [{field: spec.instancetype,
  expression: "has(object.spec.instancetype) && object.spec.instancetype.name == 'small'", messageExpression: "'no ' + object.metadata.name + ' of yours'"}]`
	fewSockets = `matchConstraints: {}, validations: [{field: spec.domain.cpu.sockets, expression: "guest == null || guest.spec.domain.cpu.sockets <= 1",
  message: "at most one socket"}]`
	bare = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: bare}, spec: {nodeSelector: {machine: none},
  domain: {cpu: {sockets: 2}, memory: {guest: 64Mi}, devices: {}}}}`
)

// TestGuestPolicyDenies: kubectl shows the message of each violated policy with its name and field, beside the mistakes by the rules. A bare VMI is
// refused too, and a deleted policy refuses nothing.
func TestGuestPolicyDenies(t *testing.T) {
	s := newSpace(t)
	one, two := s.policy("one", onlySmall), s.policy("two", fewSockets)
	other := vm("other", "{name: small}", "{name: medium}", "{name: linux.sample}", "{name: linux.sample}")
	sockets := "spec.template.spec.domain.cpu.sockets: Invalid value: 2: GuestPolicy '" + two + "': at most one socket"
	s.settled("both policies refuse", func() bool {
		return s.denied(other, "spec.instancetype: Forbidden: GuestPolicy '"+one+"': no other of yours") && s.denied(bare, "spec.domain.cpu.sockets", two)
	})
	both := vm("both", "  instancetype: {name: small}\n", "", "domain:\n", "domain:\n        cpu: {sockets: 2}\n        memory: {guest: 64Mi}\n")
	result := s.kubectl(both, "create", "-f", "-")
	for _, want := range []string{one, sockets} {
		if result.err == nil || !strings.Contains(result.stderr, want) {
			t.Errorf("two violated policies: %s%s, want '%s'", result.stdout, result.stderr, want)
		}
	}
	wrong := strings.Replace(both, "disks: [{name: data}]", "disks: [{name: data}, {name: data}]", 1)
	result = s.kubectl(wrong, "create", "-f", "-")
	for _, want := range []string{one, sockets, "disks[1]"} {
		if result.err == nil || !strings.Contains(result.stderr, want) {
			t.Errorf("two violated policies and a mistake: %s%s, want '%s'", result.stdout, result.stderr, want)
		}
	}
	if result := s.kubectl(bare, "create", "-f", "-"); result.err == nil || !strings.Contains(result.stderr, two) {
		t.Errorf("a bare VMI: %s%s", result.stdout, result.stderr)
	}
	if s.exists("vm", "both") || s.exists("vmi", "bare") {
		t.Error("what was refused exists")
	}
	s.eventually("the controller accepts the policy", func() bool {
		const condition = "{.status.conditions[0].type}={.status.conditions[0].status}"
		return s.must(s.read("guestpolicy", two, condition)).stdout == "Accepted=True"
	})
	s.must(s.kubectl("", "delete", "guestpolicy", one, two))
	s.settled("deleted policies refuse nothing", func() bool {
		return s.kubectl(both, "create", "--dry-run=server", "-f", "-").err == nil && s.kubectl(bare, "create", "--dry-run=server", "-f", "-").err == nil
	})
	s.create(both)
}

// TestGuestPolicyWarnsAndAudits: Warn prints a warning and Audit writes into the audit event, and both admit. Audit annotations have the name of the
// policy.
func TestGuestPolicyWarnsAndAudits(t *testing.T) {
	s := newSpace(t)
	name := s.policy("warn", `matchConstraints: {}, validationActions: [Warn, Audit], validations: [{
  expression: "guest.spec.domain.cpu.sockets <= 1", message: one socket}],
  auditAnnotations: [{key: sockets, valueExpression: "string(guest.spec.domain.cpu.sockets)"}]`)
	account := "policy-" + s.name[strings.LastIndex(s.name, "-")+1:]
	s.must(s.kubectl("", "create", "serviceaccount", account, "-n", s.on.Namespace))
	t.Cleanup(func() { s.kubectlAfter("delete", "serviceaccount", account, "-n", s.on.Namespace) })
	s.must(s.kubectl("", "create", "rolebinding", "writer", "--clusterrole=kiln-edit", "--serviceaccount="+s.on.Namespace+":"+account))
	kubeconfig, err := s.on.Access(account)
	if err != nil {
		t.Fatal(err)
	}
	warning := "Warning: GuestPolicy '" + name + "': one socket"
	s.settled("the policy warns", func() bool {
		result := s.kubectl(vm("demo"), "create", "--dry-run=server", "--kubeconfig", kubeconfig, "-f", "-")
		return result.err == nil && strings.Contains(result.stderr, warning)
	})
	result := s.must(s.kubectl(vm("demo"), "create", "--kubeconfig", kubeconfig, "-f", "-"))
	if !strings.Contains(result.stderr, warning) {
		t.Errorf("the creation says %s", result.stderr)
	}
	const webhook = "virtualmachines.validate.kilnvm.io/"
	var seen map[string]string
	s.eventually("the audit event has the violation", func() bool {
		seen, err = s.on.AuditAnnotations(s.name, "demo")
		return err == nil && seen[webhook+"validation_failure"] != ""
	})
	var failures []map[string]any
	if err := json.Unmarshal([]byte(seen[webhook+"validation_failure"]), &failures); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{"policy": name, "message": "one socket", "expressionIndex": float64(0), "validationActions": []any{"Warn", "Audit"}}}
	if diff := cmp.Diff(want, failures); diff != "" {
		t.Error(diff)
	}
	if seen[webhook+name+"_sockets"] != "2" {
		t.Errorf("audit annotations %v", seen)
	}
}

// TestGuestPolicyThatFails: an expression that fails when it is evaluated refuses by failurePolicy Fail, warns by Ignore, and names itself.
func TestGuestPolicyThatFails(t *testing.T) {
	s := newSpace(t)
	const fails = `matchConstraints: {}, failurePolicy: %s, validations: [{expression: "object.metadata.labels['absent'] == ''"}]`
	ignored := s.policy("ignore", fmt.Sprintf(fails, "Ignore"))
	s.settled("it warns", func() bool {
		result := s.kubectl(vm("demo"), "create", "--dry-run=server", "-f", "-")
		return result.err == nil && strings.Contains(result.stderr, "Warning: GuestPolicy '"+ignored+"' failed: spec.validations[0].expression: no such key")
	})
	failed := s.policy("fail", fmt.Sprintf(fails, "Fail"))
	s.settled("it refuses", func() bool {
		return s.denied(vm("demo"), "GuestPolicy '"+failed+"' failed: spec.validations[0].expression")
	})
	label := strings.Replace(vm("demo"), "metadata: {name: demo}", "metadata: {name: demo, labels: {absent: ''}}", 1)
	if result := s.must(s.kubectl(label, "create", "-f", "-")); strings.Contains(result.stderr, "GuestPolicy") {
		t.Errorf("an object on which they succeed: %s", result.stderr)
	}
}

// TestGuestPolicyAndVMsThatExist: a policy that comes later leaves VMs that exist alone: they are labelled, stopped and started again. Only an edit of
// what boots is refused.
func TestGuestPolicyAndVMsThatExist(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", running...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	name := s.policy("later", fewSockets)
	s.settled("the policy refuses a new VM", func() bool { return s.denied(vm("new"), name) })
	s.must(s.kubectl("", "label", "vm", "demo", "edited=yes"))
	patch := func(merge string) answer { return s.kubectl("", "patch", "vm", "demo", "--type=merge", "-p="+merge) }
	for _, strategy := range []string{"RerunOnFailure", "Always"} {
		result := s.must(patch(`{"spec":{"runStrategy":"` + strategy + `"}}`))
		if !strings.Contains(result.stderr, "Warning: GuestPolicy '"+name+"': at most one socket") {
			t.Errorf("an edit that leaves the VMI says %s", result.stderr)
		}
	}
	if result := patch(`{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`); result.err == nil || !strings.Contains(result.stderr, name) {
		t.Errorf("an edit of the VMI says %s%s", result.stdout, result.stderr)
	}
	s.restart("demo")
}
