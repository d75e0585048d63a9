package domains

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// TestCaptureOfARunningGuest: what a real libvirt says of a guest that runs is turned back into just the record that it was
// started with.
func TestCaptureOfARunningGuest(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	vmi := plain("captured")
	vmi.Spec.Domain.Devices.Rng = &v1.Rng{}
	vmi.Spec.Domain.Devices.Watchdog = &v1.Watchdog{Name: "dog", WatchdogDevice: v1.WatchdogDevice{I6300ESB: &v1.I6300ESBWatchdog{}}}
	vmi.Spec.Domain.Devices.Inputs = []v1.Input{{Name: "pen", Type: v1.InputTypeTablet, Bus: v1.InputBusUSB}}
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: bytesOf(256 << 20)}
	vmi.Spec.Domain.CPU = &v1.CPU{Model: "qemu64"} // without KVM there is no CPU of the host
	vmi.Spec.Architecture = "amd64"
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: cluster(t)})
	if err := failed(verdict); err != nil {
		t.Fatal(err)
	}
	explicit.UID = "seed"
	host := backend.Assumed("amd64")
	host.VirtTypes = []string{"qemu"}
	machine := render.Machine{VMI: explicit, Defaults: cluster(t).Frontend, Host: host, Bindings: backend.AssumedBindings(explicit)}
	rendered, errs := render.Domain(machine)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	running := start(t, d, rendered.Documents.Domain)

	machine.VMI = explicit.DeepCopy()
	machine.VMI.UID = "another" // who takes the guest over has another seed
	record, errs := render.Capture(machine, running)
	if len(errs) > 0 {
		t.Fatalf("its own spec does not match what runs: %v", errs)
	}
	want := rendered.Record
	want.Machine = running.OS.Type.Machine // libvirt has resolved the alias
	want.Digest = record.Digest
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-started with +captured):\n%s", diff)
	}
	machine.VMI.Spec.Domain.Devices.Rng = nil
	if _, errs := render.Capture(machine, running); len(errs) == 0 {
		t.Error("a device that runs and is not in the spec is not noticed")
	}
}

// start runs a domain on an empty image and reads back what libvirt has made of it.
func start(t *testing.T, d *libvirt.Daemon, dom *libvirtxml.Domain) *libvirtxml.Domain {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	for i := range dom.Devices.Disks {
		disk := &dom.Devices.Disks[i]
		disk.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: image}}
		disk.BackingStore, disk.Driver = nil, &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"}
	}
	dom.Devices.Graphics = nil // its socket has a folder that is not there
	for i := range dom.Devices.Channels {
		dom.Devices.Channels[i].Source = &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}}
	}
	for i := range dom.Devices.Serials {
		dom.Devices.Serials[i].Source = &libvirtxml.DomainChardevSource{Null: &libvirtxml.DomainChardevSourceNull{}}
	}
	xml, err := dom.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(xml); err != nil {
		t.Fatalf("%v\n%s", err, xml)
	}
	t.Cleanup(func() { _ = d.Destroy(dom.Name) })
	if err := d.Create(dom.Name); err != nil {
		t.Fatalf("%v\n%s", err, xml)
	}
	active, err := d.ActiveXML(dom.Name)
	if err != nil {
		t.Fatal(err)
	}
	var running libvirtxml.Domain
	if err := running.Unmarshal(active); err != nil {
		t.Fatal(err)
	}
	return &running
}
