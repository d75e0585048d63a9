package hypervisor

import (
	"context"
	"errors"

	"github.com/digitalocean/go-libvirt"
)

// Actions on a running domain. Each fails if the domain is not active or belongs to another owner.

// errNotActive is the error for a domain that does not exist. It has the code of libvirt's error for a domain that does not run.
var errNotActive = libvirt.Error{Code: uint32(libvirt.ErrOperationInvalid), Message: "the guest does not run"}

// onDomain runs a call on the owner's domain.
func (l *Libvirt) onDomain(ctx context.Context, owner Owner, work func(*libvirt.Libvirt, libvirt.Domain) error) error {
	return l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := findDomain(rpc, owner)
		if err != nil {
			return err
		}
		if !found {
			return errNotActive
		}
		return work(rpc, domain)
	})
}

// Suspend stops the CPUs of the owner's domain.
func (l *Libvirt) Suspend(ctx context.Context, owner Owner) error {
	return l.onDomain(ctx, owner, func(rpc *libvirt.Libvirt, domain libvirt.Domain) error { return rpc.DomainSuspend(domain) })
}

// Resume lets the CPUs of the owner's domain run.
func (l *Libvirt) Resume(ctx context.Context, owner Owner) error {
	return l.onDomain(ctx, owner, func(rpc *libvirt.Libvirt, domain libvirt.Domain) error { return rpc.DomainResume(domain) })
}

// Reset resets the owner's domain, as a reset button does: the guest cannot refuse.
func (l *Libvirt) Reset(ctx context.Context, owner Owner) error {
	return l.onDomain(ctx, owner, func(rpc *libvirt.Libvirt, domain libvirt.Domain) error { return rpc.DomainReset(domain, 0) })
}

// Reboot asks the guest to reboot, by its agent or, if the agent does not answer, by ACPI.
func (l *Libvirt) Reboot(ctx context.Context, owner Owner) error {
	if l.agentConnected(ctx, owner) == nil {
		within, cancel := context.WithTimeout(ctx, shutdownByAgent)
		defer cancel()
		err := l.onDomain(within, owner, func(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
			return rpc.DomainReboot(domain, libvirt.DomainRebootGuestAgent)
		})
		if err == nil {
			return nil
		}
	}
	return l.onDomain(ctx, owner, func(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
		return rpc.DomainReboot(domain, libvirt.DomainRebootAcpiPowerBtn)
	})
}

// Freeze freezes all filesystems of the guest by its agent. It returns nil if they are frozen already: a caller that got no answer sends the request again.
func (l *Libvirt) Freeze(ctx context.Context, owner Owner) error {
	if frozen, err := l.isFrozen(ctx, owner); err != nil || frozen {
		return err
	}
	return l.onDomain(ctx, owner, func(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
		_, err := rpc.DomainFsfreeze(domain, nil, 0)
		return err
	})
}

// Thaw thaws the filesystems that Freeze has frozen. Filesystems that are not frozen are not an error.
func (l *Libvirt) Thaw(ctx context.Context, owner Owner) error {
	return l.onDomain(ctx, owner, func(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
		_, err := rpc.DomainFsthaw(domain, nil, 0)
		return err
	})
}

// isFrozen asks the agent whether the filesystems are frozen.
func (l *Libvirt) isFrozen(ctx context.Context, owner Owner) (bool, error) {
	if err := l.agentConnected(ctx, owner); err != nil {
		return false, err
	}
	state := ""
	err := l.askAgent(ctx, owner.Domain(), agentCommand{Execute: "guest-fsfreeze-status"}, &state)
	return state == "frozen", err
}

// AgentAnswers are the answers of an agent to all questions of subresources. Do not trust them: texts may contain any bytes, and lists have any length.
type AgentAnswers struct {
	Facts       AgentFacts
	Version     string
	Commands    []AgentCommandInfo
	Timezone    string
	Users       []AgentUser
	Filesystems []AgentFilesystem
	Frozen      bool
}

// AgentCommandInfo is an element of guest-info.
type AgentCommandInfo struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

// AgentUser is an element of guest-get-users.
type AgentUser struct {
	Name   string `json:"user"`
	Domain string `json:"domain"`
	// LoginTime is in seconds since 1970.
	LoginTime float64 `json:"login-time"`
}

// AgentFilesystem is an element of guest-get-fsinfo.
type AgentFilesystem struct {
	Name       string      `json:"name"`
	MountPoint string      `json:"mountpoint"`
	Type       string      `json:"type"`
	UsedBytes  int         `json:"used-bytes"`
	TotalBytes int         `json:"total-bytes"`
	Disks      []AgentDisk `json:"disk"`
}

// AgentDisk is a disk of a filesystem.
type AgentDisk struct {
	Serial string `json:"serial"`
	Bus    string `json:"bus-type"`
}

// Agent asks the agent of the owner's guest all questions of subresources. An answer is empty if the agent refuses the question. The error means that the
// agent does not answer.
func (l *Libvirt) Agent(ctx context.Context, owner Owner) (AgentAnswers, error) {
	facts, err := l.AgentFacts(ctx, owner)
	if err != nil {
		return AgentAnswers{}, err
	}
	answers := AgentAnswers{Facts: facts}
	var info struct {
		Version  string             `json:"version"`
		Commands []AgentCommandInfo `json:"supported_commands"`
	}
	var zone struct {
		Name string `json:"zone"`
	}
	state := ""
	for _, question := range []struct {
		command string
		answer  any
	}{
		{"guest-info", &info}, {"guest-get-timezone", &zone}, {"guest-get-users", &answers.Users}, {"guest-get-fsinfo", &answers.Filesystems},
		{"guest-fsfreeze-status", &state},
	} {
		answer, err := l.sendAgentCommand(ctx, owner.Domain(), agentCommand{Execute: question.command})
		if isUnanswered(ctx, err) {
			return AgentAnswers{}, errors.Join(errors.New("the guest agent has ceased to answer"), err)
		}
		if err == nil {
			readAgentReply(answer, question.answer)
		}
	}
	answers.Version, answers.Commands, answers.Timezone, answers.Frozen = info.Version, info.Commands, zone.Name, state == "frozen"
	return answers, nil
}
