package render

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// models writes the models of virtio devices as virt-install does.
func models(text string) string { return strings.ReplaceAll(text, "virtio-non-transitional", "virtio") }

// unset takes parts away that libvirt adds by itself.
func unset(parts ...string) func(string) string {
	return func(text string) string {
		for _, part := range parts {
			text = strings.ReplaceAll(text, part, "")
		}
		return text
	}
}

// watched adds what libvirt 11.3 adds to each domain of q35.
func watched(text string) string {
	return strings.Replace(text, "</devices>", `<watchdog model="itco" action="reset"></watchdog></devices>`, 1)
}

// TestCaptureKnowsEquivalents: what the guest cannot tell apart is captured.
func TestCaptureKnowsEquivalents(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(string) string{
		"models of virtio behind root ports": func(text string) string { return models(nameless(text)) },
		"no model of disks":                  func(text string) string { return unset(`model="virtio-non-transitional" `)(nameless(text)) },
		"the watchdog of the chipset":        watched,
		"timers and clock":                   unset(` present="yes"`, ` adjustment="reset"`),
	} {
		running := runs(t, change)
		if _, errs := Capture(takenMachine(t), running); len(errs) > 0 {
			t.Errorf("%s: %v", why, errs)
		}
	}
}

// TestCaptureTellsOthersApart: models that the guest can tell apart are refused, and the first cause about a domain of another program says so.
func TestCaptureTellsOthersApart(t *testing.T) {
	t.Parallel()
	transitional := func(text string) string {
		return strings.ReplaceAll(text, "virtio-non-transitional", "virtio-transitional")
	}
	_, errs := Capture(takenMachine(t), runs(t, transitional))
	if len(errs) < 3 || strings.Contains(errs[0].Detail, "another program") {
		t.Errorf("a domain of Kiln with transitional devices: %v", errs)
	}
	_, errs = Capture(takenMachine(t), runs(t, func(text string) string { return nameless(transitional(text)) }))
	if len(errs) < 4 || errs[0].Field != "spec.domain" || errs[0].Type != field.ErrorTypeForbidden ||
		!strings.Contains(errs[0].Detail, "another program than Kiln or KubeVirt") {
		t.Errorf("a domain of another program: %v", errs)
	}
}

// TestAdoptEquivalents: on the root bus virtio is transitional, and a domain without a topology has a socket for each vCPU.
func TestAdoptEquivalents(t *testing.T) {
	t.Parallel()
	const domain = `<domain><vcpu>3</vcpu><os>BOOT</os><cpu mode="host-model"></cpu>
		<clock offset="utc"><timer name="kvmclock"/><timer name="hpet"/></clock><devices>
		<controller type="pci" index="1" model="PORT"/>
		<disk type="file" device="cdrom"><target dev="sda" bus="sata"/><alias name="ua-cd"/></disk>
		<disk type="file" device="disk"><target dev="vdb" bus="virtio"/><alias name="ua-b"/></disk>
		<disk type="file" device="disk" MODEL><target dev="vda" bus="virtio"/><alias name="ua-a"/><address type="pci" bus="0x01" slot="0"/></disk>
		<interface type="user"><model type="virtio"/><alias name="ua-n"/><address type="pci" bus="0x00" slot="5"/></interface></devices></domain>`
	read := func(boot, port, model string) *libvirtxml.Domain {
		var dom libvirtxml.Domain
		if err := dom.Unmarshal(strings.NewReplacer("BOOT", boot, "PORT", port, "MODEL", model).Replace(domain)); err != nil {
			t.Fatal(err)
		}
		return &dom
	}
	spec := read("", "pcie-root-port", `model="virtio-non-transitional"`)
	spec.Devices.Interfaces[0].Model.Type = "virtio-non-transitional"
	spec.Clock.Timer[0].Present, spec.Clock.Timer[1].Present = "yes", "yes"

	running := read(`<boot dev="cdrom"/><boot dev="network"/><boot dev="hd"/>`, "pcie-root-port", "")
	adoptEquivalents(running, spec)
	d := running.Devices
	if got := running.CPU.Topology; got == nil || got.Sockets != 3 || got.Cores != 1 || got.Threads != 1 {
		t.Errorf("the topology is %v", got)
	}
	if d.Disks[2].Model != "virtio-non-transitional" || d.Interfaces[0].Model.Type != "virtio" {
		t.Errorf("the models are '%s' and '%s'", d.Disks[2].Model, d.Interfaces[0].Model.Type)
	}
	if running.Clock.Timer[0].Present != "" || running.Clock.Timer[1].Present != "yes" {
		t.Errorf("the timers are %v", running.Clock.Timer)
	}
	if d.Disks[0].Boot == nil || d.Disks[0].Boot.Order != 1 || d.Interfaces[0].Boot == nil || d.Interfaces[0].Boot.Order != 2 ||
		d.Disks[2].Boot == nil || d.Disks[2].Boot.Order != 3 || d.Disks[1].Boot != nil || running.OS.BootDevices != nil {
		t.Errorf("the order of boot is %v %v %v %v", d.Disks[0].Boot, d.Interfaces[0].Boot, d.Disks[2].Boot, running.OS.BootDevices)
	}

	conventional := read("", "pcie-to-pci-bridge", "")
	adoptEquivalents(conventional, spec)
	if got := conventional.Devices.Disks[2].Model; got != "" {
		t.Errorf("behind a bridge the model is '%s'", got)
	}
}

