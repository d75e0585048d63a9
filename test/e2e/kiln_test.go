package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/samples"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kiln runs the kubectl plugin in the namespace of the test.
func (s space) kiln(args ...string) answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	stdout, stderr, err := s.on.Kiln(ctx, "", append([]string{args[0], "-n", s.name}, args[1:]...)...)
	return answer{stdout, stderr, err}
}

// status is the exit status of a command.
func (s space) status(a answer) int {
	s.Helper()
	exit, failed := a.err.(*exec.ExitError)
	if a.err != nil && !failed {
		s.Fatal(a.err)
	}
	if failed {
		return exit.ExitCode()
	}
	return 0
}

// own is a VM with an instancetype of its namespace, which a test may edit.
func own(name string) string {
	return vm(name, "instancetype: {name: small}", "instancetype: {name: own, kind: VirtualMachineInstancetype}")
}

const ownSize = `{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: own}, spec: {cpu: {guest: 1}, ` +
	`memory: {guest: 1Gi}}}`

type usage struct {
	Revision, Kind, State string
	VirtualMachines       []string
}

// listed reads the items of a list that 'kubectl kiln -o json' has printed.
func listed(s space, out string, items any) {
	s.Helper()
	var list struct{ Items json.RawMessage }
	if err := errors.Join(json.Unmarshal([]byte(out), &list), json.Unmarshal(list.Items, items)); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
}

func (s space) usages() map[string]usage {
	s.Helper()
	var list []usage
	listed(s, s.must(s.kiln("revisions", "-o", "json")).stdout, &list)
	byName := map[string]usage{}
	for _, u := range list {
		byName[u.Revision] = u
	}
	return byName
}

func TestRepinAndRevisions(t *testing.T) {
	s := newSpace(t)
	s.create(ownSize)
	s.create(own("web"))
	s.create(own("other"))
	first := pins(t, s.get("vm", "web"))
	if u := s.usages()[first["instancetype"]]; u.State != "current" || !cmp.Equal(u.VirtualMachines, []string{"other", "web"}) {
		t.Errorf("the size's revision: %+v, want it current and used by both", u)
	}

	s.must(s.kubectl("", "patch", "virtualmachineinstancetype", "own", "--type=merge", "-p", `{"spec":{"memory":{"guest":"2Gi"}}}`))
	if u := s.usages()[first["instancetype"]]; u.State != "outdated" || len(u.VirtualMachines) != 2 {
		t.Errorf("after the size was edited: %+v, want it outdated and still used", u)
	}

	dry := s.must(s.kiln("repin", "vm/web", "--dry-run"))
	for _, text := range []string{"instancetype: " + first["instancetype"] + " -> own-", "preference: " + first["preference"] + ", unchanged",
		"the memory changes from '1 GiB' to '2 GiB'"} {
		if !strings.Contains(dry.stdout, text) {
			t.Errorf("the dry run does not say '%s':\n%s", text, dry.stdout)
		}
	}
	if diff := cmp.Diff(first, pins(t, s.get("vm", "web"))); diff != "" {
		t.Errorf("a dry run has changed the pins:\n%s", diff)
	}

	s.must(s.kiln("repin", "vm/web", "--preference"))
	if diff := cmp.Diff(first, pins(t, s.get("vm", "web"))); diff != "" {
		t.Errorf("the preference was not edited, and the size not asked for:\n%s", diff)
	}
	var answers [1]struct {
		Instancetype struct{ Before, After string }
		Difference   struct{ Verdict string }
	}
	listed(s, s.must(s.kiln("repin", "vm/web", "-o", "json")).stdout, &answers)
	answer := answers[0]
	second := pins(t, s.get("vm", "web"))
	if second["instancetype"] == first["instancetype"] || answer.Instancetype.Before != first["instancetype"] ||
		answer.Instancetype.After != second["instancetype"] || answer.Difference.Verdict != "needs restart" {
		t.Errorf("repinned from %v to %v, said %+v", first, second, answer)
	}
	used := s.usages()
	if u := used[second["instancetype"]]; u.State != "current" || !cmp.Equal(u.VirtualMachines, []string{"web"}) {
		t.Errorf("the new revision: %+v", u)
	}
	if u := used[first["instancetype"]]; u.State != "outdated" || !cmp.Equal(u.VirtualMachines, []string{"other"}) {
		t.Errorf("the old revision: %+v", u)
	}
}

