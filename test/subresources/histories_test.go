package subresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// TestHistories runs RUNS random histories of requests, edits, ends of guests and killed processes (default 1), from SEED on (else from the clock). It is not
// parallel: it kills what other tests need.
func TestHistories(t *testing.T) {
	runs, seed := nightly.Number(t, "RUNS", 1), uint64(nightly.Number(t, "SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("%d histories from SEED=%d on", runs, seed)
	for run := range uint64(runs) {
		t.Run(fmt.Sprintf("seed=%d", seed+run), func(t *testing.T) {
			h := history{space: spaceOf(t), ended: map[string]types.UID{}, did: map[string]int{}, recorded: map[string]bool{}}
			h.Rand = rand.New(rand.NewPCG(seed+run, 0)) //nolint:gosec // to be repeated
			h.kubectl(fmt.Sprintf(ownSize, 1), "create", "-f", "-")
			for _, strategy := range strategies {
				h.makeOf(nameOf(strategy), strategy, "{name: own, kind: VirtualMachineInstancetype}")
			}
			for range 60 {
				h.step()
			}
			h.settled()
			h.end()
			t.Logf("%v", h.did)
		})
	}
}

var strategies = []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyHalted, v1.RunStrategyManual, v1.RunStrategyRerunOnFailure}

func nameOf(strategy v1.VirtualMachineRunStrategy) string { return strings.ToLower(string(strategy)) }

// history is one of them.
type history struct {
	space
	*rand.Rand
	did map[string]int
	// ended are the VMIs whose end was written, by VM: an end is written once.
	ended  map[string]types.UID
	volume int
	// copies counts snapshots, restores and clones: each has a name of its own.
	copies int
	// recorded are the VMs whose guests have booted: their records stay.
	recorded map[string]bool
}

type operation struct {
	what string
	do   func()
}

// step does one thing.
func (h *history) step() {
	h.Helper()
	name := nameOf(strategies[h.IntN(len(strategies))])
	operations := slices.Concat(h.requests(name), h.ofGuests(name), h.ofSnapshots(name), h.kills())
	next := operations[h.IntN(len(operations))]
	h.did[next.what]++
	next.do()
	time.Sleep(time.Duration(h.IntN(300)) * time.Millisecond)
}

// requests returns requests for subresources. Each may be refused, but only with an answer that says why: 400, 409, or 422 while a snapshot or a restore
// holds the VM.
func (h *history) requests(name string) []operation {
	h.Helper()
	request := func(verb, path, body string) func() {
		return func() {
			answer := h.call(verb, "vm/"+name+"/"+path, body)
			held := answer.code == 422 && strings.Contains(answer.text, "cannot be changed until ")
			if !held && !slices.Contains([]int{202, 400, 409}, answer.code) {
				h.Errorf("%s of %s: status %d: %s", path, name, answer.code, answer.text)
			}
		}
	}
	h.volume++
	return []operation{
		{"start", request(http.MethodPut, "start", "")},
		{"start by GET", request(http.MethodGet, "start", "")},
		{"start paused", request(http.MethodPut, "start", `{"paused":true}`)},
		{"stop", request(http.MethodPut, "stop", "")},
		{"stop soon", request(http.MethodPut, "stop", `{"gracePeriod":1}`)},
		{"restart", request(http.MethodPut, "restart", "")},
		{"force a restart", request(http.MethodPut, "restart", `{"gracePeriodSeconds":0}`)},
		{"add a volume", request(http.MethodPut, "addvolume", fmt.Sprintf(
			`{"name":"v%[1]d","disk":{"disk":{"bus":"virtio"}},"volumeSource":{"persistentVolumeClaim":{"claimName":"v%[1]d"}}}`, h.volume))},
		{"remove a volume", request(http.MethodPut, "removevolume", fmt.Sprintf(`{"name":"v%d"}`, h.IntN(h.volume)))},
	}
}

// ofGuests are what guests and their owners do.
func (h *history) ofGuests(name string) []operation {
	return []operation{
		{"the guest boots", func() { h.boot(name) }},
		{"the guest boots", func() { h.boot(name) }},
		{"the guest powers off", func() { h.guest(name, v1.Succeeded) }},
		{"the guest crashes", func() { h.guest(name, v1.Failed) }},
		{"edit", func() {
			h.kubectl("", "patch", "vm", name, "--type=merge",
				fmt.Sprintf(`-p={"spec":{"template":{"metadata":{"annotations":{"edit":"%d"}},"spec":{"hostname":"h%d"}}}}`, h.volume, h.IntN(3)))
		}},
		{"edit of the instancetype", func() { h.kubectl(fmt.Sprintf(ownSize, 1+h.IntN(3)), "replace", "-f", "-") }},
		{"states", func() { h.states(name) }},
	}
}

// kills end processes of Kiln at once. Others go on.
func (h *history) kills() []operation {
	return []operation{
		{"kill the API server of subresources", func() {
			if err := errors.Join(shared.KillAPIServer(), shared.StartAPIServer(h.Context())); err != nil {
				h.Fatal(err)
			}
		}},
		{"kill the controller", func() {
			if err := shared.KillLeader(h.Context()); err != nil && !errors.Is(err, cluster.ErrNoLeader) { // the last one waits for the Lease yet
				h.Fatal(err)
			}
		}},
	}
}

// boot stands for a launcher: it claims the VMI, writes the hardware of its first boot, and reports that the guest runs.
func (h *history) boot(name string) {
	h.Helper()
	vmi := h.current(name)
	if vmi == nil || vmi.Status.Phase != v1.Pending && vmi.Status.Phase != v1.Scheduled && vmi.Status.Phase != v1.VmPhaseUnset {
		return
	}
	if !h.report(vmi, `{"nodeName":"none","phase":"Scheduled"}`) {
		return
	}
	hardware := &v1alpha1.GuestHardware{}
	for end := time.Now().Add(10 * time.Second); hardware.Status.Guest == nil || hardware.Status.Guest.UID != vmi.UID; time.Sleep(50 * time.Millisecond) {
		text := h.kubectl("", "get", "guesthardware", name, "--ignore-not-found", "-o", "json")
		if hardware = (&v1alpha1.GuestHardware{}); text != "" && json.Unmarshal([]byte(text), hardware) != nil || time.Now().After(end) {
			return // it was stopped meanwhile, or the controller was killed: a launcher would ask again
		}
	}
	_, _, err := shared.Kubectl(h.Context(), "", "--namespace", h.name, "patch", "guesthardware", name, "--type=merge",
		fmt.Sprintf(`-p={"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"hardware":%s}}`, hardware.UID, hardware.ResourceVersion, bootedHardware))
	if err == nil {
		h.recorded[name] = true
		h.report(vmi, `{"phase":"Running"}`)
	}
}

// guest writes that a guest has ended, as its launcher would: an end is final.
func (h *history) guest(name string, phase v1.VirtualMachineInstancePhase) {
	h.Helper()
	if vmi := h.current(name); vmi != nil && vmi.Status.Phase != v1.VmPhaseUnset && h.report(vmi, fmt.Sprintf(`{"phase":%q}`, phase)) {
		h.ended[name] = vmi.UID
	}
}

// current returns the VMI of a VM whose guest may do something; nil if no such VMI exists.
func (h *history) current(name string) *v1.VirtualMachineInstance {
	h.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if json.Unmarshal([]byte(h.kubectl("", "get", "vmi", name, "--ignore-not-found", "-o", "json")), vmi) != nil || vmi.IsFinal() ||
		vmi.DeletionTimestamp != nil || h.ended[name] == vmi.UID {
		return nil
	}
	return vmi
}

// report writes a part of the status of a VMI. It reports false where the VMI was deleted meanwhile.
func (h *history) report(vmi *v1.VirtualMachineInstance, status string) bool {
	h.Helper()
	_, _, err := shared.Kubectl(h.Context(), "", "--namespace", h.name, "patch", "vmi", vmi.Name, "--subresource=status", "--type=merge",
		fmt.Sprintf(`-p={"metadata":{"uid":%q},"status":%s}`, vmi.UID, status))
	return err == nil
}

// end shows that no VM is stuck: each can be stopped, started and stopped again. Its revisions are there, and each of its states has digest, cause and time.
func (h *history) end() {
	h.Helper()
	for _, strategy := range strategies {
		name := nameOf(strategy)
		h.kubectl("", "patch", "vm", name, "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`)
		h.gone(name)
		h.kubectl("", "patch", "vm", name, "--type=merge", `-p={"spec":{"runStrategy":"Manual"}}`)
		h.eventually("the requests of "+name+" are met", func() bool { return len(h.vm(name).Status.StateChangeRequests) == 0 })
		if h.kubectl("", "get", "vmi", name, "--ignore-not-found", "-o", "name") != "" { // a restart was under way, which has started it
			h.expect(http.MethodPut, "vm/"+name+"/stop", "", 202, "")
			h.gone(name)
		}
		h.expect(http.MethodPut, "vm/"+name+"/start", "", 202, "")
		h.vmi(name, nil)
		h.phase(name, v1.Running)
		h.pinned("vm/"+name, h.vm(name).Annotations)
		if h.recorded[name] && h.kubectl("", "get", "guesthardware", name, "--ignore-not-found", "-o", "name") == "" {
			h.Errorf("the record of %s is lost", name)
		}
		h.states(name)
		h.expect(http.MethodPut, "vm/"+name+"/stop", "", 202, "")
		h.gone(name)
	}
}

// pinned shows that the revisions that an object names are there.
func (h *history) pinned(object string, annotations map[string]string) {
	h.Helper()
	pins := map[string]any{}
	if err := json.Unmarshal([]byte(annotations[v1alpha1.AnnotationPins]), &pins); err != nil {
		h.Fatalf("%s has no pins: %v", object, err)
	}
	for key, pin := range pins {
		if revision, is := pin.(string); is && strings.Contains(revision, "-") {
			if h.kubectl("", "get", "controllerrevisions", revision, "--ignore-not-found", "-o", "name") == "" {
				h.Errorf("%s: revision %s of %s is lost", object, revision, key)
			}
		}
	}
}

// states shows that each state of a VM has digest, cause and time, or says why it has no digest.
func (h *history) states(name string) {
	h.Helper()
	out, errOut, err := shared.Kiln(h.Context(), "", "states", "vm/"+name, "-n", h.name, "-o", "json")
	var list struct{ Items []guestdiff.State }
	if err != nil || json.Unmarshal([]byte(out), &list) != nil {
		h.Fatalf("states of %s: %v: %s", name, err, errOut)
	}
	for _, state := range list.Items {
		if state.Cause == "" || state.Digest != "" && state.Time == nil || state.Digest == "" && state.State == guestdiff.StateTemplate {
			h.Errorf("%s: state %d has digest '%s', cause '%s', time %v", name, state.State, state.Digest, state.Cause, state.Time)
		}
	}
}
