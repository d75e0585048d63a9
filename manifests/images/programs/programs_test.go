package programs

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout writes a small module with the paths of Kiln's into a folder: a program that prints its stamps.
func checkout(t *testing.T, dir string) Sources {
	t.Helper()
	for name, text := range map[string]string{
		"go.mod": "module github.com/kilnvm/kiln\n\ngo 1.26\n",
		"internal/version/version.go": "package version\n\nvar stamp, revision, committed string\n\n" +
			"func Text() string { return stamp + \" \" + revision + \" \" + committed }\n",
		"cmd/demo/main.go": "package main\n\nimport (\n\t\"fmt\"\n\t_ \"net\"\n\n\t\"github.com/kilnvm/kiln/internal/version\"\n)\n\n" +
			"func main() { fmt.Println(version.Text()) }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "demo"}, {"tag", "v1.2.3"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
			"GIT_AUTHOR_DATE=2026-11-22T01:00:00Z", "GIT_COMMITTER_DATE=2026-11-22T01:00:00Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	from, err := Describe(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// TestSameProgram: checkouts in two folders give the same bytes, which are static and say what they are from, whatever the environment of the builder.
func TestSameProgram(t *testing.T) {
	var built [2][]byte
	here := Platform{"linux", "amd64"}
	for i := range built {
		from := checkout(t, filepath.Join(t.TempDir(), strings.Repeat("deep/", i), "kiln"))
		if i == 1 {
			t.Setenv("CGO_ENABLED", "1")
			t.Setenv("GOFLAGS", "-buildvcs=true -ldflags=-X=main.x=y")
			t.Setenv("GOAMD64", "v3")
		}
		out := filepath.Join(t.TempDir(), "out")
		if err := from.Build(t.Context(), here, out, "demo"); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(out, "demo"))
		if err != nil {
			t.Fatal(err)
		}
		built[i] = raw
		output, err := exec.Command(filepath.Join(out, "demo")).Output()
		if want := "v1.2.3 " + from.Revision + " 2026-11-22T01:00:00Z\n"; err != nil || string(output) != want || len(from.Revision) != 40 {
			t.Errorf("'%s' %v, want '%s'", output, err, want)
		}
	}
	if !bytes.Equal(built[0], built[1]) {
		t.Error("two builds of the same sources differ")
	}
	static(t, built[0])
}

// static: an image without libc can run only programs that need no dynamic linker.
func static(t *testing.T, program []byte) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			t.Error("the program names a dynamic linker")
		}
	}
}

// TestWithoutHistory: sources from an archive have the version that the builder gives, and no revision.
func TestWithoutHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Describe(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), "at the root of the repository") {
		t.Errorf("a folder without go.mod: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module github.com/kilnvm/kiln\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{"": "devel", "v9": "v9"} {
		from, err := Describe(t.Context(), dir, given)
		if err != nil || from.Version != want || from.Revision != "" || !from.Time.IsZero() {
			t.Errorf("'%s': %+v %v", given, from, err)
		}
	}
}

// TestWrongPlatform: the message says what a platform looks like, and the error of a failed build has the output of Go.
func TestWrongPlatform(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "linux", "linux/", "/amd64", "linux/arm/v7"} {
		if _, err := ParsePlatform(bad); err == nil || !strings.Contains(err.Error(), "such as 'linux/amd64'") {
			t.Errorf("'%s': %v", bad, err)
		}
	}
	from := checkout(t, t.TempDir())
	err := from.Build(t.Context(), Platform{"linux", "amd64"}, t.TempDir(), "absent")
	if err == nil || !strings.Contains(err.Error(), "absent for linux/amd64") || !strings.Contains(err.Error(), "cmd/absent") {
		t.Error(err)
	}
}
