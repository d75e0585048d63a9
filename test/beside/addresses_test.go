package beside

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Recorded PCI addresses without Kiln's hook: here KubeVirt's gate Sidecar is off.

// hardwareText is a record as it is captured: eight root ports, and the devices of template.
func hardwareText() string {
	devices := []string{"interface.default: {pci: '0000:01:00.0'}", "disk.root: {pci: '0000:07:00.0'}", "memballoon.balloon: {pci: '0000:08:00.0'}"}
	for i := range 8 {
		devices = append(devices, fmt.Sprintf("controller.pci.%d: {pci: '0000:00:02.%d', index: %d}", i+1, i, i+1))
	}
	return "{defaults: '', digest: '', machine: pc-q35-9.2, devices: {" + strings.Join(devices, ", ") + "}}"
}

// startsRecorded makes a VM with a record, and waits until its guest runs.
func (s space) startsRecorded(name string) live {
	s.Helper()
	s.create("{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: lan}, spec: {config: '{}'}}")
	s.create(manifest(name, v1.RunStrategyHalted, ""))
	identity := s.machine(name).Annotations[v1alpha1.AnnotationIdentity]
	s.create("{apiVersion: kilnvm.io/v1alpha1, kind: GuestHardware, metadata: {name: " + name + "}, spec: {identity: '" + identity + "', hardware: " +
		hardwareText() + "}}")
	s.patch(name, `{"spec": {"runStrategy": "Always"}}`)
	return live{s, name, s.runs(name)}
}

// plugNIC adds an interface to a VM.
func (s space) plugNIC(name string) {
	s.Helper()
	s.patch(name, `{"spec": {"template": {"spec": {"domain": {"devices": {"interfaces": [{"name": "default", "masquerade": {}}, {"name": "lan", "bridge": {}}]}},
		"networks": [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}]}}}}`)
}

func hasNIC(vmi *v1.VirtualMachineInstance) bool {
	return len(vmi.Spec.Domain.Devices.Interfaces) == 2 && len(vmi.Spec.Networks) == 2
}

const twoSockets = `{"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}`

// restartRequired is the condition of a VM.
func (s space) restartRequired(name string) bool {
	s.Helper()
	for _, condition := range s.machine(name).Status.Conditions {
		if condition.Type == v1.VirtualMachineRestartRequired && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// TestAddressesOfDisks: the VMI has the recorded address of its disk. Volumes, interfaces and sockets are plugged in as without, and no restart is asked for.
// 'kubectl kiln explain' of the VMI shows the address.
func TestAddressesOfDisks(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	s.claim("data")
	l := s.startsRecorded("disks")
	if at := l.was.Spec.Domain.Devices.Disks[0].Disk.PciAddress; at != "0000:07:00.0" {
		t.Fatalf("the disk is at '%s'", at)
	}
	s.must("addvolume", "disks", "--volume-name=data", "--persist")
	l.plugged("a volume", func(vmi *v1.VirtualMachineInstance) bool {
		return len(vmi.Spec.Volumes) == 2 && len(vmi.Status.VolumeStatus) == 2 && vmi.Status.VolumeStatus[0].Phase == v1.VolumeReady
	})
	s.plugNIC("disks")
	l.plugged("an interface", hasNIC)
	s.patch("disks", twoSockets)
	l.plugged("a socket", func(vmi *v1.VirtualMachineInstance) bool { return vmi.Spec.Domain.CPU.Sockets == 2 })
	s.must("removevolume", "disks", "--volume-name=data", "--persist")
	l.plugged("no volume", func(vmi *v1.VirtualMachineInstance) bool { return len(vmi.Spec.Volumes) == 1 })
	if at := s.guest("disks").Spec.Domain.Devices.Disks[0].Disk.PciAddress; at != "0000:07:00.0" {
		t.Errorf("after all that the disk is at '%s'", at)
	}
	const path = "spec.domain.devices.disks[0].disk.pciAddress"
	if address := s.explanations("vmi/", []string{"disks"})["disks"][path]; address != "0000:07:00.0" {
		t.Errorf("explain says that the disk is at '%v'", address)
	}
}

// TestAddressesOfInterfaces: a VMI whose guest runs no longer has the recorded address of its interface. So KubeVirt finds the interfaces of VMI and VM equal:
// after an edit of the VM's interfaces it plugs in the new one, and a socket, and requires no restart. TestGrades of test/virtlauncher compares the
// address that a guest reports.
func TestAddressesOfInterfaces(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	l := s.startsRecorded("nics")
	if _, named := l.was.Annotations[v1alpha1.AnnotationInterfaceAddresses]; named || l.was.Spec.Domain.Devices.Interfaces[0].PciAddress != "" {
		t.Errorf("the guest runs, and its VMI has the interfaces %+v, annotations %v", l.was.Spec.Domain.Devices.Interfaces, l.was.Annotations)
	}
	s.plugNIC("nics")
	l.plugged("an interface", hasNIC)
	s.patch("nics", twoSockets)
	l.plugged("a socket", func(vmi *v1.VirtualMachineInstance) bool { return vmi.Spec.Domain.CPU.Sockets == 2 })
	if s.restartRequired("nics") {
		t.Error("a restart is asked for")
	}
	s.must("restart", "nics")
	s.runs("nics", string(l.was.UID))
	s.noFight()
}
