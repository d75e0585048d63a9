package vmistatus

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guestagent"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Values of infoSource of an interface, as in KubeVirt (pkg/network/vmispec): the sources of its fields.
const (
	infoDomain         = "domain"
	infoDomainAndAgent = "domain, guest-agent"
)

// agentReport returns the report of the guest agent, nil if the agent does not answer. A report counts only while the domain runs and its node answers.
func (r Report) agentReport(lost *condition.Cause) *v1alpha1.GuestAgent {
	if lost != nil || r.RunningDomain() == nil {
		return nil
	}
	return r.GuestPod.Status.Agent
}

// setAgent writes the report of the guest agent. If agent is nil, it removes an earlier report. The guest may report anything. Each field depends only on the
// report, not on its own earlier value: otherwise the status would be written without end.
func setAgent(vmi *v1.VirtualMachineInstance, agent *v1alpha1.GuestAgent) {
	vmi.Status.GuestOSInfo = v1.VirtualMachineInstanceGuestOSInfo{}
	if agent == nil {
		condition.Clear(vmi, v1.VirtualMachineInstanceAgentConnected)
	} else {
		condition.Set(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceAgentConnected, Status: corev1.ConditionTrue})
		vmi.Status.GuestOSInfo = guestOSInfo(agent.OS)
	}
	for i := range vmi.Status.Interfaces {
		setInterface(&vmi.Status.Interfaces[i], agent)
	}
}

func guestOSInfo(os *v1alpha1.GuestOS) (info v1.VirtualMachineInstanceGuestOSInfo) {
	if os == nil {
		return info
	}
	text := func(reported string) string { return guestagent.Text(reported, v1alpha1.LongestAgentText) }
	return v1.VirtualMachineInstanceGuestOSInfo{Name: text(os.Name), KernelRelease: text(os.KernelRelease), Version: text(os.Version),
		PrettyName: text(os.PrettyName), VersionID: text(os.VersionID), KernelVersion: text(os.KernelVersion), Machine: text(os.Machine), ID: text(os.ID)}
}

// setInterface writes what the agent reports about an interface. An interface on the pod network keeps the addresses of the pod (none with slirp), because
// others send traffic to the addresses in status.interfaces. On a network of Multus only the guest knows the addresses.
func setInterface(nic *v1.VirtualMachineInstanceNetworkInterface, agent *v1alpha1.GuestAgent) {
	nic.InterfaceName, nic.InfoSource = "", infoDomain
	reportedByAgent := nic.PodInterfaceName != "" && nic.PodInterfaceName != podInterface
	if reportedByAgent {
		nic.IP, nic.IPs = "", nil
	}
	found := guestInterface(nic.MAC, agent)
	if found == nil {
		return
	}
	nic.InterfaceName, nic.InfoSource = guestagent.Text(found.Name, v1alpha1.LongestAgentName), infoDomainAndAgent
	if ips := guestagent.IPs(found.IPs, v1alpha1.MostAgentIPs); reportedByAgent && len(ips) > 0 {
		slices.SortStableFunc(ips, func(a, b string) int { return cmp.Compare(addressRank(a), addressRank(b)) })
		nic.IP, nic.IPs = ips[0], ips
	}
}

// addressRank sorts link-local addresses behind others: clients use the first address of an interface.
func addressRank(ip string) int {
	if guestagent.LinkLocal(ip) {
		return 1
	}
	return 0
}

// guestInterface returns the guest's interface with a MAC address, nil if the guest reports no such interface. If several have it, such as a card and the
// bridge above it, it returns the first one with an IP address.
func guestInterface(mac string, agent *v1alpha1.GuestAgent) (found *v1alpha1.GuestInterface) {
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
