package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/guestcmd"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const preset = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstancePreset
metadata: {name: utc, namespace: shop}
spec: {selector: {}, domain: {clock: {utc: {}}, devices: {}}}
`

const graceful = `apiVersion: kilnvm.io/v1alpha1
kind: GuestProfile
metadata: {name: graceful, namespace: shop}
spec: {selector: {}, template: {spec: {terminationGracePeriodSeconds: 7}}}
`

// TestStages: each stage adds what is its own to the one before.
func TestStages(t *testing.T) {
	t.Parallel()
	_, file := write(t, size, preference, preset, graceful, preferred)
	got := call(t, "", "expand", "-f", file, "--stage", "all")
	documents := strings.Split(got.out, "---\n")[1:]
	if got.err != nil || len(documents) != 6 {
		t.Fatalf("want six stages, got %d: %v\n%s", len(documents), got.err, got.errOut)
	}
	if vm := documents[0]; !strings.HasPrefix(vm, "# VirtualMachine shop/web: admitted\n") ||
		!strings.Contains(vm, "kilnvm.io/pins") || strings.Contains(vm, "guest: 2Gi") {
		t.Errorf("admitted: want the VM as its owner wrote it, and its pins:\n%s", vm)
	}
	seen := map[string]int{"guest: 2Gi": 1, "type: pc-q35-7.2": 2, "utc: {}": 3, "terminationGracePeriodSeconds: 7": 4, "architecture: amd64": 5}
	for text, first := range seen {
		for i, document := range documents {
			if strings.Contains(document, text) != (i >= first) {
				t.Errorf("'%s' must come with stage %d, stage %d is\n%s", text, first, i, document)
			}
		}
	}
	for i, stage := range guestcmd.Stages[:6] {
		one := call(t, "", "expand", "-f", file, "--stage", stage)
		if _, alone, _ := strings.Cut(one.out, "---\n"); strings.TrimPrefix(alone, "# VirtualMachine shop/web: "+stage+"\n") !=
			strings.TrimPrefix(documents[i], "# VirtualMachine shop/web: "+stage+"\n") {
			t.Errorf("--stage %s alone: %v\n%s", stage, one.err, one.out)
		}
	}
	if got := call(t, "", "expand", "-f", file, "--stage", "both"); cmdutil.ExitStatus(got.err) != 2 {
		t.Errorf("a stage that is not there: %v", got.err)
	}
}

// TestMissingStages: the error says why an object lacks a stage.
func TestMissingStages(t *testing.T) {
	const domain = "{domain: {devices: {}, memory: {guest: 1Gi}}}"
	vm := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Halted, template: {spec: " + domain + "}}\n"
	vmi := "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a}\nspec: " + domain + "\n"
	for _, c := range []struct{ file, stage, want string }{
		{vm, "profiles", "VirtualMachine default/a: no stage 'profiles': no profile selects it"},
		{vmi, "admitted", "VirtualMachineInstance default/a: no stage 'admitted': it is no VirtualMachine"},
	} {
		if got := call(t, c.file, "expand", "-f", "-", "--stage", c.stage); cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.errOut, c.want) {
			t.Errorf("--stage %s: %v\n%s", c.stage, got.err, got.errOut)
		}
	}
}

// TestPolicies: under 'expand' the cluster stores what its guest needs, and the guest of that is the same.
func TestPolicies(t *testing.T) {
	t.Parallel()
	dir, file := write(t, size, preference, preferred)
	for policy, kept := range map[string]bool{"reference": true, "expand": false, "expandAll": false} {
		config := filepath.Join(t.TempDir(), "kubevirt.yaml")
		if err := os.WriteFile(config, []byte("instancetype: {referencePolicy: "+policy+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := call(t, "", "expand", "-f", file, "--config", config, "--stage", "admitted")
		var vm v1.VirtualMachine
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(got.out, "---\n")), &vm); err != nil || got.err != nil {
			t.Fatal(err, got.err, got.errOut)
		}
		if (vm.Spec.Instancetype != nil) != kept || (vm.Spec.Template.Spec.Domain.Memory == nil) != kept {
			t.Errorf("%s: instancetype %v, template's memory %v", policy, vm.Spec.Instancetype, vm.Spec.Template.Spec.Domain.Memory)
		}
		first := guestSpec(t, call(t, "", "expand", "-f", file))
		second := guestSpec(t, call(t, got.out, "expand", "-f", "-", "--catalog", dir))
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s: the guest of the stored VM differs (-written +stored):\n%s", policy, diff)
		}
	}
}

func guestSpec(t *testing.T, a answer) v1.VirtualMachineInstanceSpec {
	t.Helper()
	var vmi v1.VirtualMachineInstance
	if err := yaml.Unmarshal([]byte(strings.TrimPrefix(a.out, "---\n")), &vmi); err != nil || a.err != nil || vmi.Spec.Domain.Memory == nil {
		t.Fatalf("%v %v\n%s%s", err, a.err, a.errOut, a.out)
	}
	return vmi.Spec
}
