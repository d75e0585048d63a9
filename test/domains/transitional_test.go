package domains

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

// transitional is a VMI of an old guest system: its devices are on conventional PCI buses, and its owner wrote the addresses of some.
func transitional(t *testing.T, pins ...string) render.Result {
	t.Helper()
	vmi, yes := plain("transitional"), true
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: bytesOf(128 << 20)}
	devices := &vmi.Spec.Domain.Devices
	devices.UseVirtioTransitional, devices.Rng, devices.Disks[0].Disk = &yes, &v1.Rng{}, &v1.DiskTarget{Bus: v1.DiskBusVirtio}
	for i, pin := range pins {
		name := fmt.Sprintf("d%d", i)
		devices.Disks = append(devices.Disks, v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio, PciAddress: pin}}})
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: *bytesOf(1 << 30)}}})
	}
	explicit := identified(t, vmi, cluster(t))
	host := backend.Assumed("amd64")
	host.VirtTypes = []string{"qemu"}
	rendered, errs := render.Domain(render.Machine{VMI: explicit, Defaults: cluster(t).Frontend, Host: host, Bindings: backend.AssumedBindings(explicit)})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return rendered
}

// TestManyTransitional: firmware starts a guest with as many transitional devices as one bridge holds, and then some. With a root
// port for each it would hang from the fifteenth on, for want of ports of the PC.
func TestManyTransitional(t *testing.T) {
	t.Parallel()
	const disks = 36
	dom := transitional(t, make([]string, disks)...).Documents.Domain
	report := boot(t, dom)
	found := 0
	for _, f := range report.PCI {
		if f.Vendor == "1af4" {
			found++
		}
	}
	// The disks and the one that every guest here has, generator, balloon, SCSI and serial ports.
	if want := disks + 5; found != want {
		t.Errorf("the guest finds %d virtio devices, want %d: %+v", found, want, report.PCI)
	}
}

// TestTransitionalAddresses: libvirt, which would put transitional devices on bridges of its own, leaves them where they are.
func TestTransitionalAddresses(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	for _, pins := range [][]string{
		nil,
		{"0000:05:01.0", "0000:05:02.0"}, // slots of one bus
		{"0000:81:01.0", "0000:05:00.0", "0000:00:10.0"}, // a far bus, a port, the root bus
	} {
		rendered := transitional(t, pins...)
		unchanged(t, d, rendered.Documents.Domain)
	}
}
