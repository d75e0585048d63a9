package hypervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/internal/guestagent"
	"libvirt.org/go/libvirtxml"
)

// agentPort is the virtio port by which libvirt and the agent find each other.
const agentPort = "org.qemu.guest_agent.0"

// Agent returns the MAC addresses of the guest's network cards, as guestagent.MAC has them, and whether the domain has the channel of the agent.
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

// AgentFacts are what the agent of a guest says of it, as the guest wrote it: any text, any number of them. What the agent does not say is empty.
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

// AgentFacts asks the agent of the owner's guest what it knows of the guest. An agent that answers, and refuses a question, leaves a fact out: its
// administrator may forbid commands. The error says that the agent does not answer.
//
// The questions are commands of the agent, and not virDomainGetGuestInfo: libvirt bounds the wait for the answer to a command by its argument, and to the
// other one only by virDomainAgentSetResponseTimeout. Meanwhile probes of the pod and a shutdown wait for libvirt's one agent job of the domain.
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
		said, err := l.send(ctx, owner.Domain(), agentCommand{Execute: question.command})
		if unanswered(ctx, err) {
			return AgentFacts{}, err
		}
		if err == nil {
			read(said, question.answer)
		}
	}
	facts.Hostname = host.Name
	return facts, nil
}

// errNoAgent is the error for a guest in which no agent has opened the channel.
var errNoAgent = errors.New("the guest agent is not connected")

// agentConnected returns an error if no agent has opened the channel, as libvirt knows from QEMU. libvirtd logs each question to an agent that is not there as
// an error: guests without one would fill the logs of their pods.
func (l *Libvirt) agentConnected(ctx context.Context, owner Owner) error {
	connected := false
	err := l.query(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := find(rpc, owner)
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

// longestAnswer bounds the bytes of an answer that are decoded. A guest with a hundred interfaces says some 30 KiB.
const longestAnswer = 256 << 10

// read reads an answer. One that cannot be read, or is too long, leaves the fact out.
func read(said libvirt.OptString, answer any) {
	if len(said) > 0 && len(said[0]) <= longestAnswer {
		_ = decodeAnswer(said, answer)
	}
}

// unanswered reports whether an error of a question means that no answer came. Any other error that libvirt returns means that the agent has refused it.
func unanswered(ctx context.Context, err error) bool {
	var answer libvirt.Error
	switch {
	case err == nil:
		return false
	case ctx.Err() != nil || !errors.As(err, &answer):
		return true
	}
	return answer.Code == uint32(libvirt.ErrAgentUnresponsive) || answer.Code == uint32(libvirt.ErrNoDomain)
}
