package vmipod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// TestStart: each step of a start, the writes that it costs, and what the VMI says.
func TestStart(t *testing.T) {
	c := newCluster(t, explicitVMI())
	for _, step := range []struct {
		why    string
		do     func()
		phase  v1.VirtualMachineInstancePhase
		writes []string
	}{
		{"the pod is made", func() {}, v1.Scheduling, []string{"create *v1.ServiceAccount", "create *v1.Role", "create *v1.RoleBinding", "create *v1.Pod",
			"patch status of *v1.VirtualMachineInstance"}},
		{"it has a node", func() { c.bindPod("n1") }, v1.Scheduled, []string{"create *v1alpha1.GuestPod", "patch status of *v1.VirtualMachineInstance"}},
		{"the launcher reports", func() { c.reportFacts("pc-q35-10.0") }, v1.Scheduled, []string{"patch *v1alpha1.GuestHardware", "patch *v1alpha1.GuestPod"}},
		{"the guest runs", func() { c.reportDomain(v1alpha1.GuestRunning, "") }, v1.Running, []string{"patch status of *v1.VirtualMachineInstance"}},
		{"the launcher reports other facts", func() { c.reportFacts("pc-q35-9.0") }, v1.Running, nil},
		{"nothing is new", func() {}, v1.Running, nil},
	} {
		c.writes = nil
		step.do()
		c.reconcileAll()
		if diff := cmp.Diff(step.writes, c.writes); diff != "" || c.vmi().Status.Phase != step.phase {
			t.Errorf("%s: phase %s, want %s; writes -want +got\n%s", step.why, c.vmi().Status.Phase, step.phase, diff)
		}
	}
	guest, hardware := c.guestPod(), read(c, key, &v1alpha1.GuestHardware{})
	if guest.Spec.NodeName != "n1" || guest.Spec.PodUID != c.pod().UID || guest.Spec.VMIUID != c.vmi().UID || guest.Spec.ClusterUID != "the-cluster" {
		t.Errorf("the GuestPod says %+v", guest.Spec)
	}
	if hardware.Spec.Hardware.Machine != "pc-q35-10.0" || guest.Spec.Hardware.Digest != hardware.Spec.Hardware.Digest || guest.Spec.Hardware.Frontend == "" {
		t.Errorf("recorded %+v, told %s", hardware.Spec.Hardware, guest.Spec.Hardware.Digest)
	}
}

// TestStatusOfAGuestThatRuns: all that the controller writes into a VMI.
func TestStatusOfAGuestThatRuns(t *testing.T) {
	c := newCluster(t, explicitVMI())
	c.runGuest()
	is := c.vmi().Status
	burstable := corev1.PodQOSBurstable
	want := v1.VirtualMachineInstanceStatus{
		NodeName: "n1", Phase: v1.Running, ActivePods: map[types.UID]string{c.pod().UID: "n1"}, QOSClass: &burstable, RuntimeUser: 107,
		LauncherContainerImageVersion: "launcher:1", Machine: &v1.Machine{Type: "pc-q35-10.0"},
		Interfaces: []v1.VirtualMachineInstanceNetworkInterface{{Name: "default", MAC: read(c, key, &v1alpha1.GuestHardware{}).Spec.Hardware.MACs["default"],
			IP: "10.1.0.7", IPs: []string{"10.1.0.7", "fd00::7"}, PodInterfaceName: "eth0", InfoSource: "domain"}},
	}
	var phases []v1.VirtualMachineInstancePhase
	for _, at := range is.PhaseTransitionTimestamps {
		phases = append(phases, at.Phase)
	}
	ready, synchronized := condition.Of(c.vmi(), v1.VirtualMachineInstanceReady), condition.Of(c.vmi(), v1.VirtualMachineInstanceSynchronized)
	is.Conditions, is.PhaseTransitionTimestamps = nil, nil
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]v1.VirtualMachineInstancePhase{v1.Scheduling, v1.Scheduled, v1.Running}, phases); diff != "" {
		t.Errorf("phases -want +got\n%s", diff)
	}
	if ready == nil || ready.Status != corev1.ConditionTrue || synchronized == nil || synchronized.Status != corev1.ConditionTrue {
		t.Errorf("Ready %+v, Synchronized %+v", ready, synchronized)
	}
}
