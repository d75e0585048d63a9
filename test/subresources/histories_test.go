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
	"github.com/kilnvm/kiln/internal/workbench"
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
			h := history{space: spaceOf(t), Rand: rand.New(rand.NewPCG(seed+run, 0)), ended: map[string]types.UID{}} //nolint:gosec // to be repeated
			for _, strategy := range strategies {
				h.make(nameOf(strategy), strategy)
			}
			for range 60 {
				h.step()
			}
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
}

// step does one thing. What is asked for may be refused, but with an answer that says why: 202, 400 or 409.
func (h *history) step() {
	h.Helper()
	name := nameOf(strategies[h.IntN(len(strategies))])
	type operation struct {
		what string
		do   func()
	}
	request := func(verb, path, body string) func() {
		return func() {
			if answer := h.call(verb, "vm/"+name+"/"+path, body); !slices.Contains([]int{202, 400, 409}, answer.code) {
				h.Errorf("%s of %s: status %d: %s", path, name, answer.code, answer.text)
			}
		}
	}
	h.volume++
	operations := []operation{
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
		{"the guest runs", func() { h.guest(name, v1.Running) }},
		{"the guest runs", func() { h.guest(name, v1.Running) }},
		{"the guest powers off", func() { h.guest(name, v1.Succeeded) }},
		{"the guest crashes", func() { h.guest(name, v1.Failed) }},
		{"edit", func() {
			h.kubectl("", "patch", "vm", name, "--type=merge",
				fmt.Sprintf(`-p={"spec":{"template":{"metadata":{"annotations":{"edit":"%d"}},"spec":{"hostname":"h%d"}}}}`, h.volume, h.IntN(3)))
		}},
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
	next := operations[h.IntN(len(operations))]
	if h.did == nil {
		h.did = map[string]int{}
	}
	h.did[next.what]++
	next.do()
	time.Sleep(time.Duration(h.IntN(300)) * time.Millisecond)
}

// guest writes the phase of a VMI, as its launcher would: an end is final.
func (h *history) guest(name string, phase v1.VirtualMachineInstancePhase) {
	h.Helper()
	vmi := v1.VirtualMachineInstance{}
	if json.Unmarshal([]byte(h.kubectl("", "get", "vmi", name, "--ignore-not-found", "-o", "json")), &vmi) != nil || vmi.IsFinal() ||
		vmi.DeletionTimestamp != nil || h.ended[name] == vmi.UID {
		return
	}
	if vmi.Status.Phase == v1.VmPhaseUnset {
		return
	}
	if phase != v1.Running {
		h.ended[name] = vmi.UID
	}
	_, _, err := shared.Kubectl(h.Context(), "", "--namespace", h.name, "patch", "vmi", name, "--subresource=status", "--type=merge",
		fmt.Sprintf(`-p={"metadata":{"uid":%q},"status":{"phase":%q}}`, vmi.UID, phase))
	if err != nil {
		delete(h.ended, name) // it was deleted meanwhile
	}
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
		vm := h.vm(name)
		pins := map[string]any{}
		if err := json.Unmarshal([]byte(vm.Annotations[v1alpha1.AnnotationPins]), &pins); err != nil {
			h.Fatalf("%s has no pins: %v", name, err)
		}
		for key, pin := range pins {
			if revision, is := pin.(string); is && strings.Contains(revision, "-") {
				if h.kubectl("", "get", "controllerrevisions", revision, "--ignore-not-found", "-o", "name") == "" {
					h.Errorf("%s: revision %s of %s is lost", name, revision, key)
				}
			}
		}
		out, errOut, err := shared.Kiln(h.Context(), "", "states", "vm/"+name, "-n", h.name, "-o", "json")
		var states []workbench.State
		if err != nil || json.Unmarshal([]byte(out), &states) != nil {
			h.Fatalf("states of %s: %v: %s", name, err, errOut)
		}
		for _, state := range []workbench.State{states[0], states[2]} {
			if state.Digest == "" || state.Cause == "" || state.Time == nil {
				h.Errorf("%s: state %d has digest '%s', cause '%s', time %v", name, state.State, state.Digest, state.Cause, state.Time)
			}
		}
		h.expect(http.MethodPut, "vm/"+name+"/stop", "", 202, "")
		h.gone(name)
	}
}
