package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// catalog is a catalog of cluster instancetypes. The name of each begins with a prefix of its test.
type catalog struct {
	space
	name, dir string
}

func newCatalog(t *testing.T) catalog {
	s := newSpace(t)
	c := catalog{space: s, name: s.name[strings.LastIndex(s.name, "-")+1:], dir: t.TempDir()}
	c.name = "c" + c.name
	t.Cleanup(func() {
		_ = s.kubectlAfter("delete", "virtualmachineclusterinstancetype,virtualmachineclusterpreference", "-l", "test="+c.name)
	})
	return c
}

// of returns the name of an instancetype in the cluster, which all tests share.
func (c catalog) of(name string) string { return c.name + "." + name }

// instancetype is one of the catalog.
func (c catalog) instancetype(name, memory string) string {
	return fmt.Sprintf("apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\n"+
		"metadata: {name: %s, labels: {test: %s}}\nspec: {cpu: {guest: 1}, memory: {guest: %s}}\n", c.of(name), c.name, memory)
}

// file writes a version of the catalog.
func (c catalog) file(version string, documents ...string) string {
	c.Helper()
	file := filepath.Join(c.dir, version+".yaml")
	if err := os.WriteFile(file, []byte(strings.Join(documents, "---\n")), 0o600); err != nil {
		c.Fatal(err)
	}
	return file
}

func (c catalog) install(file string, flags ...string) answer {
	c.Helper()
	return c.kiln(append([]string{"catalog", "install", file, "--name", c.name}, flags...)...)
}

// lines are what a command says of the catalog's objects and of the whole, without the digest.
func (c catalog) lines(a answer) (lines []string) {
	c.Helper()
	for line := range strings.Lines(c.must(a).stdout) {
		line = strings.ReplaceAll(strings.TrimSpace(line), c.name, "NAME")
		if before, after, found := strings.Cut(line, " (sha256:"); found {
			_, after, _ = strings.Cut(after, ")")
			line = before + after
		}
		lines = append(lines, strings.NewReplacer("VirtualMachineClusterInstancetype NAME.", "", c.space.name, "SPACE").Replace(line))
	}
	return lines
}

func (c catalog) expect(why string, a answer, want ...string) {
	c.Helper()
	if diff := cmp.Diff(want, c.lines(a)); diff != "" {
		c.Errorf("%s (-want +got)\n%s", why, diff)
	}
}

// refused expects that a command ends with status 1, says these words and writes nothing.
func (c catalog) refused(a answer, words ...string) {
	c.Helper()
	for _, word := range append(words, "nothing is written") {
		if c.status(a) != 1 || !strings.Contains(a.stderr, word) {
			c.Errorf("status %d, want 1 and '%s'\n%s%s", c.status(a), word, a.stdout, a.stderr)
		}
	}
}

// has returns the lifecycle of an instancetype in the cluster, 'active' without one; empty if it does not exist.
func (c catalog) has(name string) string {
	c.Helper()
	found := c.list("virtualmachineclusterinstancetype", "test="+c.name)
	for _, object := range found {
		if object.GetName() != c.of(name) {
			continue
		}
		if state := object.GetLabels()["kilnvm.io/lifecycle"]; state != "" {
			return state
		}
		return "active"
	}
	return ""
}