func TestRepinRefuses(t *testing.T) {
	s := newSpace(t)
	s.create(ownSize)
	s.create(own("web"))
	s.create(vm("bare", "  instancetype: {name: small}\n", "", "  preference: {name: linux.sample}\n", "", "domain:",
		"domain:\n        memory: {guest: 1Gi}"))
	before := pins(t, s.get("vm", "web"))
	if got := s.kiln("repin", "vm/bare", "--instancetype"); s.status(got) != 2 || !strings.Contains(got.stderr, "no instancetype to pin") {
		t.Errorf("a VM without a size has none to pin: %v %s", got.err, got.stderr)
	}
	s.must(s.kiln("repin", "vm/bare")) // its presets, and the configuration of the cluster
	s.must(s.kubectl("", "delete", "virtualmachineinstancetype", "own"))
	if got := s.kiln("repin", "vm/web"); s.status(got) == 0 || !strings.Contains(got.stderr, "'own'") {
		t.Errorf("a VM must not lose its size because that is gone: %v\n%s%s", got.err, got.stdout, got.stderr)
	}
	if diff := cmp.Diff(before, pins(t, s.get("vm", "web"))); diff != "" {
		t.Errorf("the pins have changed:\n%s", diff)
	}
	if u := s.usages()[before["instancetype"]]; u.State != "gone" {
		t.Errorf("the revision of a size that is gone: %+v", u)
	}
}

// TestDiffAgainstTheCluster: a manifest that says nothing of pins is judged with those that the VM has.
func TestDiffAgainstTheCluster(t *testing.T) {
	s := newSpace(t)
	s.create(ownSize)
	s.create(own("web"))
	s.must(s.kubectl("", "patch", "virtualmachineinstancetype", "own", "--type=merge", "-p", `{"spec":{"memory":{"guest":"2Gi"}}}`))
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(own("web"))
	if got := s.kiln("diff", "vm/web", file); s.status(got) != 0 || got.stdout != "compatible\n" {
		t.Errorf("its own manifest: %v\n%s%s", got.err, got.stdout, got.stderr)
	}
	write(strings.NewReplacer("disks: [", "disks: [{name: new}, ", "volumes: [", "volumes: [{name: new, emptyDisk: {capacity: 1Gi}}, ").Replace(own("web")))
	if got := s.kiln("diff", "vm/web", file); s.status(got) != 3 || !strings.HasPrefix(got.stdout, "needs restart\n") || strings.Contains(got.stdout, "memory") {
		t.Errorf("one disk more, and no other memory: %v\n%s%s", got.err, got.stdout, got.stderr)
	}
	if got := s.must(s.kiln("explain", "vm/web")); !strings.Contains(got.stdout, "instancetype own@"+shortened(pins(t, s.get("vm", "web"))["instancetype"])+"\n") {
		t.Errorf("explain does not name the pinned revision:\n%s", got.stdout)
	}
}

// TestOfflineVerdictsOfExamples: 'kubectl kiln validate' says of each example, and of each manifest that people know, what
// 'kubectl create' does.
func TestOfflineVerdictsOfExamples(t *testing.T) {
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) { offlineVerdictsOf(t, set) })
	}
}

func offlineVerdictsOf(t *testing.T, set samples.Set) {
	s := newSpace(t)
	files, dir := set.Examples(t), set.Path("examples")
	all := map[string][]unstructured.Unstructured{}
	for _, file := range files {
		all[file] = s.objects(file)
		for _, object := range all[file] {
			s.createSize(object)
		}
	}
	accepted, refused := 0, 0
	for _, file := range files {
		offline := s.judged(file, dir)
		for _, object := range all[file] {
			verdict, ours := offline[object.GetKind()+" "+object.GetName()]
			if !ours {
				continue
			}
			_, online := s.on.WouldCreate(s.Context(), s.in(kindOf(object)), &object)
			switch {
			case apierrors.IsAlreadyExists(online): // sizes, which other examples need
				continue
			case verdict.Allowed != (online == nil):
				t.Errorf("%s: offline allowed %v, the cluster says %v", filepath.Base(file), verdict.Allowed, online)
			case verdict.Allowed:
				accepted++
				continue
			}
			refused++
			for _, cause := range verdict.Causes {
				if online != nil && !strings.Contains(online.Error(), cause.Field) {
					t.Errorf("%s: the cluster does not name %s\n%v", filepath.Base(file), cause.Field, online)
				}
			}
		}
	}
	t.Logf("%d files: %d objects accepted by both, %d refused by both", len(files), accepted, refused)
	if accepted == 0 {
		t.Error("nothing was accepted, so nothing was shown")
	}
}

type offlineVerdict struct {
	Object  string
	Allowed bool
	Causes  []struct{ Field string }
}

// judged are the offline verdicts on the objects of a file, by kind and name.
func (s space) judged(file, catalog string) map[string]offlineVerdict {
	s.Helper()
	config := filepath.Join(s.on.Dir, "configuration.yaml") // what the webhook was started with
	out := s.kiln("validate", "-f", file, "--catalog", catalog, "--config", config, "--runtime", "node", "-o", "json")
	verdicts := map[string]offlineVerdict{}
	if s.status(out) == 2 && strings.Contains(out.stderr, "no object of a kind that Kiln serves") {
		return verdicts
	}
	var all []offlineVerdict
	listed(s, out.stdout, &all)
	for _, v := range all {
		kind, name, _ := strings.Cut(v.Object, " ")
		verdicts[kind+" "+strings.TrimPrefix(name, s.name+"/")] = v
	}
	return verdicts
}
