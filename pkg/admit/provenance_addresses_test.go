package admit

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// TestRecordedAddressesAreExplained: the origin of an address that admission gave the VMI of a VM is the recorded hardware. An address in the VM comes from the
// user, even if the record has the same, and any other address comes from elsewhere.
func TestRecordedAddressesAreExplained(t *testing.T) {
	t.Parallel()
	const (
		disk, second, third = "spec.domain.devices.disks[0].disk.pciAddress", "spec.domain.devices.disks[1].disk.pciAddress",
			"spec.domain.devices.disks[2].disk.pciAddress"
		nic, recorded = "spec.domain.devices.interfaces[0].pciAddress", "record (GuestHardware web)"
	)
	for _, test := range []struct {
		why            string
		kiln, captured bool
		want           map[string]string
	}{
		{"KubeVirt runs it", false, true, map[string]string{disk: recorded, second: "user", third: "elsewhere", nic: recorded}},
		{"Kiln runs it", true, true, map[string]string{disk: "elsewhere", second: "user", third: "elsewhere", nic: "elsewhere"}},
		{"no record", false, false, map[string]string{disk: "elsewhere", second: "user", third: "elsewhere", nic: "elsewhere"}},
	} {
		vm := decode[v1.VirtualMachine](t, `{metadata: {name: web}, spec: {template: {spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio}},
 {name: b, disk: {bus: virtio, pciAddress: "0000:08:00.0"}}, {name: c, disk: {bus: virtio}}, {name: d, cdrom: {}}], interfaces: [{name: x, bridge: {}}]}},
 networks: [{name: x, pod: {}}], volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}},
 {name: c, emptyDisk: {capacity: 1Gi}}, {name: d, containerDisk: {image: i}}]}}}}`)
		in := Input{Cluster: config.Default()}
		in.Cluster.Limits.KubeVirtGuests = !test.kiln
		vmi, verdict := VM(&vm, nil, in)
		if vmi == nil {
			t.Fatal(verdict.Errors)
		}
		devices := &vmi.Spec.Domain.Devices
		devices.Disks[0].Disk.PciAddress, devices.Disks[2].Disk.PciAddress, devices.Interfaces[0].PciAddress = "0000:07:00.0", "0000:0a:00.0", "0000:01:00.0"
		frozen := &record.Record{Devices: map[string]record.Address{"disk.a": {PCI: "0000:07:00.0"}, "disk.b": {PCI: "0000:08:00.0"},
			"disk.c": {PCI: "0000:09:00.0"}, "interface.x": {PCI: "0000:01:00.0"}, "disk.gone": {}}}
		if !test.captured {
			frozen = nil
		}
		got := facts(ExplainGuest(vmi, &vm, frozen, in))
		for path, want := range test.want {
			if !strings.HasSuffix(got[path], " "+want) {
				t.Errorf("%s: %s is %s, want '%s'", test.why, path, got[path], want)
			}
		}
	}
}