// A catalog in two versions: what VMs use and the second one drops is obsolete, and no VM changes.
func TestCatalogIsInstalled(t *testing.T) {
	c := newCatalog(t)
	first := c.file("1.0.0", c.instancetype("kept", "128Mi"), c.instancetype("used", "128Mi"), c.instancetype("unused", "128Mi"))
	c.expect("a dry run", c.install(first, "--dry-run"), "kept: created (dry run)", "used: created (dry run)", "unused: created (dry run)",
		"catalog 'NAME' (dry run): 3 created")
	if c.has("kept") != "" {
		t.Error("a dry run has written")
	}
	c.expect("1.0.0", c.install(first), "kept: created", "used: created", "unused: created", "catalog 'NAME': 3 created")
	c.expect("1.0.0 again", c.install(first), "catalog 'NAME': 3 unchanged")
	for vmName, name := range map[string]string{"web": "used", "db": "kept"} {
		c.create(vm(vmName, "{name: small}", "{name: "+c.of(name)+"}"))
	}
	written := func() string { // without the status, which the controller may write meanwhile
		vm := c.get("vm", "web")
		vm.SetResourceVersion("")
		vm.SetManagedFields(nil)
		delete(vm.Object, "status")
		return mustJSON(t, vm)
	}
	c.eventually("the controller has pinned the VM to what admission had not in its cache", func() bool {
		return strings.Contains(c.get("vm", "web").GetAnnotations()[pinsAnnotation], `"configuration":`)
	})
	before := written()

	second := c.file("1.1.0", c.instancetype("kept", "256Mi"), c.instancetype("new", "128Mi"))
	c.expect("1.1.0 dry", c.install(second, "--dry-run"), "kept: updated (spec, version) (dry run); keep their revisions: vm/SPACE/db", "new: created (dry run)",
		"unused: deleted (dry run)", "used: obsolete (dry run); used by vm/SPACE/web", "catalog 'NAME' (dry run): 1 created, 1 updated, 1 obsolete, 1 deleted")
	if c.has("unused") != "active" || c.has("used") != "active" {
		t.Error("a dry run has written")
	}
	c.expect("1.1.0", c.install(second), "kept: updated (spec, version); keep their revisions: vm/SPACE/db", "new: created",
		"unused: deleted", "used: obsolete; used by vm/SPACE/web", "catalog 'NAME': 1 created, 1 updated, 1 obsolete, 1 deleted")
	if c.has("used") != "obsolete" || c.has("unused") != "" {
		t.Errorf("used is '%s', unused '%s'", c.has("used"), c.has("unused"))
	}
	if after := written(); before != after {
		t.Errorf("the VM has changed\n%s", cmp.Diff(before, after))
	}
	if got := pins(t, c.get("vm", "db")); !strings.HasPrefix(got["instancetype"], c.of("kept")+"-") {
		t.Errorf("the VM of what was edited has pins %v", got)
	}
	c.eventually("no new VM may use what is obsolete", func() bool {
		result := c.kubectl(vm("late", "{name: small}", "{name: "+c.of("used")+"}"), "create", "--dry-run=server", "-f", "-")
		return result.err != nil && strings.Contains(result.stderr, "is obsolete")
	})
	c.expect("back to 1.0.0", c.install(first), "kept: updated (spec, version); keep their revisions: vm/SPACE/db", "used: updated (labels)",
		"unused: created", "new: deleted", "catalog 'NAME': 1 created, 2 updated, 1 deleted")
	if c.has("used") != "active" {
		t.Errorf("the version that has it again leaves it '%s'", c.has("used"))
	}

	c.expect("uninstalled", c.kiln("catalog", "uninstall", c.name),
		"kept: obsolete; used by vm/SPACE/db", "unused: deleted", "used: obsolete; used by vm/SPACE/web",
		"catalog 'NAME': 2 obsolete, 1 deleted")
	if after := written(); before != after {
		t.Errorf("the VM has changed\n%s", cmp.Diff(before, after))
	}
	c.must(c.kubectl("", "delete", "vm", "--all", "--timeout=60s"))
	c.expect("uninstalled again", c.kiln("catalog", "uninstall", c.name), "kept: deleted", "used: deleted", "catalog 'NAME': 2 deleted")
	if gone := c.kiln("catalog", "uninstall", c.name); c.status(gone) != 2 || !strings.Contains(gone.stderr, "no catalog '"+c.name+"' is installed") {
		t.Errorf("a third time: %s", gone.stderr)
	}
}

