package version

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOf(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{
		{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "4f1c"}, {Key: "vcs.time", Value: "2026-11-22T01:00:00Z"},
		{Key: "vcs.modified", Value: "true"},
	}
	for _, test := range []struct {
		why     string
		build   debug.BuildInfo
		stamped string
		want    Info
		text    string
	}{
		{"the Makefile knows best", debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.0.0"}, Settings: vcs}, "v1.0.0-3-g4f1c",
			Info{Version: "v1.0.0-3-g4f1c", Revision: "4f1c", Time: "2026-11-22T01:00:00Z", Modified: true, Go: "go1.26.8"},
			"v1.0.0-3-g4f1c, revision 4f1c of 2026-11-22T01:00:00Z, modified, go1.26.8"},
		{"go install", debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.0.0"}}, "",
			Info{Version: "v1.0.0", Go: "go1.26.8"}, "v1.0.0, go1.26.8"},
		{"a build that knows nothing", debug.BuildInfo{GoVersion: "go1.26.8"}, "", Info{Version: "(devel)", Go: "go1.26.8"}, "(devel), go1.26.8"},
	} {
		got := of(&test.build, test.stamped)
		if diff := cmp.Diff(test.want, got); diff != "" || got.String() != test.text {
			t.Errorf("%s: '%s' (-want +got):\n%s", test.why, got, diff)
		}
	}
}

// TestStampedBinaries: each program tells its version, and no server starts for that.
func TestStampedBinaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X github.com/kilnvm/kiln/internal/version.stamp=v9.8.7-test",
		"-o", dir+"/", "../../cmd/...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for binary, name := range map[string]string{"kubectl-kiln": "kubectl kiln", "launcher": "launcher", "webhook": "webhook"} {
		line := name + " v9.8.7-test, " + runtime.Version() + "\n"
		for _, args := range [][]string{{"version"}, {"--version"}} {
			if got := run(t, filepath.Join(dir, binary), args...); got != line {
				t.Errorf("%s %q: '%s', want '%s'", binary, args, got, line)
			}
		}
		var info Info
		err := json.Unmarshal([]byte(run(t, filepath.Join(dir, binary), "version", "-o", "json")), &info)
		if err != nil || info.Version != "v9.8.7-test" || info.Go != runtime.Version() {
			t.Errorf("%s -o json: %+v %v", binary, info, err)
		}
		out, err := exec.Command(filepath.Join(dir, binary), "version", "-o", "xml").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "use text, json or yaml") {
			t.Errorf("%s -o xml: %v\n%s", binary, err, out)
		}
	}
}

// TestMakefileStamps: what 'make build' gives the linker is the variable of this package.
func TestMakefileStamps(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("make", "-C", "../..", "-n", "build", "VERSION=v1.2.3").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "-X github.com/kilnvm/kiln/internal/version.stamp=v1.2.3") {
		t.Errorf("'make build' stamps no version:\n%s", out)
	}
}

func run(t *testing.T, binary string, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, args...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", binary, args, err)
	}
	return string(out)
}
