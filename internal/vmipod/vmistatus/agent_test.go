package vmistatus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

const (
	podMAC = "52:54:00:ab:cd:01"
	tapMAC = "52:54:00:ab:cd:02"
)

// TestAgentsCards: what the report of the agent changes of an interface on the pod network, and of one on a network of Multus.
func TestAgentsCards(t *testing.T) {
	nic := func(name, mac string, ips ...string) v1alpha1.GuestInterface {
		return v1alpha1.GuestInterface{Name: name, MAC: mac, IPs: ips}
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("192.0.2.%d", i))
	}
	for _, c := range []struct {
		why      string
		reported []v1alpha1.GuestInterface
		// pods and taps are "interfaceName infoSource ips".
		pods, taps string
	}{
		{"nothing", nil, " domain 10.1.0.7,fd00::7", " domain "},
		{"both cards", []v1alpha1.GuestInterface{nic("eth0", podMAC, "10.1.0.7"), nic("eth1", tapMAC, "192.0.2.5", "2001:db8::5")},
			"eth0 domain, guest-agent 10.1.0.7,fd00::7", "eth1 domain, guest-agent 192.0.2.5,2001:db8::5"},
		{"other addresses of the pod network", []v1alpha1.GuestInterface{nic("eth0", podMAC, "10.1.0.99", "10.96.0.1")},
			"eth0 domain, guest-agent 10.1.0.7,fd00::7", " domain "},
		{"no address of the pod network", []v1alpha1.GuestInterface{nic("eth0", podMAC)}, "eth0 domain, guest-agent 10.1.0.7,fd00::7", " domain "},
		{"cards that the VMI has not", []v1alpha1.GuestInterface{nic("docker0", "02:42:00:00:00:01", "172.17.0.1"), nic("lo", "00:00:00:00:00:00", "127.0.0.1"),
			nic("x", ""), nic("y", "no")}, " domain 10.1.0.7,fd00::7", " domain "},
		{"another form of the MAC address", []v1alpha1.GuestInterface{nic("eth1", strings.ToUpper(tapMAC), "192.0.2.5")}, " domain 10.1.0.7,fd00::7",
			"eth1 domain, guest-agent 192.0.2.5"},
		{"no addresses", []v1alpha1.GuestInterface{nic("eth1", tapMAC, "no", "127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "192.0.2.5/24")},
			" domain 10.1.0.7,fd00::7", "eth1 domain, guest-agent "},
		{"link-local addresses first, with zones and twice", []v1alpha1.GuestInterface{nic("eth1", tapMAC, "fe80::1%eth1", "192.0.2.5", "::ffff:192.0.2.5")},
			" domain 10.1.0.7,fd00::7", "eth1 domain, guest-agent 192.0.2.5,fe80::1"},
		{"a card and its bridge", []v1alpha1.GuestInterface{nic("eth1", tapMAC, "no"), nic("br0", tapMAC, "192.0.2.5"), nic("vlan", tapMAC, "192.0.2.6")},
			" domain 10.1.0.7,fd00::7", "br0 domain, guest-agent 192.0.2.5"},
		{"a name with control characters", []v1alpha1.GuestInterface{nic("e\x1b[31m\n\u202et", tapMAC)}, " domain 10.1.0.7,fd00::7", "e[31mt domain, guest-agent "},
	} {
		vmi := &v1.VirtualMachineInstance{}
		vmi.Status.Interfaces = []v1.VirtualMachineInstanceNetworkInterface{
			{Name: "default", MAC: podMAC, PodInterfaceName: podInterface, IP: "10.1.0.7", IPs: []string{"10.1.0.7", "fd00::7"}, InfoSource: infoDomain},
			{Name: "lan", MAC: tapMAC, PodInterfaceName: pod.PodInterface("lan"), InfoSource: infoDomain}}
		before := vmi.DeepCopy()
		agent := &v1alpha1.GuestAgent{Interfaces: c.reported}
		setAgent(vmi, agent)
		for i, want := range []string{c.pods, c.taps} {
			card := vmi.Status.Interfaces[i]
			if got := card.InterfaceName + " " + card.InfoSource + " " + strings.Join(card.IPs, ","); got != want {
				t.Errorf("%s: card %d is '%s', want '%s'", c.why, i, got, want)
			}
			if first := append(card.IPs, "")[0]; card.IP != first || card.Name != before.Status.Interfaces[i].Name || card.MAC != before.Status.Interfaces[i].MAC {
				t.Errorf("%s: card %d is %+v", c.why, i, card)
			}
		}
		again := vmi.DeepCopy()
		if setAgent(again, agent); !equality.Semantic.DeepEqual(vmi.Status, again.Status) {
			t.Errorf("%s: the same status is written again: %s", c.why, cmp.Diff(vmi.Status, again.Status))
		}
		if setAgent(again, nil); !equality.Semantic.DeepEqual(before.Status, again.Status) {
			t.Errorf("%s: an agent that is gone leaves %s", c.why, cmp.Diff(before.Status, again.Status))
		}
	}
	card := v1.VirtualMachineInstanceNetworkInterface{MAC: tapMAC, PodInterfaceName: "pod1"}
	setInterface(&card, &v1alpha1.GuestAgent{Interfaces: []v1alpha1.GuestInterface{nic("eth1", tapMAC, many...)}})
	if len(card.IPs) != v1alpha1.MostAgentIPs {
		t.Errorf("a card has %d addresses", len(card.IPs))
	}
	slirp := v1.VirtualMachineInstanceNetworkInterface{MAC: podMAC}
	setInterface(&slirp, &v1alpha1.GuestAgent{Interfaces: []v1alpha1.GuestInterface{nic("eth0", podMAC, "10.0.2.15")}})
	if slirp.IP != "" || slirp.IPs != nil || slirp.InterfaceName != "eth0" {
		t.Errorf("behind slirp: %+v", slirp)
	}
}

// TestAgentBeforeTheHardware: the report of an agent is ignored before the hardware is recorded, because no domain can run yet.
func TestAgentBeforeTheHardware(t *testing.T) {
	s := scheduled(v1.Running)
	s.GuestPod.Spec.Hardware, s.GuestPod.Status.Agent = nil, &v1alpha1.GuestAgent{}
	if write(s); condition.Of(s.VMI, v1.VirtualMachineInstanceAgentConnected) != nil {
		t.Error("the agent of a domain that cannot run yet counts")
	}
}
