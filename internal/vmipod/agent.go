package vmipod

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guestagent"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// infoSource of interfaces, as in KubeVirt (pkg/network/vmispec): who has said what the status has of them.
const (
	infoDomain         = "domain"
	infoDomainAndAgent = "domain, guest-agent"
)

// agent returns what the guest agent says, nil if it does not answer. It answers while there is a domain and the node is not lost, whatever the launcher says.
func (s seen) agent(domain *v1alpha1.GuestDomain, lost *condition.Cause) *v1alpha1.GuestAgent {
	if lost != nil || domain == nil || final(domain.State) {
		return nil
	}
	return s.guestPod().Status.Agent
}

// followAgent writes what the guest agent says, and takes back what one has said that does not answer any more. All of it is the word of the guest. Each
// field is written from the report alone, or the status would be written without end.
func followAgent(vmi *v1.VirtualMachineInstance, agent *v1alpha1.GuestAgent) {
	vmi.Status.GuestOSInfo = v1.VirtualMachineInstanceGuestOSInfo{}
	if agent == nil {
		condition.Clear(vmi, v1.VirtualMachineInstanceAgentConnected)
	} else {
		condition.Set(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceAgentConnected, Status: corev1.ConditionTrue})
		vmi.Status.GuestOSInfo = osInfo(agent.OS)
	}
	for i := range vmi.Status.Interfaces {
		followCard(&vmi.Status.Interfaces[i], agent)
	}
}

// osInfo returns status.guestOSInfo.
func osInfo(os *v1alpha1.GuestOS) (info v1.VirtualMachineInstanceGuestOSInfo) {
	if os == nil {
		return info
	}
	text := func(of string) string { return guestagent.Text(of, v1alpha1.LongestAgentText) }
	return v1.VirtualMachineInstanceGuestOSInfo{Name: text(os.Name), KernelRelease: text(os.KernelRelease), Version: text(os.Version),
		PrettyName: text(os.PrettyName), VersionID: text(os.VersionID), KernelVersion: text(os.KernelVersion), Machine: text(os.Machine), ID: text(os.ID)}
}

// followCard writes what the agent says of a network card. The card on the pod network has the addresses of the pod, and none with slirp. The guest
// names none there: others send traffic to what status.interfaces says. On a network of Multus only the guest knows its addresses.
func followCard(card *v1.VirtualMachineInstanceNetworkInterface, agent *v1alpha1.GuestAgent) {
	card.InterfaceName, card.InfoSource = "", infoDomain
	guests := card.PodInterfaceName != "" && card.PodInterfaceName != podInterface
	if guests {
		card.IP, card.IPs = "", nil
	}
	found := interfaceOf(card.MAC, agent)
	if found == nil {
		return
	}
	card.InterfaceName, card.InfoSource = guestagent.Text(found.Name, v1alpha1.LongestAgentName), infoDomainAndAgent
	if ips := guestagent.IPs(found.IPs, v1alpha1.MostAgentIPs); guests && len(ips) > 0 {
		slices.SortStableFunc(ips, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
		card.IP, card.IPs = ips[0], ips
	}
}

// rank sorts link-local addresses behind others: the first address of a card is the one that others use.
func rank(ip string) int {
	if guestagent.LinkLocal(ip) {
		return 1
	}
	return 0
}

// interfaceOf returns the guest's interface with the MAC address of a card, nil if there is none. Of several, such as a card and the bridge that it is a port
// of, it is the first that has an address.
func interfaceOf(mac string, agent *v1alpha1.GuestAgent) (found *v1alpha1.GuestInterface) {
	if agent == nil || mac == "" {
		return nil
	}
	for i := range agent.Interfaces {
		one := &agent.Interfaces[i]
		if guestagent.MAC(one.MAC) != guestagent.MAC(mac) {
			continue
		}
		if len(guestagent.IPs(one.IPs, 1)) > 0 {
			return one
		}
		if found == nil {
			found = one
		}
	}
	return found
}
