package tutorials

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/page"
)

// TestOffline runs the commands of docs/tutorials/offline.md in a clone of this repository, and compares their outputs with the page.
func TestOffline(t *testing.T) {
	u := &reader{T: t, dir: t.TempDir()}
	scripts, shown := page.Walk(t, page.Blocks(t, "../../docs/tutorials/offline.md", ""), u.run, func(script string) {
		if strings.Contains(script, "git clone") {
			u.dir = filepath.Join(u.dir, "kiln") // where the page goes with cd, which ends with the shell of a script
		}
	})
	if scripts < 9 || shown < 8 {
		t.Errorf("%d scripts and %d outputs: the page has another form than this test reads", scripts, shown)
	}
}

// reader follows a page that needs no cluster.
type reader struct {
	*testing.T
	dir string // the folder of the commands
}

// run runs a script. Its first command that fails ends it. There is no kubeconfig, as on the machine of a reader who has no cluster.
func (u *reader) run(script string) (output string, status int) {
	u.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		u.Fatal(err)
	}
	edits := ""
	if strings.Contains(script, "git clone") {
		edits = u.edits(root)
		script = strings.ReplaceAll(script, "REPOSITORY", root)
		script = strings.Replace(script, "\ncd kiln\n", "\ncd kiln\ngit apply --allow-empty \"$EDITS\"\n", 1)
	}
	command := exec.CommandContext(u.Context(), "sh", "-eu", "-c", script)
	command.Dir, command.Env = u.dir, append(os.Environ(), "KUBECONFIG=/dev/null", "EDITS="+edits)
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		u.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

// edits returns a file with what the sources of this test have changed since the last commit, new files included. A clone has only what is committed, and the
// test is about the sources that it stands in. The index is one of its own, so that the caller's stays as it is.
func (u *reader) edits(root string) string {
	u.Helper()
	dir := u.TempDir()
	file := filepath.Join(dir, "edits.patch")
	command := exec.CommandContext(u.Context(), "sh", "-eu", "-c", `git read-tree HEAD; git add --all; git diff --cached --binary HEAD > "$EDITS"`)
	command.Dir, command.Env = root, append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(dir, "index"), "EDITS="+file)
	if out, err := command.CombinedOutput(); err != nil {
		u.Fatalf("%v %s", err, out)
	}
	return file
}
