package corpus

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/test/changes"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// legalElsewhere are tried beside hostile values: values that some leaves take.
var legalElsewhere = []any{
	false, int64(1), int64(3), int64(100), "1Gi", "3Mi", "5Pi", "virtio", "sata", "ü", "q35", "amd64", "arm64", "s390x", "none", "10.0.0.1", "default",
}

// together are the rules that may refuse one change together, with the reason: each names another field that is wrong because of it.
var together = []struct {
	why string
	// leaf is the end of the path of the leaf that was changed; empty for any.
	leaf string
	// rules are nil for all.
	rules []string
}{
	{"another architecture lacks more than one thing that the guest has", "spec architecture", nil},
	{"a default's bus lacks each of the things that the disk asks for, and the user may do without any of them", "disk bus",
		[]string{"disks/sata-readonly", "disks/pci-bus", "disks/dedicated-iothread", "disks/block-size-sata"}},
	{"a disk and a table refer to the volume that lost its name", "name", []string{"disks/disk-volume", "firmware/acpi-volume"}},
	{"a network and a device refer to the claim that lost its name", "name", []string{"networks/claim-undeclared", "hostdevices/claim-undeclared"}},
	{"three enlightenments need the one that is off, and each can be off, too", "vpindex enabled", []string{"features/hyperv-needs"}},
}

// TestOneMistakeHasOneCause: a legal object of which one leaf is changed is refused for one reason.
func TestOneMistakeHasOneCause(t *testing.T) {
	t.Parallel()
	found := counted{together: make([]bool, len(together)), seen: map[string]bool{}}
	for _, s := range slices.Concat(subjects(t), rich(t)) {
		_, verdict := stage1(s)
		if !verdict.Allowed() {
			continue
		}
		object, err := generic(s.sent())
		if err != nil {
			t.Fatal(err)
		}
		root, _ := object.(map[string]any)
		changes.Each(root, "spec", legalElsewhere, func(c changes.Single) {
			changed := subject{name: s.name, raw: []byte(text(c.Object)), in: s.in}
			if err := changed.read(s.vm != nil); err == nil { // else the webhook's decoder refuses it, in one cause
				found.try(t, c, changed, verdict)
			}
		})
	}
	t.Logf("%d changes tried, %d refused", found.tried, found.refused)
	if found.refused < 5000 || found.tried-found.refused < 2000 {
		t.Errorf("%d of %d changes are refused: the samples or their changes test nothing", found.refused, found.tried)
	}
	for i, group := range together {
		if !found.together[i] {
			t.Errorf("no change is refused for several reasons because %s", group.why)
		}
	}
}

// counted is what became of the changes that were tried.
type counted struct {
	tried, refused int
	together       []bool
	seen           map[string]bool // findings, each of which is reported once
}

// try judges an object with one change. before is the verdict without the change.
func (n *counted) try(t *testing.T, change changes.Single, changed subject, before admit.Verdict) {
	t.Helper()
	_, verdict := stage1(changed)
	n.tried++
	if len(verdict.Errors) == 0 {
		return
	}
	n.refused++
	if _, again := stage1(changed); !slices.Equal(messages(verdict), messages(again)) {
		t.Errorf("%s with %s: two runs say\n%q\n%q", changed.name, change.What, messages(verdict), messages(again))
	}
	if len(verdict.Errors) > 1 && !n.listed(change, verdict.Errors) {
		n.report(t, verdict.Errors, "%s with %s: several causes:\n%s", changed.name, change.What, strings.Join(messages(admit.Verdict{Errors: verdict.Errors}), "\n"))
	}
	if len(verdict.Warnings) > len(before.Warnings) && !strings.Contains(change.What, "spec architecture]") {
		n.report(t, verdict.Errors, "%s with %s: %v, and it is warned of:\n%s", changed.name, change.What, verdict.Errors[0], strings.Join(verdict.Warnings, "\n"))
	}
}

// report fails the test once for each set of rules.
func (n *counted) report(t *testing.T, errs field.ErrorList, format string, args ...any) {
	t.Helper()
	var rules strings.Builder
	for _, err := range errs {
		rules.WriteString(" " + err.Origin)
	}
	if !n.seen[format+rules.String()] {
		t.Errorf(format+"\nrules:%s", append(args, &rules)...)
	}
	n.seen[format+rules.String()] = true
}

// listed reports whether all errors are of rules that may refuse such a change together, each at a field of its own.
func (n *counted) listed(change changes.Single, errs field.ErrorList) bool {
	fields := map[string]bool{}
	for _, err := range errs {
		fields[err.Field] = true
	}
	for i, group := range together {
		leaf, _, _ := strings.Cut(change.What, "]")
		if len(fields) == len(errs) && strings.HasSuffix(leaf, group.leaf) &&
			!slices.ContainsFunc(errs, func(err *field.Error) bool { return group.rules != nil && !slices.Contains(group.rules, err.Origin) }) {
			n.together[i] = true
			return true
		}
	}
	return false
}

// rich are VMs whose guests have every field of the API, in a cluster that allows everything.
func rich(t *testing.T) (found []subject) {
	t.Helper()
	paths, err := filepath.Glob("../fields/guests/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no guests: %v", err)
	}
	guests := map[string][]byte{"pods": changes.OfPods}
	for _, path := range paths {
		if guests[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, raw := range guests {
		var vmi map[string]any
		if err := yaml.Unmarshal(raw, &vmi); err != nil {
			t.Fatal(err)
		}
		metadata, _ := vmi["metadata"].(map[string]any)
		delete(metadata, "name")
		vm := map[string]any{
			"metadata": map[string]any{"name": "guest", "namespace": namespace},
			"spec":     map[string]any{"runStrategy": "Always", "template": map[string]any{"metadata": metadata, "spec": vmi["spec"]}},
		}
		s := subject{name: name, raw: []byte(text(vm)), in: admit.Input{Cluster: generous()}}
		if err := s.read(true); err != nil {
			t.Fatal(err)
		}
		if _, verdict := stage1(s); !verdict.Allowed() {
			t.Fatalf("%s: %v", name, verdict.Errors.ToAggregate())
		}
		found = append(found, s)
	}
	return found
}
