package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/samples"
)

// summary is a change in one line for each of its facts.
func summary(d Difference) (lines []string) {
	for _, c := range d.Changes {
		lines = append(lines, fmt.Sprintf("%s %s: %s, %s", c.Name, c.Action, cmp2(string(c.Verdict), "no verdict"), c.Step))
		for _, f := range c.Fields {
			lines = append(lines, fmt.Sprintf("  %s: %s -> %s", f.Path, cmp2(f.Before, "none"), cmp2(f.After, "none")))
		}
		for _, s := range c.Seen {
			lines = append(lines, fmt.Sprintf("  sees: %s (%s)", s.Text, strings.Join(s.With, ", ")))
		}
		for _, r := range c.Refusals {
			lines = append(lines, fmt.Sprintf("  refused: %s (%s)", r.Reason, strings.Join(r.With, ", ")))
		}
	}
	return lines
}

func cmp2(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func TestCompare(t *testing.T) {
	larger := changed(changed(small, "memory: 4Gi", "memory: 8Gi"), "{guest: 4Gi}", "{guest: 8Gi}")
	for _, test := range []struct {
		why           string
		before, after []string
		verdict       record.Verdict
		step          Step
		want          []string
	}{
		{"the same", []string{small, linux}, []string{linux, small}, record.Compatible, Unchanged, nil},
		{"an object more", []string{small}, []string{small, linux}, record.Compatible, Minor, []string{"linux added: no verdict, minor"}},
		{"an object less", []string{small, linux}, []string{small}, record.Compatible, Major, []string{"linux removed: no verdict, major"}},
		{"what nobody could name any more", []string{small, changed(linux, "linux}", "linux, labels: {kilnvm.io/lifecycle: obsolete}}")}, []string{small},
			record.Compatible, Minor, []string{"linux removed: no verdict, minor"}},
		{"words", []string{linux}, []string{changed(linux, "linux}", "linux, annotations: {openshift.io/display-name: Linux}}")}, record.Compatible, Patch,
			[]string{"linux changed: no verdict, patch", `  metadata.annotations[openshift.io/display-name]: none -> "Linux"`}},
		{"what a tool wrote", []string{linux}, []string{changed(linux, "linux}", "linux, labels: {app.kubernetes.io/managed-by: Helm}}")},
			record.Compatible, Unchanged, nil},
		{"deprecated", []string{linux}, []string{changed(linux, "linux}", "linux, labels: {kilnvm.io/lifecycle: deprecated}}")}, record.Compatible, Minor,
			[]string{"linux changed: no verdict, minor", `  metadata.labels[kilnvm.io/lifecycle]: none -> "deprecated"`}},
		{"obsolete", []string{linux}, []string{changed(linux, "linux}", "linux, labels: {kilnvm.io/lifecycle: obsolete}}")}, record.Compatible, Major,
			[]string{"linux changed: no verdict, major", `  metadata.labels[kilnvm.io/lifecycle]: none -> "obsolete"`}},
		{"another form of one amount", []string{small}, []string{changed(small, "{guest: 4Gi}", "{guest: 4096Mi}")}, record.Compatible, Unchanged, nil},
		{"more memory", []string{small, linux}, []string{larger, linux}, record.NeedsRestart, Minor, []string{
			"small changed: needs restart, minor", `  metadata.labels[instancetype.kubevirt.io/memory]: "4Gi" -> "8Gi"`, `  spec.memory.guest: "4Gi" -> "8Gi"`,
			"  sees: the memory changes from '4 GiB' to '8 GiB' (no preference, linux)",
			"  sees: the NUMA nodes change from 'CPUs 0-7 with 4 GiB' to 'CPUs 0-7 with 8 GiB' (no preference, linux)"}},
		{"nothing that a guest sees", []string{linux, small}, []string{linux, changed(small, "spec: {", "spec: {schedulerName: other, ")}, record.Compatible, Patch,
			[]string{"small changed: compatible, patch", `  spec.schedulerName: none -> "other"`}},
		{"another bus", []string{small, linux}, []string{small, changed(linux, "virtio", "scsi")}, record.Breaks, Major, nil},
		{"it requires more than there is", []string{small, needing("2", "1Gi")}, []string{small, needing("3", "1Gi")}, Refused, Major, []string{
			"needing changed: refused, major", `  metadata.labels[instancetype.kubevirt.io/required-cpu]: "2" -> "3"`, "  spec.requirements.cpu.guest: 2 -> 3",
			"  refused: spec.instancetype: VirtualMachineClusterInstancetype 'just-enough' has 2 vCPUs, and " +
				"VirtualMachineClusterPreference 'needing' requires 3 vCPUs: " +
				"choose a larger instancetype, or another preference (just what it required)",
			"  refused: spec.instancetype: VirtualMachineClusterInstancetype 'small' has 2 vCPUs, and VirtualMachineClusterPreference 'needing' requires 3 vCPUs: " +
				"choose a larger instancetype, or another preference (small)"}},
		{"it requires no more than there was", []string{small, needing("3", "1Gi")}, []string{small, needing("2", "1Gi")}, record.Compatible, Patch, []string{
			"needing changed: compatible, patch", `  metadata.labels[instancetype.kubevirt.io/required-cpu]: "3" -> "2"`, "  spec.requirements.cpu.guest: 3 -> 2"}},
		{"in a namespace", []string{ofNamespace("shop"), inNamespace(linux, "yard")}, []string{changed(ofNamespace("shop"), "{guest: 4Gi}", "{guest: 8Gi}"),
			inNamespace(linux, "yard")}, record.NeedsRestart, Minor,
			[]string{"small changed: needs restart, minor", `  spec.memory.guest: "4Gi" -> "8Gi"`, "  sees: the memory changes from '4 GiB' to '8 GiB' (no preference)",
				"  sees: the NUMA nodes change from 'CPUs 0-7 with 4 GiB' to 'CPUs 0-7 with 8 GiB' (no preference)"}},
	} {
		d := Compare(objects(t, test.before...), objects(t, test.after...), noon)
		if d.Verdict != test.verdict || d.Step != test.step {
			t.Errorf("%s: %s, %s; want %s, %s\n%s", test.why, d.Verdict, d.Step, test.verdict, test.step, strings.Join(summary(d), "\n"))
		}
		if diff := cmp.Diff(test.want, summary(d)); diff != "" && (test.want != nil || len(d.Changes) == 0) {
			t.Errorf("%s: -want +got\n%s", test.why, diff)
		}
	}
}

const twoCores = `
kind: p
metadata: {name: two}
spec: {cpu: {preferredCPUTopology: cores}}`

// TestChangesTogether: four threads of one core are refused on dedicated CPUs. Each of both changes alone is not.
func TestChangesTogether(t *testing.T) {
	four := changed(changed(small, `"2"`, `"4"`), "guest: 2", "guest: 4")
	before := objects(t, four, twoCores)
	after := objects(t, changed(four, "guest: 4}", "guest: 4, dedicatedCPUPlacement: true}"), changed(twoCores, "cores", "threads"))
	for _, alone := range [][]*Object{{after[0], before[1]}, {before[0], after[1]}} {
		if d := Compare(before, alone, noon); d.Verdict == Refused {
			t.Errorf("one change alone: %v", summary(d))
		}
	}
	d := Compare(before, after, noon)
	if d.Verdict != Refused || d.Step != Major || !slices.Equal(d.Changes[0].Refusals[0].With, []string{"two as it becomes"}) {
		t.Errorf("both changes: %s, %v", d.Verdict, summary(d))
	}
}

const amd64 = `
kind: p
metadata: {name: amd64}
spec: {preferredArchitecture: amd64, devices: {preferredDiskBus: virtio}}`

// TestAddressesStay: a VM that takes a new version has the record of its old hardware, so that a device more moves nothing.
func TestAddressesStay(t *testing.T) {
	d := Compare(objects(t, small, amd64), objects(t, small, changed(amd64, "preferredDiskBus: virtio", "preferredDiskBus: virtio, preferredTPM: {}")), noon)
	if d.Verdict != record.NeedsRestart || len(d.Changes[0].Seen) == 0 {
		t.Errorf("%s: %v", d.Verdict, summary(d))
	}
	for _, seen := range d.Changes[0].Seen {
		if strings.Contains(seen.Text, "moves") || !strings.Contains(seen.Text, "tpm") {
			t.Errorf("a TPM more: %s", seen.Text)
		}
	}
}

// TestCompareCatalogs: a catalog differs in nothing from itself, and one edit of every object is judged with all others.
func TestCompareCatalogs(t *testing.T) {
	for _, set := range samples.Sets(t) {
		before, after := whole(t, set), whole(t, set)
		if d := Compare(before, after, noon); d.Verdict != record.Compatible || d.Step != Unchanged || len(d.Changes) > 0 || d.Same != len(before) {
			t.Errorf("%s differs from itself: %v", set.Name, summary(d))
		}
		edited := 0
		for _, o := range after {
			if o.Instancetype != nil && edited < 3 {
				edited++
				o.Instancetype.Memory.Guest.Add(o.Instancetype.Memory.Guest)
			}
		}
		d := Compare(before, after, noon)
		if d.Verdict != record.NeedsRestart || len(d.Changes) != edited || d.Step != Minor {
			t.Errorf("%s: %s, %d changes: %v", set.Name, d.Verdict, len(d.Changes), summary(d))
		}
		for _, c := range d.Changes {
			if c.Tried < 2 || c.Untried > 0 || len(c.Refusals) > 0 {
				t.Errorf("%s: %s was tried with %d others, and not with %d: %v", set.Name, c.Name, c.Tried, c.Untried, c.Refusals)
			}
		}
	}
}

// TestManyChanges: thousands of changes end within the bound, and say what was not tried.
func TestManyChanges(t *testing.T) {
	const each, most = 1500, 300
	models := objects(t, small, linux)
	var before, after []*Object
	for i := range each {
		for _, model := range models {
			was := *model
			was.Name = fmt.Sprintf("%s.%d", model.Name, i)
			is := was
			if was.Instancetype != nil {
				is.Instancetype = was.Instancetype.DeepCopy()
				is.Instancetype.CPU.Guest = 4
			} else {
				is.Preference = was.Preference.DeepCopy()
				is.Preference.Annotations = map[string]string{"a": "b"}
			}
			before, after = append(before, &was), append(after, &is)
		}
	}
	c := newComparison(before, after, Settings{Cluster: config.Default()})
	d := c.compareAll(most)
	tried, untried := 0, 0
	for _, change := range d.Changes {
		tried += change.Tried
		untried += change.Untried
		if change.Verdict == "" && (change.Step != Major || change.Untried == 0) {
			t.Fatalf("not judged, and yet %s: %+v", change.Step, change)
		}
	}
	if c.trials.left < -4 || tried == 0 || untried == 0 || d.Step != Major || len(d.Changes) != 2*each {
		t.Errorf("%d trials left, %d tried, %d not: %s of %d changes", c.trials.left, tried, untried, d.Step, len(d.Changes))
	}
}
