package beside

import (
	"strings"
	"sync"
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

// sizes are what VMs of tests name: an instancetype and a preference.
const (
	small = "{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: small}, " +
		"spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}}"
	virtio = "{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachinePreference, metadata: {name: virtio}, " +
		"spec: {devices: {preferredDiskBus: virtio, preferredInterfaceModel: virtio}}}"
	sized = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: sized}, spec: {runStrategy: Always,
  instancetype: {kind: VirtualMachineInstancetype, name: small}, preference: {kind: VirtualMachinePreference, name: virtio},
  template: {metadata: {}, spec: {domain: {devices: {disks: [{name: root, disk: {}}], interfaces: [{name: default, masquerade: {}}]}},
    networks: [{name: default, pod: {}}], volumes: [{name: root, containerDisk: {image: 'registry.example/guest:1'}}]}}}}`
)

// before contains what was found while KubeVirt ran without Kiln.
var before struct {
	sync.Once
	space    space // its T has ended
	vms      map[string]*v1.VirtualMachine
	vmis     map[string]*v1.VirtualMachineInstance
	verdicts map[string]verdict
	rules    []ruleAnswer
	failures []string
}

// alone lets KubeVirt without Kiln make guests of VMs, and judge the guests that are compared later.
func alone(t *testing.T) {
	t.Helper()
	before.Do(func() {
		s := newSpaceOn(t, shared)
		before.space, before.vms, before.vmis = s, map[string]*v1.VirtualMachine{}, map[string]*v1.VirtualMachineInstance{}
		s.create(small)
		s.create(virtio)
		s.create(sized)
		s.vm("plain", v1.RunStrategyAlways, "")
		s.vm("halted", v1.RunStrategyHalted, "")
		for _, name := range []string{"sized", "plain"} {
			before.vmis[name] = s.runs(name)
		}
		for _, name := range []string{"sized", "plain", "halted"} {
			s.eventually("KubeVirt has seen "+name, func() (bool, any) {
				before.vms[name] = s.machine(name)
				return before.vms[name].Status.PrintableStatus != "", before.vms[name].Status
			})
		}
		before.rules = refusedCases(s)
		before.verdicts = verdicts(s, before.verdicts)
		before.failures = s.failures()
	})
	if before.verdicts == nil {
		t.Fatal("KubeVirt alone did not work: see the first test")
	}
}

// TestAlone: KubeVirt of this harness makes a VMI of a VM and a pod of a VMI, and expands an instancetype.
func TestAlone(t *testing.T) {
	alone(t)
	s := before.space
	s.T = t
	for name, vmi := range before.vmis {
		pods, err := s.on.List(t.Context(), s.in("pod"), v1.CreatedByLabel+"="+string(vmi.UID))
		if err != nil || len(pods.Items) != 1 || !strings.HasPrefix(pods.Items[0].GetName(), "virt-launcher-"+name) {
			t.Errorf("%s: %d pods, %v", name, len(pods.Items), err)
		}
	}
	vm, vmi := before.vms["sized"], before.vmis["sized"]
	if vmi.Spec.Domain.CPU == nil || vmi.Spec.Domain.CPU.Sockets != 1 || vmi.Spec.Domain.Devices.Interfaces[0].Model != "virtio" {
		t.Errorf("the guest is not what its instancetype and preference say: %+v", vmi.Spec.Domain)
	}
	if vm.Status.InstancetypeRef == nil || vm.Status.InstancetypeRef.ControllerRevisionRef == nil {
		t.Errorf("virt-controller has stored no revision: %+v", vm.Status)
	}
	s.noFight()
}
