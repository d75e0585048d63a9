package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAdded: links, empty folders, owners and capabilities are in the archive as a container runtime reads them.
func TestAdded(t *testing.T) {
	t.Parallel()
	root := &Root{}
	const program, folder, link = "usr/bin/ping", "etc/hooks", "var/run"
	if err := errors.Join(root.AddText(program, "ping", 0o755), root.AddEmptyFolder(folder, 0o755), root.AddEmptyFolder("tmp", 0o1777),
		root.AddLink(link, "../run"), root.SetCapabilities(program, 10, 32), root.SetOwner(107, folder, program)); err != nil {
		t.Fatal(err)
	}
	raw, err := root.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Mode       int64
		Owner      int
		Link, Caps string
	}
	got := map[string]seen{}
	for archive := tar.NewReader(bytes.NewReader(raw)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != header.Gid {
			t.Errorf("'%s' has owner %d and group %d", header.Name, header.Uid, header.Gid)
		}
		got[header.Name] = seen{header.Mode, header.Uid, header.Linkname, header.PAXRecords["SCHILY.xattr.security.capability"]}
	}
	want := map[string]seen{
		"etc/": {Mode: 0o755}, "etc/hooks/": {Mode: 0o755, Owner: 107}, "tmp/": {Mode: 0o1777}, "usr/": {Mode: 0o755}, "usr/bin/": {Mode: 0o755},
		"var/": {Mode: 0o755}, "var/run": {Mode: 0o777, Link: "../run"},
		// What 'setcap cap_net_bind_service,cap_mac_override=ep' writes.
		program: {Mode: 0o755, Owner: 107, Caps: "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the archive differs (-want +got):\n%s", diff)
	}
}

// TestNotAdded: owners and capabilities are for what the image has, and no link has a name that a terminal would interpret.
func TestNotAdded(t *testing.T) {
	t.Parallel()
	root := &Root{}
	if err := root.AddEmptyFolder("etc", 0o755); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"owner of nothing": root.SetOwner(107, "usr"), "owner outside": root.SetOwner(107, "../etc"),
		"capability of nothing":  root.SetCapabilities("usr/bin/ping", 10),
		"capability of a folder": root.SetCapabilities("etc", 10), "link with an escape": root.AddLink("a", "\x1b[0m"), "link outside": root.AddLink("../a", "b"),
	} {
		if err == nil {
			t.Errorf("no error: %s", what)
		}
	}
}
