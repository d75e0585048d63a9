// Package tutorials runs the commands of docs/tutorials in a real shell, with real programs, in the cluster that a page is for.
package tutorials

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/installation"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/objects"
	"github.com/kilnvm/kiln/test/page"
	"github.com/kilnvm/kiln/test/poll"
)

const (
	besidePage = "../../docs/tutorials/beside-kubevirt.md"
	// earlier is the other version of the page: the first commit with all that the page uses.
	earlier = "8b81ffee"
	// startTimeout bounds the start of the cluster. KubeVirt's programs take ten minutes where they must be built.
	startTimeout = 30 * time.Minute
)

// versions are the commits of the versions that the page names. The page installs this tree, goes on to the other commit and comes back: so all steps but one
// are steps of this tree, and Kiln moves in both directions.
var versions = map[string]string{"0.1.0": "", "0.2.0": earlier}

// besideSteps are the sections of the page, with how much of Kiln is in the cluster at their end.
var besideSteps = []struct {
	section string
	kiln    objects.Presence
}{
	{"Audit a dump", objects.Gone},
	{"Shadow mode", objects.Present},
	{"Mend", objects.Present},
	{"Enforce one namespace", objects.Present},
	{"Enforce everywhere", objects.Present},
	{"Upgrade", objects.Present},
	{"Way back", objects.Present},
	{"Remove Kiln", objects.Removed},
}

// TestBesideKubeVirt runs the commands of docs/tutorials/beside-kubevirt.md in a cluster with KubeVirt and VMS=500 VMs, half of which run, while somebody
// creates, edits and deletes VMs. No write fails that KubeVirt takes, no guest restarts, and no object of the cluster changes but as the page and
// docs/explanation/beside-kubevirt.md say. What stays is what the page lists. virt-api and virt-controller are real, Kiln is of its images in pods of a real
// node, and the nodes of guests are played.
func TestBesideKubeVirt(t *testing.T) {
	nightly.Only(t)
	node.Require(t)
	if out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "cat-file", "-e", earlier+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("the repository has no commit %s to move to: %v %s", earlier, err, out)
	}
	u := newOperator(t)
	u.makeVMs(nightly.Number(t, "VMS", 500))
	u.settle()
	u.writer = startWriter(t, u.on)
	ran := 1 // the variables
	for _, step := range besideSteps {
		began, before := time.Now(), u.writer.count()
		u.kiln = step.kiln
		scripts, _ := page.Walk(t, page.Blocks(t, besidePage, step.section), u.run, u.check)
		ran += scripts
		made := u.writer.count() - before
		if made == 0 {
			t.Errorf("nothing was created during '%s'", step.section)
		}
		if t.Failed() {
			t.FailNow()
		}
		t.Logf("%s: %s, meanwhile %d creates", step.section, time.Since(began).Round(time.Second), made)
	}
	u.writer.end()
	u.leaves()
	text, err := os.ReadFile(besidePage)
	if all := strings.Count(string(text), "```sh\n"); err != nil || ran != all {
		t.Errorf("%d of the page's %d scripts ran, %v", ran, all, err)
	}
}

// operator follows the page.
type operator struct {
	*testing.T
	node *node.Node
	on   *cluster.Beside
	dir  string // the folder of the commands
	env  []string
	// variables are the first commands of the page, which set them.
	variables string
	// output is what the last command has printed.
	output string
	before objects.Objects
	kiln   objects.Presence
	writer *writer
}

// newOperator starts a node and a KubeVirt in its cluster, and makes the folder of the page, with the sources of both versions, whose images the node has.
func newOperator(t *testing.T) *operator {
	t.Helper()
	dir, err := cluster.Dir("kiln-tutorials")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	u := &operator{T: t, node: node.Start(t, node.Options{}), dir: filepath.Join(dir, "work"),
		variables: strings.ReplaceAll(page.Blocks(t, besidePage, "Before you begin")[0].Text, "registry.example.org/", "")}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	u.on, err = cluster.StartKubeVirt(ctx, cluster.Options{Root: root, Dir: dir, Kubeconfig: u.node.Kubeconfig(), Progress: os.Stderr,
		Expose: func(port int) error { return u.node.Forward(t.Context(), port) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(installation.Logs(context.Background(), u.node))
		}
		if err := u.on.Close(); err != nil {
			t.Error(err)
		}
	})
	for version, commit := range versions {
		u.unpack(ctx, root, version, commit)
	}
	u.env = append(os.Environ(), "KUBECONFIG="+u.node.Kubeconfig(),
		"PATH="+strings.Join([]string{u.node.Programs, filepath.Dir(u.on.Program("kubectl-kiln")), os.Getenv("PATH")}, ":"))
	return u
}

