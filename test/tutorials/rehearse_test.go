package tutorials

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/page"
)

// TestRehearse runs the commands of docs/tutorials/rehearse.md in a clone of this repository, without a cluster, and compares their outputs with the page.
func TestRehearse(t *testing.T) {
	u := &reader{T: t, dir: t.TempDir()}
	scripts, shown := page.Walk(t, page.Blocks(t, "../../docs/tutorials/rehearse.md", ""), u.run, func(script string) {
		if strings.Contains(script, "git clone") {
			u.dir = filepath.Join(u.dir, "kiln") // where the page goes with cd, which ends with the shell of a script
		}
	})
	if scripts < 7 || shown < 5 {
		t.Errorf("%d scripts and %d outputs: the page has another form than this test reads", scripts, shown)
	}
}
