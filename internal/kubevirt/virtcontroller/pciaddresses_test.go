package virtcontroller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// placeable is a VMI each of whose devices can be placed.
const placeable = `
spec:
  architecture: amd64
  domain:
    machine: {type: pc-q35-9.2}
    devices:
      disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio}}]
      interfaces: [{name: x, masquerade: {}}, {name: m, bridge: {}, model: virtio}]
  networks: [{name: x, pod: {}}, {name: m, multus: {networkName: m}}]
  volumes: [{name: a, persistentVolumeClaim: {claimName: a}}, {name: b, dataVolume: {name: b}}]
`

// booted is what placeable had: its devices behind ports of ten.
func booted() *record.Record {
	frozen := &record.Record{Devices: map[string]record.Address{"interface.x": {PCI: "0000:01:00.0"}, "interface.m": {PCI: "0000:02:00.0"},
		"disk.a": {PCI: "0000:07:00.0"}, "disk.b": {PCI: "0000:0a:00.0"}, "controller.scsi.0": {PCI: "0000:05:00.0"}, "video.video": {PCI: "0000:00:01.0"},
		"disk.gone": {Drive: "0:0:0:0"}}}
	ports(10)(frozen)
	return frozen
}

// placed are the addresses of a VMI.
func placed(vmi *v1.VirtualMachineInstance) string {
	found := map[string]string{}
	for _, disk := range vmi.Spec.Domain.Devices.Disks {
		if disk.Disk != nil {
			found[disk.Name] = disk.Disk.PciAddress
		}
	}
	for _, nic := range vmi.Spec.Domain.Devices.Interfaces {
		found[nic.Name] = nic.PciAddress
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name] != "" {
			list = append(list, name+"="+strings.TrimPrefix(found[name], "0000:"))
		}
	}
	return strings.Join(list, " ")
}

