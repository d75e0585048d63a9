package beside

import (
	"context"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
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
	s.eventually("Kiln has pinned the VM, and status.instancetypeRef names the pin", func() (bool, any) {
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

// TestNoPinYet: as before, with Kiln's controller slow: virt-controller comes first. The guest gets what the pin says, or waits until it can.
func TestNoPinYet(t *testing.T) {
	s := newSpace(t)
	s.create(small)
	s.create(virtio)
	s.ok(s.on.StopVirtController())
	s.ok(s.on.StopControllers())
	controller, kiln := true, true
	start := func() {
		if controller {
			controller = false
			s.ok(s.on.StartVirtController(context.Background()))
		}
	}
	startKiln := func() {
		if kiln {
			kiln = false
			s.ok(s.on.StartControllers(context.Background()))
		}
	}
	t.Cleanup(startKiln)
	t.Cleanup(start)
	s.create(sized)
	s.ok(s.on.MergePatch(t.Context(), s.in("vmf"), "small", `{"spec": {"cpu": {"guest": 4}}}`))
	start()
	time.Sleep(3 * time.Second)
	startKiln()
	if cpu := s.runs("sized").Spec.Domain.CPU; cpu == nil || cpu.Sockets*max(cpu.Cores, 1)*max(cpu.Threads, 1) != 1 {
		t.Errorf("the guest has the CPUs of the edited instancetype: %+v", cpu)
	}
}

// TestReplace: 'kubectl replace' with the manifest that created a VM does not change its machine: the VM and its next guest keep UUID and serial number.
func TestReplace(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	text := manifest("original", v1.RunStrategyAlways, "")
	s.create(text)
	was := s.runs("original")
	firmware := s.machine("original").Spec.Template.Spec.Domain.Firmware
	if firmware == nil || firmware.UUID == "" || firmware.Serial == "" {
		t.Fatalf("KubeVirt has written no UUID and serial number: %+v", firmware)
	}
	if _, stderr, err := s.on.Kubectl(t.Context(), text, "replace", "-n", s.name, "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if _, stderr, err := s.on.Kubectl(t.Context(), text, "apply", "--server-side", "--force-conflicts", "-n", s.name, "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	time.Sleep(2 * time.Second) // in which KubeVirt would write another UUID
	if is := s.machine("original").Spec.Template.Spec.Domain.Firmware; is == nil || is.UUID != firmware.UUID || is.Serial != firmware.Serial {
		t.Errorf("the VM's firmware was %+v, is %+v", firmware, is)
	}
	s.must("restart", "original")
	next := s.runs("original", string(was.UID))
	if is := next.Spec.Domain.Firmware; is == nil || is.UUID != was.Spec.Domain.Firmware.UUID || is.Serial != was.Spec.Domain.Firmware.Serial {
		t.Errorf("the guest's firmware was %+v, is %+v", was.Spec.Domain.Firmware, is)
	}
	s.noFight()
}

// TestGuestHasPins: the VMI that KubeVirt makes has the pins and the identity of its VM.
func TestGuestHasPins(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	s.create(small)
	s.create(virtio)
	s.create(sized)
	vmi, vm := s.runs("sized"), s.machine("sized")
	for _, key := range []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity} {
		if vm.Annotations[key] == "" || vmi.Annotations[key] != vm.Annotations[key] {
			t.Errorf("%s: the VM has %q, the VMI %q", key, vm.Annotations[key], vmi.Annotations[key])
		}
	}
}

// TestRepin: an edited instancetype reaches the guest of a VM that is pinned anew, with its next start.
func TestRepin(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	s.create(small)
	s.create(virtio)
	s.create(sized)
	was := s.runs("sized")
	s.ok(s.on.MergePatch(t.Context(), s.in("vmf"), "small", `{"spec": {"cpu": {"guest": 4}}}`))
	s.must("restart", "sized")
	same := s.runs("sized", string(was.UID))
	if same.Spec.Domain.CPU.Sockets != 1 {
		t.Errorf("an edit reaches a VM that is pinned: %+v", same.Spec.Domain.CPU)
	}
	s.eventually("the webhook knows the edit, and KubeVirt expands the pin", func() (bool, any) {
		s.patch("sized", `{"metadata": {"annotations": {"kilnvm.io/pins": ""}}}`)
		vm := s.machine("sized")
		return vm.Annotations[v1alpha1.AnnotationPins] != was.Annotations[v1alpha1.AnnotationPins], vm.Annotations
	})
	s.must("restart", "sized")
	next := s.runs("sized", string(same.UID))
	if cpu := next.Spec.Domain.CPU; cpu.Sockets*max(cpu.Cores, 1)*max(cpu.Threads, 1) != 4 ||
		next.Annotations[v1alpha1.AnnotationPins] == was.Annotations[v1alpha1.AnnotationPins] {
		t.Errorf("the guest has %+v and pins %s", cpu, next.Annotations[v1alpha1.AnnotationPins])
	}
}
