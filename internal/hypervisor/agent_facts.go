package hypervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/internal/guestagent"
	"libvirt.org/go/libvirtxml"
)

// agentPort is the name of the virtio port that connects libvirt with the agent.
const agentPort = "org.qemu.guest_agent.0"

// Agent returns the MAC addresses of the guest's interfaces, in the form of guestagent.MAC, and whether the domain has a channel for the agent.
func (g Guest) Agent() (macs []string, has bool) {
	domain := g.Documents.Domain
	if domain == nil || domain.Devices == nil {
		return nil, false
	}
	for i := range domain.Devices.Interfaces {
		if nic := &domain.Devices.Interfaces[i]; nic.MAC != nil {
			macs = append(macs, guestagent.MAC(nic.MAC.Address))
		}
	}
	return macs, channelOf(domain) != nil
}

// channelOf returns the channel of the agent, nil if a domain has none.
func channelOf(domain *libvirtxml.Domain) *libvirtxml.DomainChannelTargetVirtIO {
	if domain.Devices == nil {
		return nil
	}
	for i := range domain.Devices.Channels {
		if target := domain.Devices.Channels[i].Target; target != nil && target.VirtIO != nil && target.VirtIO.Name == agentPort {
			return target.VirtIO
		}
	}
	return nil
}

// AgentFacts are the reports of an agent about its guest. Do not trust them: texts may contain any bytes, and lists have any length. A fact that the agent
// does not report is empty.
type AgentFacts struct {
	OS         AgentOS
	Hostname   string
	Interfaces []AgentInterface
}

// AgentOS is the answer to guest-get-osinfo.
type AgentOS struct {
	Name          string `json:"name"`
	KernelRelease string `json:"kernel-release"`
	Version       string `json:"version"`
	PrettyName    string `json:"pretty-name"`
	VersionID     string `json:"version-id"`
	KernelVersion string `json:"kernel-version"`
	Machine       string `json:"machine"`
	ID            string `json:"id"`
}

// AgentInterface is an element of the answer to guest-network-get-interfaces.
type AgentInterface struct {
	Name string `json:"name"`
	MAC  string `json:"hardware-address"`
	IPs  []struct {
		Address string `json:"ip-address"`
	} `json:"ip-addresses"`
}

// AgentFacts asks the agent of the guest of the owner for its facts. A fact is empty if the agent refuses the question, because the guest's administrator may
// forbid commands. An error means that the agent does not answer. AgentFacts sends commands to the agent and does not call virDomainGetGuestInfo: an argument
// of a command bounds libvirt's wait for the answer, but only virDomainAgentSetResponseTimeout bounds virDomainGetGuestInfo. Until the agent answers, probes of
// the pod and a shutdown wait, because libvirt runs one agent job of a domain at a time.
func (l *Libvirt) AgentFacts(ctx context.Context, owner Owner) (facts AgentFacts, err error) {
	if err := l.agentConnected(ctx, owner); err != nil {
		return facts, err
	}
	if err := l.Ping(ctx, owner.Domain()); err != nil {
		return facts, err
	}
	var host struct {
		Name string `json:"host-name"`
	}
	for _, question := range []struct {
		command string
		answer  any
	}{{"guest-get-osinfo", &facts.OS}, {"guest-get-host-name", &host}, {"guest-network-get-interfaces", &facts.Interfaces}} {
		answer, err := l.sendAgentCommand(ctx, owner.Domain(), agentCommand{Execute: question.command})
		if isUnanswered(ctx, err) {
			return AgentFacts{}, err
		}
		if err == nil {
			readAgentReply(answer, question.answer)
		}
	}
	facts.Hostname = host.Name
	return facts, nil
}

// errNoAgent is the error for a guest in which no agent has opened the channel.
var errNoAgent = errors.New("the guest agent is not connected")

// agentConnected returns an error if no agent has opened the channel, which libvirt knows from QEMU. libvirtd logs an error for each question to a missing
// agent: guests without an agent would fill the logs of their pods.
func (l *Libvirt) agentConnected(ctx context.Context, owner Owner) error {
	connected := false
	err := l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := findDomain(rpc, owner)
		if err != nil || !found {
			return err
		}
		text, err := rpc.DomainGetXMLDesc(domain, 0)
		if err != nil {
			return err
		}
		connected, err = agentState(text)
		return err
	})
	if err == nil && !connected {
		return errNoAgent
	}
	return err
}

// agentState reports whether the channel of the agent is connected in the XML of a domain.
func agentState(text string) (connected bool, err error) {
	var document libvirtxml.Domain
	if err := document.Unmarshal(text); err != nil {
		return false, fmt.Errorf("the XML of the domain cannot be read: %w", err)
	}
	channel := channelOf(&document)
	return channel != nil && channel.State == "connected", nil
}

// longestAnswer is the largest size of a reply that is decoded, in bytes. The reply of a guest with a hundred interfaces has some 30 KiB.
const longestAnswer = 256 << 10

// readAgentReply reads a reply into answer. A reply that cannot be read, or is too long, does not change answer.
func readAgentReply(reply libvirt.OptString, answer any) {
	if len(reply) > 0 && len(reply[0]) <= longestAnswer {
		_ = decodeAgentReply(reply, answer)
	}
}

// isUnanswered reports whether an error means that the agent did not answer a question. Any other error of libvirt means that the agent has refused the
// question.
func isUnanswered(ctx context.Context, err error) bool {
	var answer libvirt.Error
	switch {
	case err == nil:
		return false
	case ctx.Err() != nil || !errors.As(err, &answer):
		return true
	}
	return answer.Code == uint32(libvirt.ErrAgentUnresponsive) || answer.Code == uint32(libvirt.ErrNoDomain)
}
