package debian

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pack builds a package of files; those whose content is a path of this machine are copies of it.
func pack(t *testing.T, name string, content map[string]string) archive {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is missing: packages are unpacked on Debian and its kin")
	}
	dir := filepath.Join(t.TempDir(), name)
	control := "Package: " + name + "\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: x\n"
	all := map[string]string{"DEBIAN/control": control}
	for file, text := range content {
		if strings.HasPrefix(text, "/") {
			raw, err := os.ReadFile(text)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		all[file] = text
	}
	for file, text := range all {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := dir + ".deb"
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", dir, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return archive{Package{Name: name, Version: "1", Architecture: "all"}, file}
}

// dynamic is a program of this machine, with the libraries that it loads.
func dynamic(t *testing.T) (program string, libraries []string) {
	t.Helper()
	program = "/bin/sh"
	object, err := elf.Open(program)
	if err != nil {
		t.Skipf("'%s' is no program that can be looked into: %v", program, err)
	}
	defer object.Close()
	if libraries, err = object.ImportedLibraries(); err != nil || len(libraries) == 0 {
		t.Skipf("'%s' loads no library: %v", program, err)
	}
	return program, libraries
}

// TestUnpack: the image has the wanted files of the named packages, and of those whose libraries they load. Folders that were merged into /usr are.
func TestUnpack(t *testing.T) {
	t.Parallel()
	program, libraries := dynamic(t)
	loaded := map[string]string{}
	for _, library := range libraries {
		loaded["lib/here/"+library] = "no program"
	}
	archives := []archive{
		pack(t, "tool", map[string]string{"bin/tool": program, "usr/share/man/tool.1": "x", "usr/share/tool/data": "y", "etc/tool.conf": "theirs"}),
		pack(t, "libraries", loaded), pack(t, "installer", map[string]string{"usr/bin/installer": "x"}),
	}
	set := Set{Packages: []string{"tool"}, Files: []string{"usr", "!usr/share/man"}, Texts: map[string]string{"etc/tool.conf": "ours"}}
	work := t.TempDir()
	if err := set.unpackTree(t.Context(), archives, work); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(work, "root")
	want := []string{"bin -> usr/bin", "dev", "etc", "etc/tool.conf", "lib -> usr/lib", "proc", "run", "sys", "tmp", "usr", "usr/bin", "usr/bin/tool", "usr/lib",
		"usr/lib/here", "usr/share", "usr/share/kiln", "usr/share/kiln/packages", "usr/share/tool", "usr/share/tool/data"}
	for _, library := range libraries {
		want = append(want, "usr/lib/here/"+library)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}
	for file, text := range map[string]string{"etc/tool.conf": "ours", List: "libraries 1\ntool 1\n"} {
		if raw, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(raw) != text {
			t.Errorf("'%s' has %q: %v", file, raw, err)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "tmp")); err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("tmp: %v %v", info, err)
	}
}

// TestUnpackRefuses: a program that could not start is found when the image is made, and so are two owners of one file.
func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	program, libraries := dynamic(t)
	set := Set{Packages: []string{"tool"}, Files: []string{"usr"}}
	err := set.unpackTree(t.Context(), []archive{pack(t, "tool", map[string]string{"bin/tool": program})}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "'usr/bin/tool' of package tool loads '"+libraries[0]+"', which no package of the image has") {
		t.Error(err)
	}
	set.Packages = []string{"a", "b"}
	err = set.unpackTree(t.Context(), []archive{pack(t, "a", map[string]string{"bin/x": "1"}), pack(t, "b", map[string]string{"usr/bin/x": "2"})}, t.TempDir())
	if err == nil || err.Error() != "b: another package has 'usr/bin/x' too" {
		t.Error(err)
	}
}

// tree lists a folder.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		inside, err := filepath.Rel(root, name)
		if err == nil && entry.Type() == fs.ModeSymlink {
			var target string
			target, err = os.Readlink(name)
			inside += " -> " + target
		}
		out = append(out, inside)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}
