package beside

import (
	"context"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// TestInstancetypeEdited: an instancetype is edited after the admission of a VM, and before virt-controller has seen the VM. The guest gets what the pin says.
func TestInstancetypeEdited(t *testing.T) {
	s := newSpace(t)
	s.create(small)
	s.create(virtio)
	s.ok(s.on.StopVirtController())
	stopped := true
	start := func() {
		if stopped {
			s.ok(s.on.StartVirtController(context.Background()))
		}
		stopped = false
	}
	t.Cleanup(start)
	s.create(sized)
	s.eventually("Kiln has pinned the VM, and told KubeVirt", func() (bool, any) {
		vm := s.machine("sized")
		return vm.Annotations[v1alpha1.AnnotationPins] != "" && vm.Status.InstancetypeRef != nil && vm.Status.InstancetypeRef.ControllerRevisionRef != nil, vm
	})
	s.ok(s.on.MergePatch(t.Context(), s.in("vmf"), "small", `{"spec": {"cpu": {"guest": 4}}}`))
	start()
	if cpu := s.runs("sized").Spec.Domain.CPU; cpu == nil || cpu.Sockets*max(cpu.Cores, 1)*max(cpu.Threads, 1) != 1 {
		t.Errorf("the guest has the CPUs of the edited instancetype: %+v", cpu)
	}
	s.noFight()
}