// TestChannelDevicesHaveOneModel: libvirt writes the model of a channel device of s390x as virtio, or not at all.
func TestChannelDevicesHaveOneModel(t *testing.T) {
	t.Parallel()
	read := func(model string) *libvirtxml.Domain {
		var dom libvirtxml.Domain
		const disk = `<domain><devices><disk MODEL><target dev="vda" bus="virtio"/><alias name="ua-a"/><address type="ccw" cssid="0xfe" ssid="0x0" devno="0x0001"/>
			</disk></devices></domain>`
		if err := dom.Unmarshal(strings.ReplaceAll(disk, "MODEL", model)); err != nil {
			t.Fatal(err)
		}
		return &dom
	}
	running := read("")
	adoptEquivalents(running, read(`model="virtio"`))
	if got := running.Devices.Disks[0].Model; got != "virtio" {
		t.Errorf("the model is '%s'", got)
	}
}

// TestCaptureWithoutBalloon: the device of a VM without a memory balloon has no alias, and is found without one.
func TestCaptureWithoutBalloon(t *testing.T) {
	t.Parallel()
	m := takenMachine(t)
	m.VMI.Spec.Domain.Devices.AutoattachMemBalloon = new(bool)
	if _, errs := Capture(m, runs(t, nameless)); len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), "memballoon") {
		t.Errorf("the running domain has a balloon, and the VM has none: %v", errs)
	}
}

// TestAliasesFollowTheBus: disks of another model are matched by their bus before their order counts.
func TestAliasesFollowTheBus(t *testing.T) {
	t.Parallel()
	read := func(disks string) *libvirtxml.Domain {
		var dom libvirtxml.Domain
		if err := dom.Unmarshal("<domain><devices>" + disks + "</devices></domain>"); err != nil {
			t.Fatal(err)
		}
		return &dom
	}
	running := read(`<disk><target dev="sda" bus="sata"/><alias name="sata0"/></disk>
		<disk model="virtio"><target dev="vda" bus="virtio"/><alias name="virtio-disk0"/></disk>`)
	copyAliases(running, read(`<disk model="virtio-non-transitional"><target dev="vda" bus="virtio"/><alias name="ua-root"/></disk>
		<disk><target dev="sdb" bus="sata"/><alias name="ua-data"/></disk>`))
	if got := []string{running.Devices.Disks[0].Alias.Name, running.Devices.Disks[1].Alias.Name}; got[0] != "ua-data" || got[1] != "ua-root" {
		t.Errorf("the aliases are %v", got)
	}
}
