package e2e

import (
	"strings"
	"testing"
)

// A deprecated instancetype warns, an obsolete one refuses new VMs and names its replacement. The VM that has it is edited, restarted and moved to
// the current instancetype as if nothing had been written.
func TestObsoleteRefusesNewVMsAlone(t *testing.T) {
	s := newSpace(t)
	s.create(size("own", 1, "128Mi"))
	ofOwn := func(name string) string {
		return vm(name, append(running, "{name: small}", "{name: own, kind: VirtualMachineInstancetype}")...)
	}
	s.create(ofOwn("old"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "old") })
	before := seen(s.get("vmi", "old"))

	s.must(s.kubectl("", "annotate", "vmf", "own", "kilnvm.io/replaced-by=better"))
	s.must(s.kubectl("", "label", "vmf", "own", "kilnvm.io/lifecycle=deprecated"))
	const deprecated = "Warning: VirtualMachineInstancetype 'own' is deprecated: use 'better'"
	s.eventually("a new VM gets the warning", func() bool {
		return strings.Contains(s.must(s.kubectl(ofOwn("warned"), "create", "--dry-run=server", "-f", "-")).stderr, deprecated)
	})
	if result := s.must(s.kubectl(ofOwn("warned"), "create", "-f", "-")); !strings.Contains(result.stderr, deprecated) {
		t.Errorf("the creation says %s", result.stderr)
	}

	s.must(s.kubectl("", "label", "--overwrite", "vmf", "own", "kilnvm.io/lifecycle=obsolete"))
	s.eventually("a new VM is refused", func() bool {
		return s.kubectl(ofOwn("new"), "create", "--dry-run=server", "-f", "-").err != nil
	})
	const obsolete = `spec.instancetype.name: Invalid value: "own": VirtualMachineInstancetype 'own' is obsolete: use 'better'`
	if result := s.kubectl(ofOwn("new"), "create", "-f", "-"); result.err == nil || !strings.Contains(result.stderr, obsolete) {
		t.Errorf("the creation says %s%s", result.stdout, result.stderr)
	}
	if result := s.must(s.kubectl("", "get", "vmf", "own")).stdout; !strings.Contains(result, "LIFECYCLE") || !strings.Contains(result, "obsolete") {
		t.Errorf("kubectl get shows %s", result)
	}

	const edit = `-p={"spec":{"template":{"metadata":{"labels":{"edited":"yes"}}}}}`
	if result := s.must(s.kubectl("", "patch", "vm", "old", "--type=merge", edit)); strings.Contains(result.stderr, "obsolete") {
		t.Errorf("an edit says %s", result.stderr)
	}
	s.restart("old")
	after := s.get("vmi", "old")
	if now := seen(after); now["memory"] != before["memory"] || now["uuid"] != before["uuid"] || after.GetLabels()["edited"] != "yes" {
		t.Errorf("the VMI was %v and is %v with labels %v", before, now, after.GetLabels())
	}
	s.must(s.kubectl("", "annotate", "--overwrite", "vm", "old", "kilnvm.io/pins="))
	if pins(t, s.get("vm", "old"))["instancetype"] == "" {
		t.Error("the VM was not pinned anew")
	}

	if result := s.must(s.kiln("instancetypes")).stdout; strings.Contains(result, "/own ") || !strings.Contains(result, "\nsmall ") {
		t.Errorf("new VMs are offered %s", result)
	}
	wrong := s.kubectl("", "label", "--overwrite", "vmf", "own", "kilnvm.io/lifecycle=gone")
	if wrong.err == nil || !strings.Contains(wrong.stderr, "must be") || !strings.Contains(wrong.stderr, "active") {
		t.Errorf("an illegible state is answered with %s%s", wrong.stdout, wrong.stderr)
	}
}

// A VM that is created with the flags of virtctl is applied, and admission says what a mistyped name may have meant. A user who may not list
// names gets none.
func TestCreateAppliesAndNamesTheNearest(t *testing.T) {
	s := newSpace(t)
	s.create(size("own", 1, "128Mi"))
	made := s.must(s.kiln("create", "vm", "--name", "made", "--run-strategy", "Halted", "--instancetype", "virtualmachineinstancetype/own", "--apply"))
	if !strings.Contains(made.stdout, "VirtualMachine/made serverside-applied") || pins(t, s.get("vm", "made"))["instancetype"] == "" {
		t.Errorf("create says %s%s", made.stdout, made.stderr)
	}
	var result answer
	mistyped := vm("mistyped", append(running, "{name: small}", "{name: owm, kind: VirtualMachineInstancetype}")...)
	s.eventually("the webhooks have seen the instancetype, and name it", func() bool {
		result = s.must(s.kubectl(mistyped, "create", "--dry-run=server", "-f", "-"))
		return strings.Contains(result.stderr, "does not exist; the VM cannot start until it does; did you mean 'own'?")
	})
	refused := s.kiln("create", "vm", "--name", "refused", "--run-strategy", "Halted", "--volume-pvc", "src:a",
		"--cloud-init-user-data", strings.Repeat("QUFB", 1000), "--apply")
	if s.status(refused) != 1 || !strings.Contains(refused.stderr, "cloudInitNoCloud.userDataBase64: Too long") {
		t.Errorf("a VM with too much user data: %s%s", refused.stdout, refused.stderr)
	}

	s.must(s.kubectl("", "create", "role", "writer", "--verb=create", "--resource=virtualmachines.kubevirt.io"))
	s.must(s.kubectl("", "create", "rolebinding", "writer", "--role=writer", "--user=blind"))
	s.eventually("the role counts", func() bool {
		result = s.kubectl(mistyped, "create", "--as=blind", "-f", "-")
		return result.err == nil
	})
	if !strings.Contains(result.stderr, "'owm' in namespace") || strings.Contains(result.stderr, "did you mean") {
		t.Errorf("a user who may not list instancetypes gets %s", result.stderr)
	}
}
