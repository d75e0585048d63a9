package render_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/explicit"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// ran is a VMI that runs under KubeVirt with a virtio disk and an interface, and the record of its boot.
func ran(t *testing.T) (*v1.VirtualMachineInstance, *record.Record) {
	t.Helper()
	given := &v1.VirtualMachineInstance{}
	given.Name, given.Namespace = "web", "team"
	given.Spec.Domain.Memory = &v1.Memory{Guest: ptr.To(resource.MustParse("1Gi"))}
	withDisk(given, "root", v1.DiskBusVirtio)
	withInterface(given, "blue")
	vmi := explicit.Expand(t, given)
	made, errs := render.KubeVirt(vmi, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	vmi.Status.VolumeStatus = []v1.VolumeStatus{{Name: "root", Target: "vda"}}
	vmi.Status.Interfaces = []v1.VirtualMachineInstanceNetworkInterface{
		{Name: "blue", InfoSource: "domain, guest-agent, multus-status"}, {InfoSource: "guest-agent"}}
	vmi.Status.Memory = &v1.MemoryStatus{GuestAtBoot: ptr.To(resource.MustParse("1Gi")), GuestCurrent: ptr.To(resource.MustParse("1Gi"))}
	return vmi, &made
}

func withDisk(vmi *v1.VirtualMachineInstance, name string, bus v1.DiskBus) {
	vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: bus}}})
	vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name,
		VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}}})
}

func withInterface(vmi *v1.VirtualMachineInstance, name string) {
	vmi.Spec.Domain.Devices.Interfaces = append(vmi.Spec.Domain.Devices.Interfaces, v1.Interface{Name: name, Model: "virtio",
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}})
	vmi.Spec.Networks = append(vmi.Spec.Networks, v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: name}}})
}

func target(name, target string) v1.VolumeStatus { return v1.VolumeStatus{Name: name, Target: target} }

// TestKubeVirtPlugged: devices that the status says the domain has are recorded, and no others.
func TestKubeVirtPlugged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, device, want string
		plug              func(*v1.VirtualMachineInstance)
	}{
		{"a virtio disk in the domain", "disk.data", "pci", func(vmi *v1.VirtualMachineInstance) {
			withDisk(vmi, "data", v1.DiskBusVirtio)
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, target("data", "vdb"))
		}},
		{"a virtio disk that is not there yet", "disk.data", "", func(vmi *v1.VirtualMachineInstance) {
			withDisk(vmi, "data", v1.DiskBusVirtio)
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, target("data", ""))
		}},
		{"a disk without a status", "disk.data", "", func(vmi *v1.VirtualMachineInstance) { withDisk(vmi, "data", v1.DiskBusSCSI) }},
		{"the unit of a SCSI disk", "disk.data", "0:0:0:28", func(vmi *v1.VirtualMachineInstance) {
			withDisk(vmi, "data", v1.DiskBusSCSI)
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, target("data", "sdac"))
		}},
		{"a SCSI disk that is passed through", "disk.lun", "0:0:0:3", func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, v1.Disk{Name: "lun",
				DiskDevice: v1.DiskDevice{LUN: &v1.LunTarget{Bus: v1.DiskBusSCSI}}})
			vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: "lun", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}})
			vmi.Spec.Volumes[len(vmi.Spec.Volumes)-1].PersistentVolumeClaim.ClaimName = "lun"
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, target("lun", "sdd"))
		}},
		{"a target that nobody gives", "disk.data", "0:0:0:0", func(vmi *v1.VirtualMachineInstance) {
			withDisk(vmi, "data", v1.DiskBusSCSI)
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, target("data", "sd../a"))
		}},
		{"an interface in the domain", "interface.green", "pci", func(vmi *v1.VirtualMachineInstance) {
			withInterface(vmi, "green")
			vmi.Status.Interfaces = append(vmi.Status.Interfaces, v1.VirtualMachineInstanceNetworkInterface{Name: "green", InfoSource: "domain"})
		}},
		{"an interface of which only the pod knows", "interface.green", "", func(vmi *v1.VirtualMachineInstance) {
			withInterface(vmi, "green")
			vmi.Status.Interfaces = append(vmi.Status.Interfaces, v1.VirtualMachineInstanceNetworkInterface{Name: "green", InfoSource: "multus-status"})
		}},
		{"a migration that has ended", "interface.blue", "pci", func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{Completed: true}
		}},
		{"a migration that has failed", "interface.blue", "pci", func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{Failed: true}
		}},
		{"an interface that is gone", "interface.blue", "", func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Devices.Interfaces, vmi.Spec.Networks, vmi.Status.Interfaces = nil, nil, nil
		}},
	} {
		vmi, earlier := ran(t)
		c.plug(vmi)
		given := vmi.DeepCopy()
		made, certain, errs := render.KubeVirtPlugged(vmi, earlier)
		if len(errs) > 0 || !certain {
			t.Errorf("%s: %v, certain: %t", c.why, errs, certain)
			continue
		}
		got := made.Devices[c.device].Drive
		if made.Devices[c.device].PCI != "" {
			got = "pci"
		}
		if got != c.want || made.Devices["disk.root"] != earlier.Devices["disk.root"] {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
		if len(given.Spec.Domain.Devices.Disks) != len(vmi.Spec.Domain.Devices.Disks) || len(given.Spec.Networks) != len(vmi.Spec.Networks) {
			t.Errorf("%s: the VMI is changed", c.why)
		}
	}
}

// TestKubeVirtPluggedIsUncertain: nothing is recorded while the VMI does not tell what libvirt does.
func TestKubeVirtPluggedIsUncertain(t *testing.T) {
	t.Parallel()
	for why, edit := range map[string]func(*v1.VirtualMachineInstance){
		"a disk leaves": func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, target("gone", "vdb"))
		},
		"an interface is to leave": func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Devices.Interfaces[0].State = v1.InterfaceStateAbsent
		},
		"an interface leaves": func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Devices.Interfaces, vmi.Spec.Networks = nil, nil
		},
		"a migration": func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{}
		},
		"memory is to be plugged in": func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Memory.Guest = ptr.To(resource.MustParse("2Gi"))
		},
		"memory was plugged in": func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.Memory.GuestCurrent = ptr.To(resource.MustParse("2Gi"))
		},
		"a unit that no record has": func(vmi *v1.VirtualMachineInstance) {
			withDisk(vmi, "data", v1.DiskBusSCSI)
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, target("data", "sdzz"))
		},
	} {
		vmi, earlier := ran(t)
		if _, certain, _ := render.KubeVirtPlugged(vmi, earlier); !certain {
			t.Fatal("the guest is uncertain before anything happens")
		}
		edit(vmi)
		if made, certain, errs := render.KubeVirtPlugged(vmi, earlier); certain || made != nil || len(errs) > 0 {
			t.Errorf("%s: recorded %v, certain: %t, %v", why, made, certain, errs)
		}
	}
	vmi, earlier := ran(t)
	vmi.Spec.Domain.Memory, vmi.Status.Memory = nil, nil
	if _, _, errs := render.KubeVirtPlugged(vmi, earlier); len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), "spec.domain.memory") {
		t.Errorf("a guest that Kiln cannot render: %v", errs)
	}
}
