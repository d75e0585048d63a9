package admission

import (
	"slices"
	"testing"
)

// TestNumbersOfZero: a user who writes 0 cores gets one warning for each object: the guest does not get 0 cores.
func TestNumbersOfZero(t *testing.T) {
	const warning = "cpu.cores of 0 is as if it were not written: the default or the instancetype decides"
	for _, object := range []struct {
		head, tail       string
		mutate, validate string
	}{
		{"kind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Halted, template: ", "}", MutateVM, ValidateVM},
		{"kind: VirtualMachineInstance\nmetadata: {name: a}\n", "", MutateVMI, ValidateVMI},
	} {
		for cores, want := range map[string][]string{"{cores: 0}": {warning}, "{sockets: 2}": nil} {
			c := newCluster(t)
			spec := "{spec: {domain: {devices: {}, memory: {guest: 1Gi}, cpu: " + cores + "}}}"
			if object.tail == "" {
				spec = spec[1 : len(spec)-1]
			}
			request := create(t, "apiVersion: kubevirt.io/v1\n"+object.head+spec+object.tail)
			mutated := ask(t, c.Hooks()[object.mutate], request)
			validated := ask(t, c.Hooks()[object.validate], create(t, patched(t, request, mutated)))
			if got := slices.Concat(mutated.Warnings, validated.Warnings); !mutated.Allowed || !validated.Allowed || !slices.Equal(got, want) {
				t.Errorf("%s %s: warnings %q, want %q", object.validate, cores, got, want)
			}
		}
	}
}

// TestIdentityOfAGuest: an update that writes another identity on a running VM brings a warning, also if it changes nothing else.
func TestIdentityOfAGuest(t *testing.T) {
	const warning = "annotation 'kilnvm.io/identity': the guest keeps UUID, serial and MACs until it starts with 'kilnvm.io/hardware: latest'"
	vm := func(identity, strategy string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a, annotations: {kilnvm.io/identity: " + identity +
			"}}\nspec: {runStrategy: " + strategy + ", template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}}\nstatus: {created: true}"
	}
	for after, want := range map[string][]string{vm("b", "Always"): {warning}, vm("b", "Halted"): {warning}, vm("a", "Halted"): nil} {
		response := ask(t, newCluster(t).Hooks()[ValidateVM], update(t, vm("a", "Always"), after))
		if !response.Allowed || !slices.Equal(response.Warnings, want) {
			t.Errorf("%s: allowed %t, warnings %q", after, response.Allowed, response.Warnings)
		}
	}
}
