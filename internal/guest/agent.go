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

// agentInterval is the time between two questions to an agent that answers. One that does not is asked four times as often.
const agentInterval = 30 * time.Second

// watchAgent asks the guest agent until ctx ends, while the guest runs, and reports what it says when that has changed. It is a goroutine of its own: an agent
// that hangs delays neither events nor a stop.
func (g *Guest) watchAgent(ctx context.Context, run run, running *atomic.Bool) {
	interval := cmp.Or(g.AgentInterval, agentInterval)
	var last *v1alpha1.GuestAgent
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
			continue // a paused guest answers nothing, and what it has said holds
		}
		now, err := g.askAgent(ctx, run, interval/3)
		if err != nil && !silent {
			silent = true // a guest with much to do misses one question
			continue
		}
		silent = err != nil
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

// askAgent returns what the agent says, within bounds.
func (g *Guest) askAgent(ctx context.Context, run run, limit time.Duration) (*v1alpha1.GuestAgent, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said, err := g.Agent.AgentFacts(ctx, run.owner)
	if err != nil {
		return nil, err
	}
	return bounded(said, run.macs), nil
}

// bounded returns what an agent says within the bounds of the definition of GuestPods. Interfaces are those with the MAC address of a card: a guest that runs
// containers makes and removes others all the time.
func bounded(said hypervisor.AgentFacts, macs []string) *v1alpha1.GuestAgent {
	text := func(of string) string { return guestagent.Text(of, v1alpha1.LongestAgentText) }
	agent := &v1alpha1.GuestAgent{Hostname: guestagent.Text(said.Hostname, v1alpha1.LongestHostname)}
	os := v1alpha1.GuestOS{Name: text(said.OS.Name), KernelRelease: text(said.OS.KernelRelease), Version: text(said.OS.Version),
		PrettyName: text(said.OS.PrettyName), VersionID: text(said.OS.VersionID), KernelVersion: text(said.OS.KernelVersion),
		Machine: text(said.OS.Machine), ID: text(said.OS.ID)}
	if os != (v1alpha1.GuestOS{}) {
		agent.OS = &os
	}
	for _, one := range said.Interfaces {
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
