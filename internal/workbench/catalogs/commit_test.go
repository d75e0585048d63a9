package catalogs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCommitOfHostileFolder asks git about a folder whose configuration names programs. None of them runs.
func TestCommitOfHostileFolder(t *testing.T) {
	folder, traces := t.TempDir(), t.TempDir()
	git := func(arguments ...string) {
		t.Helper()
		arguments = append([]string{"-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org"}, arguments...)
		if out, err := exec.Command("git", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", arguments, err, out)
		}
	}
	catalog := filepath.Join(folder, "a.yaml")
	for file, content := range map[string]string{catalog: "a: 1\n", filepath.Join(folder, ".gitattributes"): "*.yaml filter=x=y\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "first")
	git("config", "core.fsmonitor", "touch "+traces+"/fsmonitor; false")
	git("config", "filter.x=y.clean", "touch "+traces+"/filter; cat")
	git("config", "filter.x=y.required", "true")
	git("config", "remote.origin.url", "https://user:pass word@example.org/catalog.git")
	if err := os.WriteFile(catalog, []byte("a: 1\n"), 0o600); err != nil { // git compares a file that was written again
		t.Fatal(err)
	}
	commit, err := CommitOf(t.Context(), folder)
	if err != nil || len(commit.Revision) != 40 || commit.Changed {
		t.Errorf("%+v, %v", commit, err)
	}
	if commit.Remote != "" {
		t.Errorf("the remote is %q", commit.Remote)
	}
	if ran, err := os.ReadDir(traces); err != nil || len(ran) > 0 {
		t.Errorf("git ran %v, %v", ran, err)
	}
}

// TestWithoutCredentials has remotes with and without secrets.
func TestWithoutCredentials(t *testing.T) {
	for remote, want := range map[string]string{
		"git@example.org:catalog.git":                        "git@example.org:catalog.git",
		"https://example.org/catalog.git":                    "https://example.org/catalog.git",
		"https://user:token@example.org/catalog.git":         "https://example.org/catalog.git",
		"https://example.org/catalog.git?private_token=abcd": "https://example.org/catalog.git",
		"https://user:to ken@example.org/catalog.git":        "",
	} {
		if got := withoutCredentials(remote); got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
}
