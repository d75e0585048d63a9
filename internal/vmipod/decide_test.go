package vmipod

import (
	"slices"
	"testing"
)

// situations yields every combination of what a step depends on.
func situations(yield func(situation) bool) {
	fields := func(s *situation) []*bool {
		return []*bool{&s.exists, &s.kilns, &s.deleting, &s.final, &s.pending, &s.finalized, &s.hadPod, &s.bound, &s.held, &s.going, &s.ended, &s.out,
			&s.told, &s.toldOther, &s.facts, &s.hardware}
	}
	n := len(fields(&situation{}))
	for pod := nobodys; pod <= foreign; pod++ {
		for bits := range 1 << n {
			s := situation{pod: pod}
			for i, field := range fields(&s) {
				*field = bits>>i&1 == 1
			}
			if !yield(s) {
				return
			}
		}
	}
}

// laws are what holds for a step in every situation, possible or not.
var laws = []struct {
	why   string
	steps []step
	holds func(situation) bool
}{
	{"a VMI gets one pod in its life, and none after its end", []step{place},
		func(s situation) bool {
			return s.exists && s.kilns && !s.hadPod && !s.final && !s.deleting && s.finalized && s.pod == nobodys
		}},
	{"a GuestPod is made for the recorded pod of a living VMI alone, on its node", []step{introduce, equip},
		func(s situation) bool {
			return s.pod == recordedPod && s.hadPod && s.bound && !s.going && !s.ended && !s.deleting && !s.final
		}},
	{"hardware is recorded once, after the launcher has reported", []step{equip}, func(s situation) bool { return s.facts && !s.hardware && s.told }},
	{"the finalizer of a pod in which a guest may run stays", []step{release}, func(s situation) bool { return s.over() || s.pod == unrecorded }},
	{"pods of others are left alone", []step{remove, discard}, func(s situation) bool { return s.mine() }},
	{"the pod of a running guest is deleted only for its VMI's owner", []step{remove},
		func(s situation) bool { return s.deleting || s.final }},
	{"a recorded pod is not discarded", []step{discard}, func(s situation) bool { return s.pod == unrecorded }},
	{"no VMI ends while its guest may run", []step{finish}, func(s situation) bool { return s.pod != recordedPod || s.over() }},
	{"a VMI goes after its end, and after its guest", []step{part},
		func(s situation) bool { return s.deleting && s.final && (s.pod != recordedPod || s.over() && !s.held) }},
	{"VMIs of launchers of bare machines are left alone", []step{finalize, place, refuse, remove, discard, withdraw, introduce, equip, finish, part},
		func(s situation) bool { return s.exists && s.kilns }},
}

// TestDecide: whatever the controller sees, its next step breaks no law.
func TestDecide(t *testing.T) {
	seen := map[step]int{}
	for s := range situations {
		next := decide(s)
		seen[next]++
		for _, law := range laws {
			if slices.Contains(law.steps, next) && !law.holds(s) {
				t.Fatalf("%s: step %d in %+v", law.why, next, s)
			}
		}
	}
	for next := leave; next <= part; next++ {
		if seen[next] == 0 {
			t.Errorf("no situation leads to step %d", next)
		}
	}
}

// TestDecideNext: the step of each situation of a life.
func TestDecideNext(t *testing.T) {
	vmi := situation{exists: true, kilns: true, pending: true, finalized: true}
	change := func(from situation, do func(*situation)) situation { do(&from); return from }
	placed := change(vmi, func(s *situation) { s.pending, s.hadPod, s.pod, s.held = false, true, recordedPod, true })
	running := change(placed, func(s *situation) { s.bound, s.told, s.facts, s.hardware = true, true, true, true })
	for _, c := range []struct {
		why  string
		s    situation
		want step
	}{
		{"nothing is there", situation{}, leave},
		{"a VMI without a phase", change(vmi, func(s *situation) { s.pending = false }), leave},
		{"a VMI without a finalizer", change(vmi, func(s *situation) { s.finalized = false }), finalize},
		{"a new VMI", vmi, place},
		{"a pod from a crash before the status was written", change(vmi, func(s *situation) { s.pod, s.held = unrecorded, true }), discard},
		{"it is deleted", change(vmi, func(s *situation) { s.pod, s.held, s.going = unrecorded, true, true }), release},
		{"it goes", change(vmi, func(s *situation) { s.pod, s.going = unrecorded, true }), wait},
		{"the pod of a predecessor runs", change(vmi, func(s *situation) { s.pod, s.held, s.going, s.bound = predecessors, true, true, true }), wait},
		{"it has ended", change(vmi, func(s *situation) { s.pod, s.held, s.going, s.bound, s.ended = predecessors, true, true, true, true }), release},
		{"somebody else's pod", change(vmi, func(s *situation) { s.pod = foreign }), refuse},
		{"no node yet", placed, wait},
		{"a node", change(placed, func(s *situation) { s.bound = true }), introduce},
		{"the GuestPod of a predecessor", change(placed, func(s *situation) { s.bound, s.toldOther = true, true }), withdraw},
		{"no facts yet", change(placed, func(s *situation) { s.bound, s.told = true, true }), wait},
		{"facts", change(placed, func(s *situation) { s.bound, s.told, s.facts = true, true, true }), equip},
		{"the guest runs", running, wait},
		{"its pod is deleted with force", change(running, func(s *situation) { s.going = true }), wait},
		{"and its node is off", change(running, func(s *situation) { s.going, s.out = true, true }), finish},
		{"the node is off, and the pod is not deleted", change(running, func(s *situation) { s.out = true }), wait},
		{"the pod has ended", change(running, func(s *situation) { s.ended = true }), finish},
		{"and its VMI has its phase", change(running, func(s *situation) { s.ended, s.final = true, true }), release},
		{"and the finalizer is off", change(running, func(s *situation) { s.ended, s.final, s.held = true, true, false }), leave},
		{"the pod is gone", change(running, func(s *situation) { s.pod = nobodys }), finish},
		{"the VMI is deleted", change(running, func(s *situation) { s.deleting = true }), remove},
		{"the guest powers off", change(running, func(s *situation) { s.deleting, s.going = true, true }), wait},
		{"its pod has ended", change(running, func(s *situation) { s.deleting, s.going, s.ended = true, true, true }), finish},
		{"a VMI that is gone: its pod runs", situation{pod: predecessors, held: true, bound: true, going: true}, leave},
		{"and has ended", situation{pod: predecessors, held: true, bound: true, going: true, ended: true}, release},
		{"a VMI of a bare machine", change(vmi, func(s *situation) { s.kilns, s.deleting = false, true }), leave},
	} {
		if got := decide(c.s); got != c.want {
			t.Errorf("%s: step %d, want %d", c.why, got, c.want)
		}
	}
}