// What belongs to others, or what the API server refuses, keeps everything from being written.
func TestCatalogInConflict(t *testing.T) {
	c := newCatalog(t)
	c.create(c.instancetype("theirs", "64Mi"))
	file := c.file("1.0.0", c.instancetype("new", "128Mi"), c.instancetype("theirs", "128Mi"))
	c.refused(c.install(file), c.of("theirs")+": exists and belongs to no catalog; its fields are managed by 'kubectl-create'")
	if c.has("new") != "" {
		t.Error("half of a refused catalog is installed")
	}
	c.expect("taken over", c.install(file, "--force"), "new: created", "theirs: updated (taken over)", "catalog 'NAME': 1 created, 1 updated")

	// Another field manager changes a field: the API server lists it.
	c.must(c.kubectl("", "patch", "virtualmachineclusterinstancetype", c.of("new"), "--type=merge", "-p", `{"spec":{"memory":{"guest":"96Mi"}}}`,
		"--field-manager=hand"))
	next := c.file("1.1.0", c.instancetype("new", "256Mi"), c.instancetype("theirs", "128Mi"), c.instancetype("more", "128Mi"))
	c.refused(c.install(next), c.of("new"), `conflict with "hand"`, ".spec.memory.guest")
	if c.has("more") != "" {
		t.Error("half of a refused catalog is installed")
	}

	// A policy refuses one object of two.
	wrong := strings.Replace(c.instancetype("wrong", "128Mi"), "{test: ", "{kilnvm.io/lifecycle: gone, test: ", 1)
	c.refused(c.install(c.file("1.2.0", c.instancetype("more", "128Mi"), wrong), "--force"), "must be 'active', 'deprecated' or 'obsolete'")
	// An object for a namespace that was not asked for.
	elsewhere := strings.Replace(strings.Replace(c.instancetype("more", "128Mi"), "Cluster", "", 1), "{name:", "{namespace: kube-system, name:", 1)
	c.refused(c.install(c.file("1.3.0", c.instancetype("more", "128Mi"), elsewhere), "--force"), "is for namespace 'kube-system'")
	// Another catalog of the cluster has the object.
	c.refused(c.kiln("catalog", "install", file, "--name", "other-"+c.name), "belongs to catalog '"+c.name+"'")
	if c.has("more") != "" || c.has("wrong") != "" {
		t.Error("a part of a refused catalog is installed")
	}
}

// The process dies after a line: the second run finishes.
func TestCatalogIsInstalledAfterAKill(t *testing.T) {
	c := newCatalog(t)
	var documents []string
	long := strings.Repeat("x", 150) // the pipe and its reader hold 8 kB of lines, so that the command cannot end before it is killed
	for n := range 60 {
		documents = append(documents, c.instancetype(fmt.Sprintf("n%02d%s", n, long), "128Mi"))
	}
	c.must(c.install(c.file("1.0.0", c.instancetype("dropped", "128Mi"))))
	file := c.file("1.1.0", documents...)
	cmd := exec.CommandContext(t.Context(), c.on.Program("kubectl-kiln"), "catalog", "install", file, "--name", c.name)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.on.Kubeconfig)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := unix.FcntlInt(in.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), c.of("n02"+long)) {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the process was not killed")
	}
	if c.has("n02"+long) == "" || c.has("n59"+long) != "" || c.has("dropped") != "active" {
		t.Fatalf("after the kill: n02 '%s', n59 '%s', dropped '%s'", c.has("n02"+long), c.has("n59"+long), c.has("dropped"))
	}
	c.must(c.install(file))
	if c.has("n59"+long) == "" || c.has("dropped") != "" {
		t.Errorf("after the second run: n59 '%s', dropped '%s'", c.has("n59"+long), c.has("dropped"))
	}
	c.expect("nothing is left to do", c.install(file), "catalog 'NAME': 60 unchanged")
}