// TestKeepAddresses: which recorded addresses a VMI gets.
func TestKeepAddresses(t *testing.T) {
	t.Parallel()
	const all = "a=07:00.0 b=0a:00.0 m=02:00.0 x=01:00.0"
	at := func(key, pci string) func(*record.Record) {
		return func(r *record.Record) { r.Devices[key] = record.Address{PCI: pci} }
	}
	for _, test := range []struct {
		why, from, to string
		record        func(*record.Record)
		want          string
	}{
		{why: "all", want: all},
		{why: "an empty record", record: func(r *record.Record) { *r = record.Record{} }},
		{why: "a new disk, and one that is gone", from: "name: a", to: "name: new", want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a new disk with a spare port", record: func(r *record.Record) { ports(12)(r); delete(r.Devices, "disk.a") },
			want: "a=0b:00.0 b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "two new disks, and one spare port", record: func(r *record.Record) {
			ports(6)(r)
			delete(r.Devices, "controller.pci.7")
			delete(r.Devices, "disk.a")
			delete(r.Devices, "disk.b")
		}, want: "a=06:00.0 m=02:00.0 x=01:00.0"},
		{why: "a new disk, and a user's where it would be", from: "{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio}}",
			to:     "{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio, pciAddress: '0000:0b:00.0'}}",
			record: func(r *record.Record) { ports(12)(r); delete(r.Devices, "disk.a") }, want: "a=0c:00.0 b=0b:00.0 m=02:00.0 x=01:00.0"},
		{why: "a new SATA disk", from: "{name: a, disk: {bus: virtio}}", to: "{name: new, disk: {bus: sata}}", record: ports(12),
			want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a recorded disk that was elsewhere", record: func(r *record.Record) { ports(12)(r); r.Devices["disk.a"] = record.Address{Drive: "0:0:0:1"} },
			want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a new interface", from: "name: m,", to: "name: new,", record: ports(12), want: "a=07:00.0 b=0a:00.0 x=01:00.0"},
		{why: "a new disk, and a device that is not at the first place of its bus", record: func(r *record.Record) {
			ports(12)(r)
			delete(r.Devices, "disk.a")
			r.Devices["rng.rng"] = record.Address{PCI: "0000:0b:01.0"}
		}, want: "a=0c:00.0 b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "an alias of the machine", from: "pc-q35-9.2", to: "q35", want: all},
		{why: "another machine", from: "pc-q35-9.2", to: "pc-i440fx-9.2"},
		{why: "arm64", from: "amd64\n  domain:\n    machine: {type: pc-q35-9.2}", to: "arm64\n  domain:\n    machine: {type: virt}", want: all},
		{why: "arm64 with another machine", from: "amd64", to: "arm64"},
		{why: "s390x", from: "amd64", to: "s390x"},
		{why: "no machine", from: "    machine: {type: pc-q35-9.2}\n"},
		{why: "all on the root bus", from: "spec:\n", to: "metadata: {annotations: {kubevirt.io/placePCIDevicesOnRootComplex: 'true'}}\nspec:\n"},
		{why: "not all on the root bus", from: "spec:\n", to: "metadata: {annotations: {kubevirt.io/placePCIDevicesOnRootComplex: 'false'}}\nspec:\n", want: all},
		{why: "transitional", from: "disks:", to: "useVirtioTransitional: true\n      disks:"},
		{why: "not transitional", from: "disks:", to: "useVirtioTransitional: false\n      disks:", want: all},
		{why: "a host device", from: "disks:", to: "hostDevices: [{name: h, deviceName: h}]\n      disks:", want: all},
		{why: "a host device next to its NUMA node", from: "devices:", to: "cpu: {dedicatedCpuPlacement: true}\n    devices:\n" +
			"      hostDevices: [{name: h, deviceName: h}]"},
		{why: "a GPU next to its NUMA node", from: "devices:", to: "cpu: {dedicatedCpuPlacement: true}\n    devices:\n      gpus: [{name: h, deviceName: h}]"},
		{why: "an SR-IOV interface next to its NUMA node", from: "devices:\n      disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio}}]\n" +
			"      interfaces: [{name: x, masquerade: {}}", to: "cpu: {dedicatedCpuPlacement: true}\n    devices:\n" +
			"      disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio}}]\n      interfaces: [{name: x, sriov: {}}"},
		{why: "dedicated CPUs alone", from: "devices:", to: "cpu: {dedicatedCpuPlacement: true}\n    devices:", want: all},
		{why: "shared CPUs", from: "disks:", to: "gpus: [{name: h, deviceName: h}]\n      disks:", want: all},
		{why: "another bus", from: "{name: a, disk: {bus: virtio}}", to: "{name: a, disk: {bus: sata}}", want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a LUN", from: "{name: a, disk: {bus: virtio}}", to: "{name: a, lun: {bus: virtio}}", want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a claim that is plugged in later", from: "{claimName: a}", to: "{claimName: a, hotpluggable: true}", want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a volume that is plugged in later", from: "dataVolume: {name: b}", to: "dataVolume: {name: b, hotpluggable: true}",
			want: "a=07:00.0 m=02:00.0 x=01:00.0"},
		{why: "no volume", from: "volumes: [{name: a,", to: "volumes: [{name: c,", want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a conventional interface", from: "model: virtio", to: "model: e1000", want: "a=07:00.0 b=0a:00.0 x=01:00.0"},
		{why: "an SR-IOV interface", from: "masquerade: {}", to: "sriov: {}", want: "a=07:00.0 b=0a:00.0 m=02:00.0"},
		{why: "an interface of a plugin", from: "masquerade: {}", to: "binding: {name: p}", want: "a=07:00.0 b=0a:00.0 m=02:00.0"},
		{why: "an interface that is absent", from: "masquerade: {}", to: "masquerade: {}, state: absent", want: "a=07:00.0 b=0a:00.0 m=02:00.0"},
		{why: "an interface that is down", from: "masquerade: {}", to: "masquerade: {}, state: down", want: all},
		{why: "an address of the user's", from: "masquerade: {}", to: "masquerade: {}, pciAddress: '0000:09:00.0'",
			want: "a=07:00.0 b=0a:00.0 m=02:00.0 x=09:00.0"},
		{why: "a place that the user has given to another disk", from: "{name: a, disk: {bus: virtio}}",
			to: "{name: a, disk: {bus: virtio, pciAddress: '0000:0a:00.0'}}", want: "a=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a bus that the user has made a bridge", from: "masquerade: {}", to: "masquerade: {}, pciAddress: '0000:07:01.0'",
			want: "b=0a:00.0 m=02:00.0 x=07:01.0"},
		{why: "a place that two disks share", record: at("disk.b", "0000:07:00.0"), want: "m=02:00.0 x=01:00.0"},
		{why: "a place that three devices share", record: func(r *record.Record) {
			r.Devices["disk.b"], r.Devices["rng.rng"] = record.Address{PCI: "0000:07:00.0"}, record.Address{PCI: "0000:07:00.0"}
		}, want: "m=02:00.0 x=01:00.0"},
		{why: "the place of a controller", record: at("controller.scsi.0", "0000:07:00.0"), want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "the root bus", record: at("disk.a", "0000:00:05.0"), want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "behind a bridge", record: at("disk.a", "0000:07:01.0"), want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "another function", record: at("disk.a", "0000:07:00.1"), want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a bus without a port", record: at("disk.a", "0000:0b:00.0"), want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a form without the domain", record: at("disk.a", "07:00.0"), want: all},
		{why: "ports as without graphics", record: func(r *record.Record) {
			for i := range uint(10) {
				r.Devices[record.ControllerKey("pci", i+1)] = record.Address{PCI: fmt.Sprintf("0000:00:%02x.%d", 1+i/8, i%8)}
			}
		}, want: all},
		{why: "no first port", record: func(r *record.Record) { delete(r.Devices, "controller.pci.1") }},
		{why: "a bridge among the ports", record: at("controller.pci.9", "0000:03:00.0"), want: "a=07:00.0 m=02:00.0 x=01:00.0"},
		{why: "a port elsewhere", record: at("controller.pci.2", "0000:00:09.0"), want: "x=01:00.0"},
		{why: "an expander among the ports", record: func(r *record.Record) {
			port := r.Devices["controller.pci.10"]
			port.Expander = "240"
			r.Devices["controller.pci.10"] = port
		}, want: "a=07:00.0 m=02:00.0 x=01:00.0"},
		{why: "the last bus", record: many("0000:7f:00.0"), want: "a=7f:00.0 b=0a:00.0 m=02:00.0 x=01:00.0"},
		{why: "a bus beyond it", record: many("0000:80:00.0"), want: "b=0a:00.0 m=02:00.0 x=01:00.0"},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			text, vmi, frozen := strings.Replace(placeable, test.from, test.to, 1), &v1.VirtualMachineInstance{}, booted()
			if err := yaml.UnmarshalStrict([]byte(text), vmi); err != nil || test.from != "" && text == placeable {
				t.Fatal(err, text)
			}
			if test.record != nil {
				test.record(frozen)
			}
			KeepAddresses(vmi, frozen)
			if got := placed(vmi); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// ports is a record of so many root ports.
func ports(n uint) func(*record.Record) {
	return func(r *record.Record) {
		for i := range n {
			r.Devices[record.ControllerKey("pci", i+1)] = record.Address{PCI: fmt.Sprintf("0000:00:%02x.%d", 2+i/8, i%8)}
		}
	}
}

// many is a record of more ports than are used, with disk 'a' behind one of them.
func many(at string) func(*record.Record) {
	return func(r *record.Record) {
		ports(200)(r)
		r.Devices["disk.a"] = record.Address{PCI: at}
	}
}

// TestForgetAddresses: which interfaces of a VMI have their addresses until its guest runs, and what KubeVirt's updates of it remove.
func TestForgetAddresses(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}}}
	vm.Spec.Template.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "x"}, {Name: "own", PciAddress: "0000:09:00.0"}, {Name: "none"}}
	vmi := &v1.VirtualMachineInstance{}
	vmi.Annotations = map[string]string{"kilnvm.io/interface-addresses": "own"} // of the template
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "x", PciAddress: "0000:01:00.0"}, {Name: "own", PciAddress: "0000:09:00.0"}, {Name: "none"},
		{Name: "other", PciAddress: "0000:02:00.0"}}
	for range 2 { // admission is asked again
		nameRecorded(vmi, vm)
		if is := vmi.Annotations["kilnvm.io/interface-addresses"]; is != "x,other" {
			t.Errorf("the annotation is '%s'", is)
		}
	}
	limits := config.Limits{KubeVirt: []string{"virt-handler"}}
	for _, test := range []struct {
		user  string
		phase v1.VirtualMachineInstancePhase
		want  string
	}{
		{"virt-handler", v1.Scheduled, "other=02:00.0 own=09:00.0 x=01:00.0"},
		{"eve", v1.Running, "other=02:00.0 own=09:00.0 x=01:00.0"},
		{"virt-handler", v1.Running, "own=09:00.0"},
	} {
		vmi := vmi.DeepCopy()
		vmi.Status.Phase = test.phase
		before := vmi.DeepCopy()
		now := Completer{}.ForgetAddresses(vmi, test.user, limits)
		if got := placed(now); got != test.want {
			t.Errorf("an update by %s in phase %s leaves %s, want %s", test.user, test.phase, got, test.want)
		}
		if _, named := now.Annotations["kilnvm.io/interface-addresses"]; named != (placed(now) == placed(before)) {
			t.Errorf("an update by %s in phase %s leaves the annotations %v", test.user, test.phase, now.Annotations)
		}
		if !equality.Semantic.DeepEqual(before, vmi) {
			t.Error("the VMI that was sent is changed")
		}
	}
	vmi.Spec.Domain.Devices.Interfaces = vmi.Spec.Domain.Devices.Interfaces[1:3]
	if nameRecorded(vmi, vm); len(vmi.Annotations) > 0 {
		t.Errorf("nothing is to be removed later, and the annotations are %v", vmi.Annotations)
	}
}
