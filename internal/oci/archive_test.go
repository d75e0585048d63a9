package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// few are bounds that a small archive exceeds.
var few = bounds{entries: 100, content: 2 << 20}

// TestPackIsDeterministic packs the same files in another order.
func TestPackIsDeterministic(t *testing.T) {
	files := []File{{"b.yaml", []byte("b")}, {"instancetypes/a.yaml", []byte("a")}, {"empty", []byte{}}}
	one, err := packFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	two, err := packFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("the order of the files changes the archive")
	}
	read, err := unpackFiles(one, few)
	if err != nil {
		t.Fatal(err)
	}
	want := []File{{"b.yaml", []byte("b")}, {"empty", []byte{}}, {"instancetypes/a.yaml", []byte("a")}}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Error(diff)
	}
}

func TestPackRefuses(t *testing.T) {
	for name, files := range map[string][]File{
		"twice":    {{Name: "a"}, {Name: "a"}},
		"parent":   {{Name: "../a"}},
		"absolute": {{Name: "/a"}},
		"empty":    {{}},
	} {
		if _, err := packFiles(files); err == nil {
			t.Errorf("%s: packed", name)
		}
	}
}

// entry is one entry of a hostile archive.
type entry struct {
	tar.Header
	content string
}

func archiveOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if err := archive.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func regular(name string) entry { return entry{tar.Header{Typeflag: tar.TypeReg, Name: name}, "x"} }

// TestUnpackRefuses has one archive for each thing that is refused. TestUnpackReads has their nearest legal neighbours.
func TestUnpackRefuses(t *testing.T) {
	whole := archiveOf(t, regular("a.yaml"))
	many := make([]entry, few.entries+1)
	for i := range many {
		many[i] = regular(fmt.Sprint(i))
	}
	for _, test := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"no gzip", []byte("a: 1"), "must be a gzipped tar archive"},
		{"truncated", whole[:len(whole)/2], "cannot be read"},
		{"no tar", gzipped(strings.NewReader(strings.Repeat("a", 1024))), "cannot be read"},
		{"parent", archiveOf(t, regular("../a.yaml")), "entry '../a.yaml'"},
		{"parent inside", archiveOf(t, regular("a/../../b.yaml")), "entry 'a/../../b.yaml'"},
		{"absolute", archiveOf(t, regular("/etc/a.yaml")), "entry '/etc/a.yaml'"},
		{"backslash", archiveOf(t, regular(`a\b.yaml`)), `entry 'a\b.yaml'`},
		{"drive", archiveOf(t, regular("c:a.yaml")), "entry 'c:a.yaml'"},
		{"control character", archiveOf(t, regular("a\x1b[2J.yaml")), "entry 'a?[2J.yaml'"},
		{"twice", archiveOf(t, regular("a.yaml"), regular("./a.yaml")), "file 'a.yaml' appears twice"},
		{"symbolic link", archiveOf(t, entry{tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc/shadow"}, ""}), "must be a regular file"},
		{"hard link", archiveOf(t, entry{tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}, ""}), "must be a regular file"},
		{"device", archiveOf(t, entry{tar.Header{Typeflag: tar.TypeChar, Name: "a"}, ""}), "must be a regular file"},
		{"long name", archiveOf(t, regular(strings.Repeat("a", 513))), "entry 'aaa"},
		{"many", archiveOf(t, many...), "at most 100 entries"},
		{"bomb", bomb(t), "at most 2097152 bytes"},
		{"sparse file", sparse(t), "at most 2097152 bytes"},
		{"extended header", metadata(t), "cannot be read"},
	} {
		files, err := unpackFiles(test.raw, few)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if files != nil {
			t.Errorf("%s: returned %d files", test.name, len(files))
		}
	}
}

func TestUnpackReads(t *testing.T) {
	all := make([]entry, few.entries)
	for i := range all {
		all[i] = regular(fmt.Sprint(i))
	}
	for name, raw := range map[string][]byte{
		"one":         archiveOf(t, regular("a.yaml")),
		"with folder": archiveOf(t, entry{tar.Header{Typeflag: tar.TypeDir, Name: "a/"}, ""}, regular("a/b.yaml")),
		"dot":         archiveOf(t, regular("./a.yaml")),
		"dots":        archiveOf(t, regular("..a.yaml")),
		"long name":   archiveOf(t, regular(strings.Repeat("a", 512))),
		"many":        archiveOf(t, all...),
	} {
		if files, err := unpackFiles(raw, few); err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", name, len(files), err)
		}
	}
}

// header is a raw header, of which the writer of archive/tar refuses some.
func header(t *testing.T, kind byte, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: size}); err != nil {
		t.Fatal(err)
	}
	raw := out.Bytes()[:512]
	raw[156] = kind
	copy(raw[148:156], "        ") // the checksum counts its own field as spaces
	sum := 0
	for _, b := range raw {
		sum += int(b)
	}
	copy(raw[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return raw
}

// bomb is an archive whose one entry is a byte larger than all that is unpacked.
func bomb(t *testing.T) []byte {
	t.Helper()
	size := few.content + 1
	return gzipped(io.MultiReader(bytes.NewReader(header(t, tar.TypeReg, size)), io.LimitReader(zeros{}, size)))
}

// metadata is an archive whose extended header is larger than all that is unpacked.
func metadata(t *testing.T) []byte {
	t.Helper()
	return gzipped(io.MultiReader(bytes.NewReader(header(t, tar.TypeXHeader, few.content*4)), io.LimitReader(zeros{}, few.content*4)))
}

// sparse is an archive of 2 kB with one file of 4 GB, all of it a hole.
func sparse(t *testing.T) []byte {
	t.Helper()
	var records string
	for _, record := range []string{"GNU.sparse.size=4294967296", "GNU.sparse.numblocks=1", "GNU.sparse.map=4294967296,0"} {
		records += fmt.Sprintf("%d %s\n", len(record)+4, record)
	}
	extended := append(header(t, tar.TypeXHeader, int64(len(records))), records...)
	extended = append(extended, make([]byte, 512-len(records))...)
	extended = append(extended, header(t, tar.TypeReg, 0)...)
	return gzipped(bytes.NewReader(append(extended, make([]byte, 1024)...)))
}

func gzipped(from io.Reader) []byte {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	_, _ = io.Copy(compressed, from) // a buffer takes everything
	_ = compressed.Close()
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
