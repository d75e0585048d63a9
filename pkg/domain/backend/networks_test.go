package backend_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
	"libvirt.org/go/libvirtxml"
)

// TestNICs: each kind of binding has its source, and nothing of the guest's side changes with it.
func TestNICs(t *testing.T) {
	t.Parallel()
	elements := map[string]string{
		"user":      `<interface type="user"></interface>`,
		"passt":     `<interface type="user"><source dev="eth0"></source><backend type="passt"></backend></interface>`,
		"bridge":    `<interface type="bridge"><source bridge="eth0"></source></interface>`,
		"tap":       `<interface type="ethernet"><target dev="eth0" managed="no"></target></interface>`,
		"ethernet":  `<interface type="ethernet"><target dev="eth0" managed="no"></target></interface>`,
		"direct":    `<interface type="direct"><source dev="eth0" mode="bridge"></source></interface>`,
		"vhostuser": `<interface type="vhostuser"><source type="unix" mode="client" path="/run/v.sock"></source></interface>`,
	}
	if len(elements) != len(backends.NICs) {
		t.Errorf("there are elements for %d kinds of %d", len(elements), len(backends.NICs))
	}
	digest := ""
	for kind, binding := range backends.NICs {
		out, errs := render.Domain(backends.WithNIC(t, "", binding))
		if len(errs) > 0 {
			t.Errorf("%s: %v", kind, errs.ToAggregate())
			continue
		}
		nic := out.Documents.Domain.Devices.Interfaces[0]
		only := libvirtxml.DomainInterface{Source: nic.Source, Target: nic.Target, Backend: nic.Backend}
		same(t, kind, "<devices>"+elements[kind]+"</devices>", partXML(t,
			libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{Interfaces: []libvirtxml.DomainInterface{only}}}))
		if digest != "" && digest != out.Record.Digest {
			t.Errorf("%s: the guest sees another interface", kind)
		}
		digest = out.Record.Digest
	}
	refusal(t, backends.WithNIC(t, "", backend.NIC{Kind: "pigeon"}), "FieldValueNotSupported spec.domain.devices.interfaces[0]", "")
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
		m := backends.Machine(t, "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {interfaces: [{name: default, masquerade: {}, "+
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

// TestMTU: a virtio device reports the MTU of a link that reaches the network unchanged. The record does not have the MTU, because the next boot may be on
// another link.
func TestMTU(t *testing.T) {
	t.Parallel()
	digests := map[string]string{}
	for _, c := range backends.MTUs {
		out, errs := render.Domain(c.Guest(t))
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.Why, errs.ToAggregate())
			continue
		}
		got := uint(0)
		if mtu := out.Documents.Domain.Devices.Interfaces[0].MTU; mtu != nil {
			got = mtu.Size
		}
		if got != c.Want {
			t.Errorf("%s: MTU %d, want %d", c.Why, got, c.Want)
		}
		if digest := digests[c.Model]; digest != "" && digest != out.Record.Digest {
			t.Errorf("%s: the record has the MTU", c.Why)
		}
		digests[c.Model] = out.Record.Digest
	}
}
