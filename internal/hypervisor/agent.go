package hypervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// The agent in a guest (qemu-guest-agent) answers questions of its host. A tenant may have replaced it: treat each answer as hostile.

// Ping returns an error if the guest agent of a domain does not answer.
func (l *Libvirt) Ping(ctx context.Context, domain string) error {
	var nothing struct{}
	return l.askAgent(ctx, domain, agentCommand{Execute: "guest-ping"}, &nothing)
}

// Execution is how a program in the guest ended.
type Execution struct {
	ExitStatus     int
	Output, Errors []byte
}

// executionInterval is the time between two questions whether a program has ended. The agent does not report the end by itself.
const executionInterval = 100 * time.Millisecond

// Execute runs a program in the guest by its agent, and waits until it has ended or ctx ends. The end of ctx does not end the program.
func (l *Libvirt) Execute(ctx context.Context, domain string, command []string) (Execution, error) {
	var begun struct {
		PID int `json:"pid"`
	}
	run := map[string]any{"path": command[0], "arg": command[1:], "capture-output": true}
	if err := l.askAgent(ctx, domain, agentCommand{"guest-exec", run}, &begun); err != nil {
		return Execution{}, err
	}
	for {
		var now struct {
			Exited   bool   `json:"exited"`
			ExitCode *int   `json:"exitcode"`
			Signal   *int   `json:"signal"`
			Out      []byte `json:"out-data"` // base64
			Err      []byte `json:"err-data"`
		}
		if err := l.askAgent(ctx, domain, agentCommand{"guest-exec-status", map[string]any{"pid": begun.PID}}, &now); err != nil {
			return Execution{}, err
		}
		switch {
		case now.Exited && now.ExitCode != nil:
			return Execution{*now.ExitCode, now.Out, now.Err}, nil
		case now.Exited:
			return Execution{}, fmt.Errorf("a signal ended '%s' in the guest", command[0])
		}
		select {
		case <-ctx.Done():
			return Execution{}, fmt.Errorf("'%s' has not ended in the guest: %w", command[0], ctx.Err())
		case <-time.After(executionInterval):
		}
	}
}

// agentCommand is a command of the agent's protocol.
type agentCommand struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
}

// askAgent sends a command to the agent of a domain and reads its answer.
func (l *Libvirt) askAgent(ctx context.Context, domain string, command agentCommand, answer any) error {
	reply, err := l.sendAgentCommand(ctx, domain, command)
	if err != nil {
		return err
	}
	return decodeAgentReply(reply, answer)
}

// sendAgentCommand sends a command to the agent of a domain and returns its reply: JSON of at most 4 MiB, which is libvirt's bound.
func (l *Libvirt) sendAgentCommand(ctx context.Context, domain string, command agentCommand) (reply libvirt.OptString, err error) {
	text, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	seconds := int32(QueryDeadline / time.Second)
	if end, bounded := ctx.Deadline(); bounded {
		seconds = int32(max(1, min(time.Until(end), QueryDeadline)/time.Second)) //nolint:gosec // at most QueryDeadline
	}
	err = l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		found, err := rpc.DomainLookupByName(domain)
		if err != nil {
			return err
		}
		if reply, err = rpc.QEMUDomainAgentCommand(found, string(text), seconds, 0); err != nil {
			return fmt.Errorf("the guest agent does not answer '%s': %w", command.Execute, err)
		}
		return nil
	})
	return reply, err
}

// decodeAgentReply reads the member 'return' of a reply into answer.
func decodeAgentReply(reply libvirt.OptString, answer any) error {
	if len(reply) == 0 {
		return fmt.Errorf("the guest agent has answered nothing")
	}
	whole := struct {
		Return any `json:"return"`
	}{answer}
	if err := json.Unmarshal([]byte(reply[0]), &whole); err != nil {
		return fmt.Errorf("the guest agent's answer cannot be read: %w", err)
	}
	return nil
}
