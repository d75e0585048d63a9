package backend_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
)

// TestNICs: each kind of binding has its source, and nothing of the guest's side changes with it.
func TestNICs(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	version := versionOf(t, daemon)
	digest := ""
	for kind, want := range map[string]string{
		"user":      `<interface type="user"></interface>`,
		"passt":     `<interface type="user"><source dev="eth0"></source><backend type="passt"></backend></interface>`,
		"bridge":    `<interface type="bridge"><source bridge="eth0"></source></interface>`,
		"tap":       `<interface type="ethernet"><target dev="eth0" managed="no"></target></interface>`,
		"ethernet":  `<interface type="ethernet"><target dev="eth0" managed="no"></target></interface>`,
		"direct":    `<interface type="direct"><source dev="eth0" mode="bridge"></source></interface>`,
		"vhostuser": `<interface type="vhostuser"><source type="unix" mode="client" path="/run/v.sock"></source></interface>`,
	} {
		m := machine(t,
			"{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {interfaces: [{name: default, bridge: {}}]}}, "+
				"networks: [{name: default, pod: {}}]}")
		m.Host.VirtTypes = []string{"qemu"}
		m.Bindings.NICs["default"] = backend.NIC{Kind: kind, Device: "eth0", Socket: "/run/v.sock"}
		out, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Errorf("%s: %v", kind, errs.ToAggregate())
			continue
		}
		dom := out.Documents.Domain
		nic := dom.Devices.Interfaces[0]
		only := libvirtxml.DomainInterface{Source: nic.Source, Target: nic.Target, Backend: nic.Backend}
		same(t, kind, "<devices>"+want+"</devices>", partXML(t,
			libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{Interfaces: []libvirtxml.DomainInterface{only}}}))
		if digest != "" && digest != out.Record.Digest {
			t.Errorf("%s: the guest sees another interface", kind)
		}
		digest = out.Record.Digest
		m.Host.LibvirtVersion = version
		if _, errs := render.Domain(m); len(errs) > 0 && strings.Contains(errs[0].Detail, "needs libvirt") {
			t.Logf("%s: %v", kind, errs[0].Detail)
			continue
		}
		if text, err := taken(daemon, dom); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, text)
		}
	}
	m := machine(t,
		"{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {interfaces: [{name: default, bridge: {}}]}}, "+
			"networks: [{name: default, pod: {}}]}")
	bind(m, "pigeon")
	refusal(t, m, "FieldValueNotSupported spec.domain.devices.interfaces[0]", "")
}

// TestPasstPorts: passt forwards the ports of the spec, or all of them.
func TestPasstPorts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, ports, want string
		last             uint
	}{
		{"all", "", `<portForward proto="tcp"></portForward><portForward proto="udp"></portForward>`, 0},
		{"as many as there are files for", "", `<portForward proto="tcp"><range start="8977" end="65535" exclude="yes"></range></portForward>` +
			`<portForward proto="udp"><range start="8977" end="65535" exclude="yes"></range></portForward>`, 8976},
		{"one, whatever its number", "ports: [{port: 9090}]", `<portForward proto="tcp"><range start="9090"></range></portForward>`, 8976},
		{"one", "ports: [{port: 80}]", `<portForward proto="tcp"><range start="80"></range></portForward>`, 0},
		{"both protocols", "ports: [{port: 80}, {port: 53, protocol: UDP}, {port: 53, protocol: TCP}]",
			`<portForward proto="tcp"><range start="80"></range><range start="53"></range></portForward>` +
				`<portForward proto="udp"><range start="53"></range></portForward>`, 0},
		{"ranges", "portRanges: [{protocol: UDP, start: 1000, end: 2000}]",
			`<portForward proto="udp"><range start="1000" end="2000"></range></portForward>`, 0},
	} {
		m := machine(t, "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {interfaces: [{name: default, masquerade: {}, "+
			c.ports+"}]}}, networks: [{name: default, pod: {}}]}")
		m.Bindings.NICs["default"] = backend.NIC{Kind: "passt", LastPort: c.last}
		out, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.why, errs.ToAggregate())
			continue
		}
		only := libvirtxml.DomainInterface{PortForward: out.Documents.Domain.Devices.Interfaces[0].PortForward, Source: &libvirtxml.DomainInterfaceSource{
			User: &libvirtxml.DomainInterfaceSourceUser{}}}
		same(t, c.why, `<devices><interface type="user">`+c.want+`</interface></devices>`, partXML(t,
			libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{Interfaces: []libvirtxml.DomainInterface{only}}}))
	}
}

// TestMTU: virtio tells the guest the MTU of a link that reaches the network as it is. The record does not have it: the link of the next boot may be another.
func TestMTU(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	digests := map[string]string{}
	for _, c := range []struct {
		why, kind, model string
		mtu, want        uint
	}{
		{"jumbo frames of a tap", "tap", "virtio", 9000, 9000},
		{"an overlay network", "tap", "virtio", 1400, 1400},
		{"a bridge", "bridge", "virtio", 9000, 9000},
		{"an ethernet device", "ethernet", "virtio", 1450, 1450},
		{"vhost-user", "vhostuser", "virtio", 9000, 9000},
		{"a model that cannot tell it", "tap", "e1000", 9000, 0},
		{"libvirt has no MTU for a macvtap, which has the MTU of its link", "direct", "virtio", 9000, 0},
		{"QEMU's NAT", "user", "virtio", 9000, 0},
		{"passt, which tells it itself", "passt", "virtio", 9000, 0},
		{"a link that is not known", "tap", "virtio", 0, 0},
		{"the largest", "tap", "virtio", 65535, 65535},
		{"more than virtio can tell", "tap", "virtio", 65536, 0},
		{"the least", "tap", "virtio", 68, 68},
		{"less than IPv4 needs", "tap", "virtio", 67, 0},
	} {
		m := machine(t, "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {interfaces: [{name: default, bridge: {}, model: "+c.model+
			"}]}}, networks: [{name: default, pod: {}}]}")
		m.Host.VirtTypes = []string{"qemu"}
		m.Bindings.NICs["default"] = backend.NIC{Kind: c.kind, Device: "eth0", Socket: "/run/v.sock", MTU: c.mtu}
		out, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.why, errs.ToAggregate())
			continue
		}
		got := uint(0)
		if mtu := out.Documents.Domain.Devices.Interfaces[0].MTU; mtu != nil {
			got = mtu.Size
		}
		if got != c.want {
			t.Errorf("%s: MTU %d, want %d", c.why, got, c.want)
		}
		if digest := digests[c.model]; digest != "" && digest != out.Record.Digest {
			t.Errorf("%s: the record has the MTU", c.why)
		}
		digests[c.model] = out.Record.Digest
		if c.kind == "passt" {
			continue // TestNICs
		}
		if text, err := taken(daemon, out.Documents.Domain); err != nil {
			t.Errorf("%s: %v\n%s", c.why, err, text)
		}
	}
}