// unpack makes the folder of a version, and imports its image into the node, as a registry would.
func (u *operator) unpack(ctx context.Context, root, version, commit string) {
	u.Helper()
	sources, scratch := filepath.Join(u.dir, "kiln-"+version), u.TempDir()
	var err error
	if commit == "" {
		err = errors.Join(os.MkdirAll(u.dir, 0o700), os.Symlink(root, sources))
	} else {
		err = cluster.Export(ctx, root, commit, sources)
	}
	if err != nil {
		u.Fatal(err)
	}
	archives, err := installation.WriteImages(ctx, sources, scratch, version, "kiln")
	if err != nil {
		u.Fatal(err)
	}
	for _, archive := range archives {
		if err := u.node.ImportImage(ctx, archive); err != nil {
			u.Fatal(err)
		}
	}
}

// run runs a script in the folder. Its first command that fails ends it. A script of dry runs is repeated until Kiln has judged each VM: on a busy machine it
// may not answer within the second after which the API server admits a VM without judgement.
func (u *operator) run(script string) (output string, status int) {
	u.Helper()
	poll.Until(2*time.Minute, func() bool {
		output, status = u.runOnce(script)
		return strings.Count(output, "must not be negative") == strings.Count(script, "--dry-run=server") || !strings.Contains(script, "--dry-run=server")
	})
	u.output = output
	return output, status
}

func (u *operator) runOnce(script string) (output string, status int) {
	u.Helper()
	command := exec.CommandContext(u.Context(), "sh", "-eu", "-c", u.variables+script)
	command.Dir, command.Env = u.dir, u.env
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		u.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

// objects reads all objects of the cluster, except the writer's.
func (u *operator) objects() objects.Objects {
	u.Helper()
	all, err := objects.Read(func(args ...string) (string, error) { return u.node.Kubectl(u.Context(), args...) })
	if err != nil {
		u.Fatal(err)
	}
	maps.DeleteFunc(all, func(key string, object *unstructured.Unstructured) bool {
		owner := metav1.GetControllerOf(object)
		return strings.Contains(key, written) || owner != nil && strings.HasPrefix(owner.Name, written)
	})
	return all
}

// settle waits until nothing changes any more.
func (u *operator) settle() {
	u.Helper()
	u.before = u.objects()
	if !poll.Until(5*time.Minute, func() bool {
		was := u.before
		u.before = u.objects()
		return len(was.Differences(u.before, objects.Gone)) == 0
	}) {
		u.Fatal("the objects of KubeVirt change without end")
	}
}

// check compares the cluster with what it was, after a script. A difference that the script itself made becomes a part of what was.
func (u *operator) check(script string) {
	u.Helper()
	now := u.objects()
	for mark, keys := range map[string][]string{
		"kubectl patch vm":        {"VirtualMachine shop/till", "VirtualMachine shop/stock", "VirtualMachine lab/render"},
		"kubectl label namespace": {"Namespace /shop"},
	} {
		if !strings.Contains(script, mark) {
			continue
		}
		for _, key := range keys {
			if len(objects.Objects{key: u.before[key]}.Differences(objects.Objects{key: now[key]}, u.kiln)) != 1 {
				u.Errorf("the script has not changed %s:\n%s", key, script)
			}
			u.before[key] = now[key]
		}
	}
	left := u.before.Differences(now, u.kiln)
	if u.kiln == objects.Removed { // pods end after what made them
		poll.Until(2*time.Minute, func() bool {
			left = u.before.Differences(u.objects(), u.kiln)
			return len(left) == 0
		})
	}
	for _, difference := range left[:min(len(left), 10)] {
		u.Errorf("after\n%s\n%s", script, difference)
	}
	if failed := u.writer.failures(); len(failed) > 0 {
		u.Errorf("%d writes of VMs have failed until the end of\n%s\nthe first: %s", len(failed), script, failed[0])
	}
	if refused := u.on.Refused(); len(refused) > 0 {
		u.Errorf("nodes' components were refused: %v", refused)
	}
}

// leaves compares what Kiln has left with what the last command of the page has printed.
func (u *operator) leaves() {
	u.Helper()
	now := u.objects()
	for _, difference := range u.before.Differences(now, objects.Removed) {
		u.Error(difference)
	}
	var left []string
	for _, object := range u.before.New(now) {
		// The API server makes an APIService of definitions; each namespace has an account and a ConfigMap.
		if object.GetKind() == "APIService" || object.GetNamespace() == "kiln-system" {
			continue
		}
		group, _, grouped := strings.Cut(object.GetAPIVersion(), "/")
		if !grouped {
			group = ""
		}
		left = append(left, strings.TrimSuffix(strings.ToLower(object.GetKind())+"."+group, ".")+"/"+object.GetName())
	}
	slices.Sort(left)
	if listed := strings.Split(strings.TrimSpace(u.output), "\n"); !slices.Equal(left, listed) {
		u.Errorf("the page lists\n%s\nand there are\n%s", strings.Join(listed, "\n"), strings.Join(left, "\n"))
	}
	u.Logf("%d objects are as they were; %d creates, %d edits and %d deletions of VMs, none failed; a create took %s at most",
		len(u.before), u.writer.created, u.writer.edited, u.writer.deleted, u.writer.longest.Round(time.Millisecond))
}
