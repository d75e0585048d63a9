package admit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
)

// modelled is a VM with an instancetype whose CPU model no libvirt knows.
func modelled(t *testing.T, template string) (*v1.VirtualMachine, admit.Input) {
	t.Helper()
	size := &instancetype.Instancetype{Source: instancetype.Source{Kind: instancetype.Kinds.Cluster, Name: "size"}}
	unmarshal(t, "{cpu: {guest: 1, model: Homer-Simpson}, memory: {guest: 1Gi}}", &size.Spec)
	vm := &v1.VirtualMachine{}
	unmarshal(t, "{runStrategy: Halted, instancetype: {name: size}, template: {spec: {domain: {"+template+"}}}}", &vm.Spec)
	return vm, admit.Input{Set: instancetype.Set{Instancetype: size}, Cluster: config.Default()}
}

// TestWarningsNameTheOrigin: a warning about a value that the VM does not have names the object that set it.
func TestWarningsNameTheOrigin(t *testing.T) {
	t.Parallel()
	vm, in := modelled(t, "devices: {}")
	explicit, verdict := admit.VM(vm, nil, in)
	want := []string{"cpu.model 'Homer-Simpson': libvirt knows no such CPU model for 'amd64'; instancetype 'size' sets cpu.model"}
	if diff := cmp.Diff(want, verdict.Warnings); diff != "" {
		t.Errorf("a VM (-want +got):\n%s", diff)
	}
	written := admit.Instance(vm)
	if diff := cmp.Diff(want, admit.JudgeMade(explicit, written, in).Warnings); diff != "" {
		t.Errorf("a VMI that was made explicit (-want +got):\n%s", diff)
	}
	bare := []string{"cpu.model 'Homer-Simpson': libvirt knows no such CPU model for 'amd64'"}
	if diff := cmp.Diff(bare, admit.Judge(explicit, in).Warnings); diff != "" {
		t.Errorf("a VMI that has the value (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(bare, admit.JudgeMade(explicit, written, admit.Input{Cluster: in.Cluster}).Warnings); diff != "" {
		t.Errorf("a VMI that nothing fills (-want +got):\n%s", diff)
	}
}

// TestSetters: a field is the user's, an object's or a default's.
func TestSetters(t *testing.T) {
	t.Parallel()
	vm, in := modelled(t, "devices: {rng: {}}")
	for name, setter := range map[string]func(string) string{"VM": admit.Setters(vm, in), "VMI": admit.SettersOfVMI(admit.Instance(vm), in)} {
		for path, want := range map[string]string{
			"spec.domain.cpu.model": "instancetype 'size'", "spec.domain.devices.rng": "", "spec.domain.machine.type": "", "spec.architecture": "",
		} {
			if got := setter(path); got != want {
				t.Errorf("%s: '%s' sets %s, want '%s'", name, got, path, want)
			}
		}
	}
	none := admit.Input{Cluster: in.Cluster}
	if got := admit.Setters(vm, none)("spec.domain.cpu.model") + admit.SettersOfVMI(admit.Instance(vm), none)("spec.domain.cpu.model"); got != "" {
		t.Errorf("'%s' sets a field of a VM that nothing fills", got)
	}
}

// TestWarningsAreBesidesErrors: a field that is refused is not warned of.
func TestWarningsAreBesidesErrors(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	unmarshal(t, "{runStrategy: Halted, template: {spec: {domain: {memory: {guest: 5Pi}, resources: {limits: {memory: 1Gi}}, "+
		"cpu: {model: Homer-Simpson}}}}}", &vm.Spec)
	_, verdict := admit.VM(vm, nil, admit.Input{Cluster: config.Default()})
	if len(verdict.Errors) != 1 || len(verdict.Warnings) != 1 {
		t.Errorf("one error about memory, and one warning about the model: %v, %q", verdict.Errors, verdict.Warnings)
	}
}
