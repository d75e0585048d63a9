package frontends_test

import (
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/test/frontends"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
)

// started is what a QEMU can start without devices of a host: each bus and each kind of place.
const started = `
spec:
  domain:
    cpu: {sockets: 1, maxSockets: 2, cores: 2, model: qemu64}
    memory: {guest: 256Mi, maxGuest: 1Gi}
    devices:
      blockMultiQueue: true
      rng: {}
      tpm: {}
      downwardMetrics: {}
      clientPassthrough: {}
      sound: {name: speaker}
      watchdog: {name: dog, i6300esb: {}}
      panicDevices: [{model: isa}]
      inputs: [{name: pen, type: tablet, bus: usb}, {name: keys, type: keyboard, bus: virtio}]
      disks:
      - {name: root, disk: {bus: virtio}, bootOrder: 1}
      - {name: pinned, disk: {bus: virtio, pciAddress: "0000:0c:00.0"}}
      - {name: s0, disk: {bus: sata}}
      - {name: s1, disk: {bus: sata}}
      - {name: s2, disk: {bus: sata}}
      - {name: s3, disk: {bus: sata}}
      - {name: s4, cdrom: {bus: sata, readonly: true}}
      - {name: s5, disk: {bus: sata}}
      - {name: s6, disk: {bus: sata}}
      - {name: scsi, disk: {bus: scsi}, serial: D-2}
      - {name: usb, disk: {bus: usb}}
      interfaces:
      - {name: default}
      - {name: root, model: e1000}
      - {name: express, model: e1000e}
      - {name: old, model: rtl8139}
      - {name: older, model: pcnet, pciAddress: "0000:00:10.0"}
`

// TestQEMUStarts starts rendered guests: QEMU, unlike libvirt's define, checks that each device fits where it is put. libvirt
// must run the guest with the hardware of its definition.
func TestQEMUStarts(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	for name, in := range map[string]frontend.Input{
		"started":      frontends.With(t, "amd64", "started", started),
		"transitional": frontends.All(t)["transitional-amd64"],
		"nodes": frontends.WithNUMANodes(frontends.With(t, "amd64", "started-nodes",
			`spec: {domain: {cpu: {sockets: 2, maxSockets: 5, cores: 2, threads: 2, model: qemu64}, memory: {guest: 257Mi, maxGuest: 1Gi}}}`)),
		"arm64": frontends.With(t, "arm64", "started-arm64",
			`spec: {domain: {firmware: {bootloader: {efi: {secureBoot: false}}}, cpu: {model: cortex-a57}, devices: {rng: {}, `+
				`disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: scsi}}], interfaces: [{name: default}]}}}`),
		"s390x": frontends.With(t, "s390x", "started-s390x",
			`spec: {domain: {cpu: {model: qemu}, devices: {rng: {}, watchdog: {name: dog, diag288: {}}, disks: [{name: a, disk: {bus: virtio}}, `+
				`{name: b, disk: {bus: scsi}}], interfaces: [{name: default}]}}}`),
	} {
		t.Run(name, func(t *testing.T) {
			if in.VMI.Spec.Domain.CPU.Model == "host-model" {
				in.VMI.Spec.Domain.CPU.Model = "qemu64" // without KVM
			}
			dom := frontends.Rendered(t, in)
			frontends.AddSources(dom)
			frontends.AddFiles(t, dom)
			text := frontends.Printed(t, dom)
			if _, err := daemon.Define(text); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			startPaused(t, daemon, dom.Name)
			active, err := daemon.ActiveXML(dom.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := daemon.Destroy(dom.Name); err != nil {
				t.Error(err)
			}
			var running libvirtxml.Domain
			if err := running.Unmarshal(active); err != nil {
				t.Fatal(err)
			}
			running.CPU, dom.CPU = nil, nil // expanded at the start
			if changes := abi.Changes(dom, &running); len(changes) > 0 {
				t.Errorf("running guest differs: %q", changes)
			}
		})
	}
}

// startPaused keeps guests that find nothing to boot from ending before they are looked at.
func startPaused(t *testing.T, daemon *libvirt.Daemon, name string) {
	t.Helper()
	client, err := daemon.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect()
	domain, err := client.DomainLookupByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.DomainCreateWithFlags(domain, uint32(rpc.DomainStartPaused)); err != nil {
		t.Fatal(err)
	}
}
