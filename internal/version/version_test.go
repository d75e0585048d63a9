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

func TestInfoOf(t *testing.T) {
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
		got := infoOf(&test.build, test.stamped)
		test.want.Platform, test.want.APIs = runtime.GOOS+"/"+runtime.GOARCH, spoken
		if diff := cmp.Diff(test.want, got); diff != "" || got.String() != test.text {
			t.Errorf("%s: '%s' (-want +got):\n%s", test.why, got, diff)
		}
	}
}

// spoken is what all programs say of APIs.
var spoken = []string{"kubevirt.io/v1", "kubevirt.io/v1alpha3", "instancetype.kubevirt.io/v1beta1", "kilnvm.io/v1alpha1", "admission.k8s.io/v1"}

// TestLibraries: of all modules, those whose versions decide what can be read are named.
func TestLibraries(t *testing.T) {
	t.Parallel()
	got := infoOf(&debug.BuildInfo{Deps: []*debug.Module{{Path: "k8s.io/api", Version: "v0.37.0"}, {Path: "kubevirt.io/api", Version: "v1.9.0"},
		{Path: "golang.org/x/net", Version: "v0.59.0"}}}, "v1")
	if diff := cmp.Diff(map[string]string{"k8s.io/api": "v0.37.0", "kubevirt.io/api": "v1.9.0"}, got.Libraries); diff != "" {
		t.Error(diff)
	}
	if want := "libraries: k8s.io/api v0.37.0, kubevirt.io/api v1.9.0\n"; !strings.HasSuffix(got.detailLines(), want) {
		t.Errorf("'%s' does not end in '%s'", got.detailLines(), want)
	}
}

// TestPrograms links the programs once for all its checks, because a link takes seconds.
func TestPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const stamps = "-w -X github.com/kilnvm/kiln/internal/version.stamp=v9.8.7-test -X github.com/kilnvm/kiln/internal/version.revision=4f1c" +
		" -X github.com/kilnvm/kiln/internal/version.committed=2026-11-22T01:00:00Z"
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", stamps, "-o", dir+"/", "../../cmd/...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("tell their version", func(t *testing.T) { tellTheirVersion(t, dir) })
	t.Run("call nothing by name", func(t *testing.T) { callNothingByName(t, dir) })
}

// tellTheirVersion: each program prints its stamps, and no server starts for that.
func tellTheirVersion(t *testing.T, dir string) {
	t.Helper()
	for binary, name := range map[string]string{"kubectl-kiln": "kubectl kiln", "launcher": "launcher", "webhook": "webhook", "controller": "controller"} {
		line := name + " version v9.8.7-test, revision 4f1c of 2026-11-22T01:00:00Z, " + runtime.Version() + "\n"
		if got := run(t, filepath.Join(dir, binary), "--version"); got != line {
			t.Errorf("%s --version: '%s', want '%s'", binary, got, line)
		}
		got := run(t, filepath.Join(dir, binary), "version")
		if !strings.HasPrefix(got, line) || !strings.Contains(got, "\nAPIs: "+strings.Join(spoken, ", ")+"\n") || !strings.Contains(got, "kubevirt.io/api v1.") {
			t.Errorf("%s version: '%s'", binary, got)
		}
		var info Info
		err := json.Unmarshal([]byte(run(t, filepath.Join(dir, binary), "version", "-o", "json")), &info)
		if err != nil || info.Version != "v9.8.7-test" || info.Revision != "4f1c" || info.Go != runtime.Version() {
			t.Errorf("%s -o json: %+v %v", binary, info, err)
		}
		out, err := exec.Command(filepath.Join(dir, binary), "version", "-o", "xml").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "use text, json or yaml") {
			t.Errorf("%s -o xml: %v\n%s", binary, err, out)
		}
	}
}

// callNothingByName: a program that calls methods by name, as text/template does, has all methods of all types linked, and mapped into its memory.
func callNothingByName(t *testing.T, dir string) {
	t.Helper()
	for _, program := range []string{"webhook", "controller"} {
		out, err := exec.Command("go", "tool", "nm", filepath.Join(dir, program)).Output()
		if err != nil || !strings.Contains(string(out), "main.main") {
			t.Fatalf("the symbols of %s: %v", program, err)
		}
		if strings.Contains(string(out), "text/template.(*state).evalField") {
			t.Errorf("%s can execute text/template: 'go build -ldflags=-dumpdep' prints what leads to it", program)
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
