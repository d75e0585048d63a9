package archive

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// archived returns a tar archive of headers, with content for files.
func archived(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, header := range headers {
		if header.Typeflag == tar.TypeReg {
			header.Size = 4
		}
		if err := archive.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := archive.Write([]byte("text")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }

// TestHostileTar: no name leads out of the image or of the spool, and nothing is lost without a word.
func TestHostileTar(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why     string
		headers []tar.Header
		want    string
	}{
		{"above the root", []tar.Header{file("../evil")}, "must lead into the image"},
		{"above the root, later", []tar.Header{file("usr/../../evil")}, "must lead into the image"},
		{"not UTF-8", []tar.Header{file("caf\xe9")}, "in UTF-8"},
		{"a whiteout", []tar.Header{file("etc/.wh.passwd")}, "deletes files"},
		{"a whole folder of whiteouts", []tar.Header{file("etc/.wh..wh..opq")}, "deletes files"},
		{"a terminal's escape", []tar.Header{file("\x1b[2J")}, "no control characters"},
		{"behind a link", []tar.Header{{Typeflag: tar.TypeSymlink, Name: "lib", Linkname: "/host"}, file("lib/evil")},
			"'lib/evil' is below 'lib', which is not a folder"},
		{"below a file", []tar.Header{file("lib"), file("lib/evil")}, "which is not a folder"},
		{"a hard link to the host", []tar.Header{{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/shadow"}}, "which is not a file of the image"},
		{"a hard link out of the image", []tar.Header{{Typeflag: tar.TypeLink, Name: "x", Linkname: "../shadow"}}, "must lead into the image"},
		{"a device", []tar.Header{{Typeflag: tar.TypeBlock, Name: "dev/sda", Devmajor: 8}}, "no entries of type '4'"},
		{"twice", []tar.Header{file("a"), file("./a")}, "'a' appears twice"},
		{"a capability", []tar.Header{{Typeflag: tar.TypeReg, Name: "ping", PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}},
			"would be lost"},
	} {
		var root Root
		spool := t.TempDir()
		err := root.AddTar(archived(t, test.headers...), spool)
		if err == nil {
			_, err = root.Bytes()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want '%s'", test.why, err, test.want)
		}
		if found, err := filepath.Glob(filepath.Join(spool, "..", "*evil*")); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", test.why, found, err)
		}
	}
}

// TestTar: what packages have is kept: owners as numbers, the sticky bit, links of both kinds; hard links follow their files.
func TestTar(t *testing.T) {
	t.Parallel()
	owned := tar.Header{Typeflag: tar.TypeDir, Name: "./tmp/", Mode: 0o1777, Uid: 7, Gid: 8, Uname: "lp", Gname: "mail"}
	var root Root
	err := root.AddTar(archived(t, tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}, owned,
		tar.Header{Typeflag: tar.TypeLink, Name: "./a", Linkname: "./z"}, file("./z"),
		tar.Header{Typeflag: tar.TypeSymlink, Name: "./l", Linkname: "../../etc"}), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := root.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("L l -> ../../etc\nd tmp\n- z 'text'\nH a -> z\n", entries(t, bytes.NewReader(raw))); diff != "" {
		t.Error(diff)
	}
	archive := tar.NewReader(bytes.NewReader(raw))
	for range 2 {
		header, err := archive.Next()
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "tmp/" && (header.Mode != 0o1777 || header.Uid != 7 || header.Gid != 8) {
			t.Errorf("%+v", header)
		}
	}
}

// TestHostileFolder: links are not followed, neither when the folder is listed nor when its files are read.
func TestHostileFolder(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("CONTENT OF THE HOST"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, link := range []string{secret, filepath.Dir(secret)} {
		if err := os.Symlink(link, filepath.Join(dir, filepath.Base(link)+"-link")); err != nil {
			t.Fatal(err)
		}
	}
	swapped := filepath.Join(dir, "swapped")
	if err := os.WriteFile(swapped, []byte("public"), 0o644); err != nil {
		t.Fatal(err)
	}
	var root Root
	if err := root.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := root.Bytes()
	if err != nil || bytes.Contains(raw, []byte("CONTENT OF THE HOST")) || strings.Count(entries(t, bytes.NewReader(raw)), "L ") != 2 {
		t.Errorf("%v: %s", err, entries(t, bytes.NewReader(raw)))
	}
	if err := os.Remove(swapped); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, swapped); err != nil {
		t.Fatal(err)
	}
	if raw, err := root.Bytes(); err == nil {
		t.Errorf("a file that became a link out of the folder was read: %s", entries(t, bytes.NewReader(raw)))
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	var again Root
	if err := again.AddFolder(dir); err == nil || !strings.Contains(err.Error(), "'pipe' must be a file, a folder or a link") {
		t.Error(err)
	}
}
