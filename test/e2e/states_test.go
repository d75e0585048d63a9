package e2e

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	v1 "kubevirt.io/api/core/v1"
)

// states returns what 'kubectl kiln states' says of a VM.
func (s space) states(name string) (list []guestdiff.State) {
	s.Helper()
	listed(s, s.must(s.kiln("states", "vm/"+name, "-o", "json")).stdout, &list)
	if len(list) != 5 {
		s.Fatalf("%d states: %+v", len(list), list)
	}
	return list
}

// TestStates: template and VMI of a VM that was just started are the same hardware, and an edit is a difference of the VMI.
func TestStates(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", running...))
	s.guest("demo", "")
	s.phase("demo", v1.Running)
	states := s.states("demo")
	template, vmi := states[0], states[2]
	if template.Digest == "" || template.Digest != vmi.Digest || template.Time == nil || vmi.Time == nil || vmi.Cause != "made from generation 1 of the VM" {
		t.Errorf("the template is %+v, the VMI %+v", template, vmi)
	}
	if states[1].Digest != "" || states[1].Cause != "the VM has not run yet" { // no launcher runs the guests of these tests
		t.Errorf("the record is %+v", states[1])
	}
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge",
		`-p={"spec":{"template":{"spec":{"domain":{"devices":{"watchdog":{"name":"dog","i6300esb":{}}}}}}}}`))
	if states = s.states("demo"); states[0].Digest == vmi.Digest || states[2].Digest != vmi.Digest || len(states[2].Changes) == 0 {
		t.Errorf("after the edit the template is %+v, the VMI %+v", states[0], states[2])
	}
	table := s.must(s.kiln("states", "vm/demo")).stdout
	for _, line := range []string{"generation 2 of the VM", "made from generation 1 of the VM", "1 template differs from 3 vmi: needs restart",
		"watchdog 'dog' is added"} {
		if !strings.Contains(table, line) {
			t.Errorf("no '%s' in\n%s", line, table)
		}
	}
	if xml := s.must(s.kiln("states", "vm/demo", "--state", "3", "-o", "xml")).stdout; !strings.Contains(xml, "<domain ") || strings.Contains(xml, "<watchdog ") {
		t.Errorf("the domain of the VMI is\n%s", xml)
	}
	if byVMI := s.must(s.kiln("states", "vmi/demo")).stdout; byVMI != table {
		t.Errorf("by its VMI\n%s, by the VM\n%s", byVMI, table)
	}
	for want, args := range map[string][]string{
		"--state 5 is not supported":           {"vm/demo", "--state", "5"},
		"the state has no such document":       {"vm/demo", "--state", "2"},
		"-o xml prints one state":              {"vm/demo", "-o", "xml"},
		"leave out -o json":                    {"vm/demo", "--state", "1", "-o", "json"},
		`virtualmachines.kubevirt.io "absent"`: {"vm/absent"},
	} {
		if result := s.kiln(append([]string{"states"}, args...)...); s.status(result) != 2 || !strings.Contains(result.stderr, want) {
			t.Errorf("states %q: %+v, want '%s'", args, result, want)
		}
	}
}
