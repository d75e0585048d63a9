package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// growing is a VMI of 2 CPUs and 1 GiB that may have 8 and 4 GiB, with two cards, a disk and a CD-ROM.
func growing(t *testing.T, change func(*v1.VirtualMachineInstanceSpec)) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "grows", "default", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	memory := resource.MustParse("1Gi")
	spec := &vmi.Spec
	spec.Domain.Memory, spec.Domain.CPU = &v1.Memory{Guest: &memory}, &v1.CPU{Sockets: 2, Cores: 1, Threads: 1}
	spec.Domain.Devices.Disks = []v1.Disk{{Name: "cd", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{Bus: v1.DiskBusSATA}}},
		{Name: "data", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}}
	spec.Volumes = []v1.Volume{{Name: "cd", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "tools:1"}}},
		{Name: "data", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: memory}}}}
	bridge := v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}
	spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default", InterfaceBindingMethod: bridge}, {Name: "blue", InterfaceBindingMethod: bridge}}
	spec.Networks = []v1.Network{*v1.DefaultPodNetwork(),
		{Name: "blue", NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "blue"}}}}
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	if change != nil {
		change(&explicit.Spec)
	}
	return explicit
}

func frontOf(t *testing.T, vmi *v1.VirtualMachineInstance) Front {
	t.Helper()
	m := Machine{VMI: vmi, Defaults: config.Default().Frontend, Host: backend.Assumed("amd64"), Bindings: backend.AssumedBindings(vmi)}
	made, errs := FromFacts(m, Facts(m))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return made.Frontend
}

// TestLiveDigest: a guest that was changed while it runs has the digest of one that is started with the change, and the frontend that it was started with
// stays as it is.
func TestLiveDigest(t *testing.T) {
	t.Parallel()
	front := frontOf(t, growing(t, nil))
	booted := abi.Digest(front)
	two, all := resource.MustParse("2Gi"), resource.MustParse("4Gi")
	for _, test := range []struct {
		why     string
		change  func(*v1.VirtualMachineInstanceSpec)
		want    v1alpha1.LiveHardware
		removed bool // where a device is gone, a start would number nothing anew only with its record
	}{
		{"nothing", nil, v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20}, false},
		{"CPUs", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.CPU.Sockets = 4 }, v1alpha1.LiveHardware{VCPUs: 4, MemoryKiB: 1 << 20}, false},
		{"all CPUs", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.CPU.Sockets = 8 }, v1alpha1.LiveHardware{VCPUs: 8, MemoryKiB: 1 << 20}, false},
		{"memory", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Memory.Guest = &two }, v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 2 << 20}, false},
		{"all memory", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Memory.Guest = &all }, v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 4 << 20}, true},
		{"a link", func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Devices.Interfaces[1].State = v1.InterfaceStateLinkDown
		},
			v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, LinksDown: []string{"blue"}}, false},
		{"a medium", func(s *v1.VirtualMachineInstanceSpec) { s.Volumes = s.Volumes[1:] },
			v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Ejected: []string{"cd"}}, false},
		{"a card", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Interfaces[1].State = v1.InterfaceStateAbsent },
			v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Absent: []string{"interface.blue"}}, true},
		{"a disk", func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Devices.Disks, s.Volumes = s.Domain.Devices.Disks[:1], s.Volumes[:1]
		},
			v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Absent: []string{"disk.data"}}, true},
	} {
		vmi := growing(t, test.change)
		live := WantedHardware(vmi, front)
		if diff := cmp.Diff(test.want, live); diff != "" {
			t.Errorf("%s: the VMI asks for (-want +got)\n%s", test.why, diff)
		}
		if err := CheckLive(front, live); err != nil {
			t.Errorf("%s: %v", test.why, err)
		}
		got := abi.Digest(WithLive(front, live))
		if want := abi.Digest(frontOf(t, vmi)); got != want && !test.removed {
			t.Errorf("%s: digest %s, a start has %s", test.why, got, want)
		}
		if (got == booted) != (test.why == "nothing" || test.why == "a medium") {
			t.Errorf("%s: digest %s, at boot %s", test.why, got, booted)
		}
		if abi.Digest(front) != booted {
			t.Fatalf("%s: the frontend has changed", test.why)
		}
	}
}

// TestCheckLive: a report of hardware that the guest cannot have is refused.
func TestCheckLive(t *testing.T) {
	t.Parallel()
	front := frontOf(t, growing(t, nil))
	for _, test := range []struct {
		live v1alpha1.LiveHardware
		want string
	}{
		{v1alpha1.LiveHardware{VCPUs: 0, MemoryKiB: 1 << 20}, "vcpus"},
		{v1alpha1.LiveHardware{VCPUs: 9, MemoryKiB: 1 << 20}, "vcpus"},
		{v1alpha1.LiveHardware{VCPUs: -1, MemoryKiB: 1 << 20}, "vcpus"},
		{v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1<<20 - 1}, "memoryKiB"},
		{v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 4<<20 + 1}, "memoryKiB"},
		{v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Absent: []string{"disk.none"}}, "absent"},
		{v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Absent: []string{"controller.pci.1"}}, "absent"},
		{v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Absent: []string{"disk.data", "disk.cd"}}, "in order"},
		{v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Absent: []string{"disk.data", "disk.data"}}, "once"},
		{v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, LinksDown: []string{"data"}}, "linksDown"},
		{v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Ejected: []string{"data"}}, "ejected"},
		{v1alpha1.LiveHardware{VCPUs: 8, MemoryKiB: 4 << 20, Absent: []string{"disk.data", "interface.blue"}, LinksDown: []string{"default"},
			Ejected: []string{"cd"}}, ""},
	} {
		err := CheckLive(front, test.live)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want '%s'", test.live, err, test.want)
		}
	}
}

// TestRunning: what libvirt runs is said by the names of the frontend, whatever somebody has plugged in by hand.
func TestRunning(t *testing.T) {
	t.Parallel()
	front := frontOf(t, growing(t, nil))
	got := RunningHardware(front, Seen{VCPUs: 4, MemoryKiB: 2 << 20, Aliases: []string{"ua-blue", "ua-cd", "by-hand"}, Down: []string{"ua-blue", "by-hand"},
		Empty: []string{"ua-cd"}})
	want := v1alpha1.LiveHardware{VCPUs: 4, MemoryKiB: 2 << 20, Absent: []string{"disk.data", "interface.default"}, LinksDown: []string{"blue"},
		Ejected: []string{"cd"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	changes := LiveChanges(v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20}, got)
	if want := "vCPUs from 2 to 4; memory from 1024 to 2048 MiB; disk 'data' is unplugged; interface 'default' is unplugged; " +
		"the link of interface 'blue' is down; CD-ROM 'cd' has no medium"; changes != want {
		t.Errorf("changes are '%s'", changes)
	}
}
