package guest

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guestagent"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
)

// agentInterval is the time between two questions to an agent that answers. An agent that does not answer is asked four times as often.
const agentInterval = 30 * time.Second

// watchAgent asks the agent of a running guest until ctx ends, reports each changed answer, and gives accessCredentials to the agent. It runs in its own
// goroutine, because an agent that hangs must delay neither events nor a stop.
func (g *Guest) watchAgent(ctx context.Context, run startedGuest, running *atomic.Bool) {
	interval := cmp.Or(g.AgentInterval, agentInterval)
	var last *v1alpha1.GuestAgent
	credentials := &credentialSync{Guest: g, run: run}
	for silent := true; ; {
		wait := interval
		if silent {
			wait = interval / 4
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if !running.Load() {
			continue // a paused guest cannot answer, and its last answer stays valid
		}
		now, err := g.askAgent(ctx, run, interval/3)
		if err != nil && !silent {
			silent = true // a guest with much to do misses one question
			continue
		}
		silent = err != nil
		credentials.giveIfChanged(ctx, !silent)
		if equality.Semantic.DeepEqual(last, now) {
			continue
		}
		if (last == nil) != (now == nil) {
			ctrl.LoggerFrom(ctx).Info("the guest agent has begun or ceased to answer", "answers", now != nil)
		}
		last = now
		g.Channel.Report(func(status *v1alpha1.GuestPodStatus) {
			if ctx.Err() == nil { // else the guest has ended, and its last report has no agent
				status.Agent = now
			}
		})
	}
}

// askAgent returns the agent's answer within the bounds of boundAgentFacts. The error says that the agent has not answered within the limit.
func (g *Guest) askAgent(ctx context.Context, run startedGuest, limit time.Duration) (*v1alpha1.GuestAgent, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	facts, err := g.Agent.AgentFacts(ctx, run.owner)
	if err != nil {
		return nil, err
	}
	return boundAgentFacts(facts, run.macs), nil
}

// boundAgentFacts cuts an agent's answer to the bounds of the CRD of GuestPods. It keeps only interfaces with the MAC address of one of the VMI's network
// cards, because a guest that runs containers creates and removes other interfaces all the time.
func boundAgentFacts(facts hypervisor.AgentFacts, macs []string) *v1alpha1.GuestAgent {
	text := func(of string) string { return guestagent.Text(of, v1alpha1.LongestAgentText) }
	agent := &v1alpha1.GuestAgent{Hostname: guestagent.Text(facts.Hostname, v1alpha1.LongestHostname)}
	os := v1alpha1.GuestOS{Name: text(facts.OS.Name), KernelRelease: text(facts.OS.KernelRelease), Version: text(facts.OS.Version),
		PrettyName: text(facts.OS.PrettyName), VersionID: text(facts.OS.VersionID), KernelVersion: text(facts.OS.KernelVersion),
		Machine: text(facts.OS.Machine), ID: text(facts.OS.ID)}
	if os != (v1alpha1.GuestOS{}) {
		agent.OS = &os
	}
	for _, one := range facts.Interfaces {
		mac := guestagent.MAC(one.MAC)
		if mac == "" || !slices.Contains(macs, mac) || len(agent.Interfaces) == v1alpha1.MostAgentInterfaces {
			continue
		}
		addresses := make([]string, len(one.IPs))
		for i := range one.IPs {
			addresses[i] = one.IPs[i].Address
		}
		agent.Interfaces = append(agent.Interfaces, v1alpha1.GuestInterface{
			Name: guestagent.Text(one.Name, v1alpha1.LongestAgentName), MAC: mac, IPs: guestagent.IPs(addresses, v1alpha1.MostAgentIPs)})
	}
	return agent
}
