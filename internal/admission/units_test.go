package admission

import "testing"

// TestUnitsOfOthers: an amount such as 128MB is refused with what was probably meant, before the API server's schema answers it by a regular expression.
func TestUnitsOfOthers(t *testing.T) {
	for _, test := range []struct{ spec, field, message string }{
		{"{domain: {devices: {}, memory: {guest: 128MB}}}", "spec.domain.memory.guest", `Invalid value: "128MB": must be a quantity: write 128M or 128Mi`},
		{"{domain: {devices: {}, resources: {limits: {memory: 2GiB}}}}", "spec.domain.resources.limits[memory]",
			`Invalid value: "2GiB": must be a quantity: write 2Gi`},
		{"{domain: {devices: {}}, volumes: [{name: a, containerDisk: {image: a}}, {name: b, emptyDisk: {capacity: 1 gb}}]}",
			"spec.volumes[1].emptyDisk.capacity", `Invalid value: "1 gb": must be a quantity: write 1G or 1Gi`},
		{"{domain: {devices: {}, memory: {guest: true}}}", "spec.domain.memory.guest", `Invalid value: "true": must be a quantity such as '500M' or '2Gi'`},
	} {
		for _, of := range []struct{ kind, spec, path, hook string }{
			{"VirtualMachine", "{runStrategy: Halted, template: {spec: " + test.spec + "}}", "spec.template.", MutateVM},
			{"VirtualMachineInstance", test.spec, "", MutateVMI},
		} {
			c := newCluster(t)
			response := ask(t, c.Hooks()[of.hook], create(t, "apiVersion: kubevirt.io/v1\nkind: "+of.kind+"\nmetadata: {name: a}\nspec: "+of.spec))
			if response.Allowed || len(response.Result.Details.Causes) != 1 {
				t.Errorf("%s %s: allowed %t: %+v", of.kind, test.spec, response.Allowed, response.Result)
				continue
			}
			if cause := response.Result.Details.Causes[0]; cause.Field != of.path+test.field || cause.Message != test.message {
				t.Errorf("%s: %s: %s, want %s%s: %s", of.kind, cause.Field, cause.Message, of.path, test.field, test.message)
			}
		}
	}
}
