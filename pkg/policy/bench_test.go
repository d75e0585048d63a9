package policy_test

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/pkg/policy"
	v1 "kubevirt.io/api/core/v1"
)

// ordinary are policies as administrators write them: one or two validations, some with a variable or a condition.
var ordinary = []string{
	`{matchConstraints: {resources: [virtualmachines]}, validations: [{expression: 'has(object.spec.instancetype)', message: name an instancetype}]}`,
	`{variables: [{name: class, expression: 'namespaceObject.metadata.labels.team'}],
	  validations: [{expression: 'instancetype == null || instancetype.metadata.name.startsWith("u1.") || variables.class == "hpc"', message: use u1}]}`,
	`{variables: [{name: vcpus, expression: 'guest.spec.domain.?cpu.?sockets.orValue(1) * guest.spec.domain.?cpu.?cores.orValue(1) *
	  guest.spec.domain.?cpu.?threads.orValue(1)'}],
	  validations: [{expression: 'guest == null || variables.vcpus <= 16', messageExpression: '"has " + string(variables.vcpus)'},
	    {expression: 'guest == null || quantity(guest.spec.domain.memory.guest).compareTo(quantity("64Gi")) <= 0'}]}`,
	`{validations: [{expression: '!has(guest.spec.domain.devices.gpus) && !has(guest.spec.domain.devices.hostDevices)'},
	  {expression: 'guest.spec.domain.devices.?interfaces.orValue([]).all(i, !has(i.sriov))'}]}`,
	`{matchConditions: [{name: windows, expression: 'preference != null && preference.metadata.name.startsWith("windows.")'}],
	  validations: [{expression: 'has(guest.spec.domain.devices.tpm)'}]}`,
	`{validations: [{expression: 'guest.spec.domain.devices.disks.all(d, d.name.matches("^[a-z][a-z0-9-]*$"))'},
	  {expression: 'object.metadata.?labels["app"].orValue("") != ""'}]}`,
}

// many returns n ordinary policies with the given matchConstraints added; none if empty.
func many(t testing.TB, n int, match string) (all []*policy.Policy) {
	t.Helper()
	for i := range n {
		written := read(t, fmt.Sprintf("policy-%d", i), ordinary[i%len(ordinary)])
		if match != "" {
			written.Spec.MatchConstraints = read(t, "", match).Spec.MatchConstraints
		}
		compiled, errs := policy.Compile(written)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		all = append(all, compiled)
	}
	return all
}

// unmatched selects nothing of the requests of these tests, by each of the constraints.
var unmatched = []string{
	"{matchConstraints: {resources: [virtualmachines], namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [other, another]}]}}}",
	"{matchConstraints: {resources: [virtualmachines], objectSelector: {matchLabels: {app: other}}}}",
	"{matchConstraints: {resources: [virtualmachines], operations: [UPDATE]}}",
}

// TestUnmatchedPolicyAllocatesNothing: what a policy does not select pays nothing for it.
func TestUnmatchedPolicyAllocatesNothing(t *testing.T) {
	request := small()
	for _, match := range unmatched {
		policies := many(t, 50, match)
		if allocs := testing.AllocsPerRun(100, func() {
			if result := policy.Judge(nil, policies, request); result.Cost > 0 {
				t.Fatal("a policy matches")
			}
		}); allocs > 0 {
			t.Errorf("%s: %v allocations", match, allocs)
		}
	}
}

// BenchmarkJudge measures 50 policies on a VM with two disks and two interfaces. The issue allows 1.0 ms for them and 50 profiles.
func BenchmarkJudge(b *testing.B) {
	for _, bench := range []struct{ name, match string }{{"matching", ""}, {"unmatched", unmatched[0]}} {
		policies, request := many(b, 50, bench.match), small()
		request.Guest.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default"}, {Name: "storage"}}
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if result := policy.Judge(nil, policies, request); len(result.Errors) > 0 {
					b.Fatal(result.Errors)
				}
			}
		})
	}
}

// BenchmarkCompile measures one policy, compiled for VMs and VMIs.
func BenchmarkCompile(b *testing.B) {
	written := read(b, "test", ordinary[2])
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := policy.Compile(written); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
