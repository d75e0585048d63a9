package pods

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/nightly"
)

// convergence is the time in which a guest must be as it is wanted after the last kill. It has room for the back-off of a VM whose guest has ended twice,
// for kubelet, which looks at a node anew when it starts, and for an emulated boot on a busy machine.
const convergence = 3 * time.Minute

// phases of a VM's life, in their order. A round is one of them, with kills.
var phases = []string{"create", "stop", "start", "delete"}

// victims of kills.
var victims = []string{qemu, libvirtd, launcher, kubeletProgram, controller, apiServer}

// killer runs the rounds.
type killer struct {
	reader
	random *rand.Rand
	guard  *guard
	// usual is how long a phase takes: kills fall into this time.
	usual map[string]time.Duration
	// kills by phase and victim, and the times until all was as wanted, by victim.
	kills map[string]int
	after map[string][]time.Duration
	// marked: the guest has written its mark, which later boots must find. hardware is the record of the VM that exists.
	marked   bool
	hardware string
}

// TestKills: ROUNDS rounds (default 4) of a VM's life, in each of which random processes are killed at random moments. After each the VM is as wanted in a
// stated time. Nothing of it runs twice, is left when it is deleted, or is lost: its disk, its hardware, and another guest, which goes on meanwhile. SEED
// repeats the choices, but not what the processes do.
func TestKills(t *testing.T) {
	nightly.Only(t)
	seed, rounds := uint64(number("SEED", int(rand.Uint32()))), number("ROUNDS", 4)
	t.Logf("SEED=%d ROUNDS=%d", seed, rounds)
	n := newTenant(t, "kills")
	n.fileClaim("disk")
	n.apply(small("bystander"))
	n.phase("bystander", "Running")
	k := &killer{reader: n.reader(), random: rand.New(rand.NewPCG(seed, 0)), usual: map[string]time.Duration{}, kills: map[string]int{},
		after: map[string][]time.Duration{}}
	k.guard = n.watchProcesses("bystander", "target")
	defer k.print()
	for _, phase := range phases { // without kills, for the usual times
		begun := time.Now()
		k.order(phase)
		k.converge(phase)
		k.usual[phase] = time.Since(begun)
		k.check(phase)
	}
	for round := range rounds {
		phase := phases[round%len(phases)]
		k.order(phase)
		killed := k.kill(phase)
		begun := time.Now()
		k.converge(phase)
		for _, victim := range killed {
			k.kills[phase+" "+victim]++
			k.after[victim] = append(k.after[victim], time.Since(begun))
		}
		t.Logf("round %d: %s, killed %s, as wanted %.1f s later", round, phase, strings.Join(killed, " and "), time.Since(begun).Seconds())
		k.check(phase)
		if t.Failed() {
			t.Fatalf("round %d has failed, SEED=%d", round, seed)
		}
	}
	k.order("delete")
	k.converge("delete")
	k.check("delete")
}

// order asks for what the phase is about. An API server that was killed a moment ago answers a later attempt.
func (k *killer) order(phase string) {
	k.Helper()
	object := map[string]string{"create": persistent("Always"), "start": persistent("Always"), "stop": persistent("Halted")}[phase]
	k.eventually(phase, func() (string, bool) {
		if object == "" {
			out, err := shared.Kubectl(k.Context(), "--namespace", k.namespace, "delete", "vm", "target", "--wait=false", "--ignore-not-found")
			return out, err == nil
		}
		out, err := k.applied(object)
		return out, err == nil
	})
}

// kill kills one or two victims at random moments of the phase, and returns their kinds. A victim that is not there is waited for during the phase; then
// another one takes its place.
func (k *killer) kill(phase string) (killed []string) {
	k.Helper()
	for range 1 + k.random.IntN(2) {
		victim := victims[k.random.IntN(len(victims))]
		time.Sleep(time.Duration(k.random.Float64() * float64(k.usual[phase])))
		begun := time.Now()
		for !k.end(victim) {
			if time.Since(begun) > k.usual[phase] {
				victim, begun = victims[3+k.random.IntN(3)], time.Now() // these are always there, or about to be
			}
			time.Sleep(20 * time.Millisecond)
		}
		killed = append(killed, victim)
	}
	return killed
}

// end kills a process of a kind. It returns false if no such process runs.
func (k *killer) end(kind string) bool {
	var pids []int
	for _, p := range processes() {
		if p.kind == kind && (!isOfGuest(kind) || k.guard.isTargets(p)) {
			pids = append(pids, p.pid)
		}
	}
	return len(pids) > 0 && syscall.Kill(pids[k.random.IntN(len(pids))], syscall.SIGKILL) == nil
}

func isOfGuest(kind string) bool { return kind == qemu || kind == libvirtd || kind == launcher }

// converge waits until the VM is as the phase wants it.
func (k *killer) converge(phase string) {
	k.Helper()
	deadline := time.Now().Add(convergence)
	check := map[string]func() string{"create": k.runs, "start": k.runs, "stop": k.stopped, "delete": k.nothingIsLeft}[phase]
	for {
		wrong := check()
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			k.Fatalf("%s: not as wanted %s after the last kill: %s", phase, convergence, wrong)
		}
		time.Sleep(250 * time.Millisecond)
	}
}
