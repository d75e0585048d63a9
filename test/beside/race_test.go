package beside

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

// TestOneMaker: of VMs that are created at once, KubeVirt makes each VMI, and Kiln makes none. A restart ends one guest and makes another one.
func TestOneMaker(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	const vms = 9
	for i := range vms {
		s.vm(fmt.Sprintf("race%d", i), v1.RunStrategyAlways, "")
	}
	for i := range vms {
		name := fmt.Sprintf("race%d", i)
		vmi := s.runs(name)
		if len(vmi.OwnerReferences) != 1 || vmi.OwnerReferences[0].UID != s.machine(name).UID {
			t.Errorf("%s: owners of the VMI: %v", name, vmi.OwnerReferences)
		}
		if slices.Contains(vmi.Finalizers, "kilnvm.io/record") {
			t.Errorf("%s: Kiln's finalizer: %v", name, vmi.Finalizers)
		}
	}
	list, err := s.on.List(t.Context(), s.in("vmi"), "")
	if err != nil || len(list.Items) != vms {
		t.Errorf("%d VMIs of %d VMs, %v", len(list.Items), vms, err)
	}
	was := s.guest("race0")
	s.must("restart", "race0")
	s.runs("race0", string(was.UID))
	s.eventually("KubeVirt has done what it was asked for", func() (bool, any) {
		requests := s.machine("race0").Status.StateChangeRequests
		return len(requests) == 0, requests
	})
	requests, err := s.on.Requests()
	s.ok(err)
	for _, request := range requests {
		if request.Verb == "create" && (request.Resource == "virtualmachineinstances" || request.Resource == "pods") {
			t.Errorf("Kiln has made guests: %v", request)
		}
	}
	s.noFight()
}

// TestSecondMaker: a controller with --guests=kiln does not start beside KubeVirt.
func TestSecondMaker(t *testing.T) {
	withKiln(t)
	t.Parallel()
	output, err := shared.SecondController(t.Context(), "kiln")
	if err == nil || !strings.Contains(output, "each VM would get two makers") {
		t.Errorf("a second maker: %v: %s", err, output)
	}
}
