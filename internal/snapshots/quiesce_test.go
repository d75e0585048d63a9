package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fakeAgent is a guest agent that records its requests.
type fakeAgent struct {
	refuses, keeps error
	all            []string
	limit          time.Duration
}

func (a *fakeAgent) Freeze(_ context.Context, guest types.NamespacedName, limit time.Duration) error {
	a.all, a.limit = append(a.all, "freeze "+guest.Name), limit
	return a.refuses
}

func (a *fakeAgent) Thaw(_ context.Context, guest types.NamespacedName) error {
	a.all = append(a.all, "thaw "+guest.Name)
	return a.keeps
}

// guestWithAgent returns a running guest whose agent is connected.
func guestWithAgent(more ...v1.VirtualMachineInstanceConditionType) *v1.VirtualMachineInstance {
	vmi := runningGuest()
	for _, kind := range append(more, v1.VirtualMachineInstanceAgentConnected) {
		vmi.Status.Conditions = append(vmi.Status.Conditions, v1.VirtualMachineInstanceCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	return vmi
}

func (c *cluster) indications() (all []api.Indication) {
	for _, of := range readObject(c, "s", &api.VirtualMachineSnapshot{}).Status.SourceIndications {
		all = append(all, of.Indication)
	}
	return all
}

// quiescedText returns the condition Quiesced of the snapshot as text.
func (c *cluster) quiescedText() string {
	of := operation.FindCondition(readObject(c, "s", &api.VirtualMachineSnapshot{}).Status.Conditions, v1alpha1.ConditionQuiesced)
	if of == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", of.Status, of.Reason, of.Message)
}

// TestRunningGuest: a guest is frozen before its volumes are snapshotted, and thawed afterwards. Condition and indications say how. A snapshot succeeds
// whatever the agent does.
func TestRunningGuest(t *testing.T) {
	both := []string{"freeze web", "thaw web"}
	for why, test := range map[string]struct {
		agent   *fakeAgent
		vmi     *v1.VirtualMachineInstance
		objects []client.Object
		want    []api.Indication
		quiet   string
		event   string
		calls   []string
	}{
		"with an agent": {&fakeAgent{}, guestWithAgent(), storageObjects(), []api.Indication{"Online", "GuestAgent"},
			"True Thawed: the guest was frozen while its volumes were snapshotted", "", both},
		"without an agent": {&fakeAgent{}, runningGuest(), storageObjects(), []api.Indication{"Online", "NoGuestAgent"},
			"False NoGuestAgent: VirtualMachineInstance 'web' has no condition AgentConnected", "", nil},
		"the agent refuses": {&fakeAgent{refuses: errors.New("fsfreeze is disabled")}, guestWithAgent(), storageObjects(), []api.Indication{"Online", "NoGuestAgent"},
			"False FreezeFailed: fsfreeze is disabled", v1alpha1.ReasonFreezeFailed, both},
		"it does not thaw": {&fakeAgent{keeps: errors.New("gone")}, guestWithAgent(), storageObjects(), []api.Indication{"Online", "GuestAgent"},
			"True ThawFailed: the guest was frozen while its volumes were snapshotted, and did not thaw: gone; its launcher thaws it 5m0s after",
			v1alpha1.ReasonThawFailed, both},
		"paused": {&fakeAgent{}, guestWithAgent(v1.VirtualMachineInstancePaused), storageObjects(), []api.Indication{"Online", "Paused"}, "", "", nil},
		"nobody to be asked": {nil, guestWithAgent(), storageObjects(), []api.Indication{"Online", "NoGuestAgent"},
			"False NoGuestAgent: Kiln's API server of subresources is not installed", "", nil},
		"no volume to cut": {&fakeAgent{}, guestWithAgent(), testObjects(), []api.Indication{"Online", "PartialSnapshot"}, "", "", nil},
		"it does not run":  {&fakeAgent{}, nil, storageObjects(), nil, "", "", nil},
	} {
		if test.vmi != nil {
			test.objects = append(test.objects, test.vmi)
		}
		c := newCluster(t, withVolumeSnapshots, test.objects...)
		if test.agent != nil {
			c.reconcilers.quiescer.Agent = test.agent
		}
		c.must(c.Create(t.Context(), snapshotOf("s")))
		cut := false
		c.reconcileAll(func() {
			vs := volumesnapshot.NewObject(volumesnapshot.Kind)
			vs.SetNamespace("team")
			vs.SetName("vmsnapshot-snap-1-volume-root")
			if !cut && c.Get(t.Context(), client.ObjectKeyFromObject(vs), vs) == nil && len(test.calls) > 0 {
				cut = true
				if want := test.calls[:1]; test.agent.refuses == nil && !slices.Equal(test.agent.all, want) {
					t.Errorf("%s: while volumes are cut the agent was asked to %v", why, test.agent.all)
				}
			}
			c.runDriver()
		})
		if diff := cmp.Diff(test.want, c.indications()); diff != "" || readObject(c, "s", &api.VirtualMachineSnapshot{}).Status.Phase != api.Succeeded {
			t.Errorf("%s: %+v\n%s", why, readObject(c, "s", &api.VirtualMachineSnapshot{}).Status, diff)
		}
		if got := c.quiescedText(); !strings.HasPrefix(got, test.quiet) || got != "" && test.quiet == "" || test.event != "" && !c.hasEvent(test.event) {
			t.Errorf("%s: '%s'", why, got)
		}
		if test.agent != nil && !slices.Equal(test.agent.all[:min(len(test.agent.all), 2)], test.calls) {
			t.Errorf("%s: the agent was asked to %v", why, test.agent.all)
		}
		content := readObject(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
		if content.Annotations[v1alpha1.AnnotationSnapshotState] == v1alpha1.SnapshotRunning != (test.vmi != nil) {
			t.Errorf("%s: %v", why, content.Annotations)
		}
		if test.agent != nil && test.agent.keeps != nil { // it is asked again
			test.agent.keeps = nil
			if c.reconcileAll(); c.quiescedText() != "True Thawed: the guest was frozen while its volumes were snapshotted" {
				t.Errorf("%s: later '%s'", why, c.quiescedText())
			}
		}
	}
}

// TestEveryFreezeEnds: whichever write the controller dies after, and however the snapshot ends, a guest that was asked to freeze is asked to thaw.
func TestEveryFreezeEnds(t *testing.T) {
	quota := func(of client.Object) error {
		if of.GetObjectKind().GroupVersionKind().Kind == "VolumeSnapshot" {
			return newForbidden(of, "exceeded quota")
		}
		return nil
	}
	for why, test := range map[string]struct {
		driver  bool
		refuses func(client.Object) error
		then    func(*cluster)
	}{
		"taken":   {true, nil, func(*cluster) {}},
		"late":    {false, nil, func(c *cluster) { c.now = c.now.Add(6 * time.Minute) }},
		"deleted": {false, nil, func(c *cluster) { c.must(client.IgnoreNotFound(c.WithWatch.Delete(c.Context(), snapshotOf("s")))) }},
		"forced":  {false, nil, func(c *cluster) { c.forceDelete(snapshotOf("s")) }},
		"refused": {false, quota, func(*cluster) {}},
	} {
		asked := 0
		life := func(dies int) int {
			agent := &fakeAgent{}
			c := newCluster(t, withVolumeSnapshots, append(storageObjects(), guestWithAgent())...)
			c.agent, c.refuseWrite = agent, test.refuses
			c.restart()
			c.dieAfter = dies
			c.whileDead = func() { test.then(c) }
			c.must(c.Create(t.Context(), snapshotOf("s")))
			meanwhile := func() {}
			if test.driver {
				meanwhile = c.runDriver
			}
			c.reconcileAll(meanwhile)
			test.then(c)
			c.reconcileAll(meanwhile)
			if len(agent.all) == 0 {
				return len(c.writes)
			}
			if asked++; agent.all[len(agent.all)-1] != "thaw web" ||
				slices.Contains(agent.all, "freeze web") != (agent.limit > 0 && agent.limit <= 5*time.Minute) {
				t.Errorf("%s, dies after write %d: the agent was asked to %v, for %s", why, dies, agent.all, agent.limit)
			}
			return len(c.writes)
		}
		writes := life(0)
		for dies := range writes {
			life(dies + 1)
		}
		if asked < 3 {
			t.Errorf("%s: a guest was asked %d times only", why, asked)
		}
	}
}

// TestExpiredFreeze: volumes that are snapshotted after a freeze may have ended do not count as consistent, even if a clock went backwards.
func TestExpiredFreeze(t *testing.T) {
	for _, passes := range []time.Duration{2 * time.Minute, -time.Hour} {
		c := newCluster(t, withVolumeSnapshots, append(storageObjects(), guestWithAgent())...)
		c.reconcilers.quiescer.Agent = &fakeAgent{}
		of := snapshotOf("s")
		of.Spec.FailureDeadline = ptr.To(metav1.Duration{Duration: time.Hour})
		c.must(c.Create(t.Context(), of))
		c.reconcileAll()
		if passes > 0 {
			passes += 4 * time.Minute
		}
		c.now = c.now.Add(passes)
		c.runDriver()
		c.reconcileAll()
		if got := c.quiescedText(); !strings.HasPrefix(got, "False QuiesceTimeout: not all volumes were snapshotted within 5m0s") ||
			!slices.Contains(c.indications(), api.VMSnapshotQuiesceTimeoutIndication) {
			t.Errorf("%s: %s, %v", passes, got, c.indications())
		}
	}
}

// TestHangingAgents: an agent that does not answer does not block a worker.
func TestHangingAgents(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, append(storageObjects(), guestWithAgent())...)
	agent := &fakeAgent{refuses: context.DeadlineExceeded}
	c.reconcilers.quiescer.Agent = agent
	var open []func()
	c.reconcilers.quiescer.Requests.Go = func(work func()) { open = append(open, work) }
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll(c.runDriver)
	if after, err := c.reconcilers.snapshot.Reconcile(t.Context(), at("s")); after != quiesce.RequestPoll || err != nil || len(open) != 1 ||
		!strings.HasPrefix(c.quiescedText(), "Unknown Freezing") {
		t.Fatalf("%s %v, %d questions, %s", after, err, len(open), c.quiescedText())
	}
	open[0]()
	c.reconcileAll(c.runDriver)
	if len(open) != 2 || !strings.HasPrefix(c.quiescedText(), "False FreezeFailed: context deadline exceeded") ||
		readObject(c, "s", &api.VirtualMachineSnapshot{}).Status.Phase != api.Succeeded {
		t.Errorf("%d questions, %s", len(open), c.quiescedText())
	}
}
