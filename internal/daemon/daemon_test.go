package daemon

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// probed is what libvirtd caches, in short.
const probed = "<qemuCaps>\n  <emulator>/usr/bin/qemu</emulator>\n  <qemuctime>11</qemuctime>\n  <qemumoddirmtime>12</qemumoddirmtime>\n" +
	"  <selfctime>13</selfctime>\n  <selfvers>11003000</selfvers>\n  <flag name='vnc'/>\n</qemuCaps>\n"

var from = Origin{
	Emulator: "/usr/bin/qemu", Modules: "/usr/lib/qemu",
	Daemon: []string{"/usr/sbin/libvirtd", "/usr/lib/driver.so"}, Libraries: []string{"/usr/lib/libvirt.so"},
}

// image makes a small image, with capabilities.
func image(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{from.Emulator, from.Modules + "/module.so", from.Daemon[0], from.Daemon[1], from.Libraries[0], settings} {
		put(t, filepath.Join(root, name), "content of "+name)
	}
	cache := t.TempDir()
	put(t, filepath.Join(cache, cached, "name.xml"), probed)
	dir := filepath.Join(root, Capabilities)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := KeepCapabilities(root, cache, from, dir); err != nil {
		t.Fatal(err)
	}
	return root
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// ctime is when the kernel last changed anything of a file.
func ctime(t *testing.T, file string) int64 {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat(file, &s); err != nil {
		t.Fatal(err)
	}
	return s.Ctim.Sec
}

// TestProvide: a pod gets the capabilities with the times of the files that it has.
func TestProvide(t *testing.T) {
	t.Parallel()
	root, cache := image(t), t.TempDir()
	if kept := read(t, filepath.Join(root, Capabilities, "name.xml")); strings.Count(kept, "time>0</") != 2 || strings.Contains(kept, "qemumoddirmtime") {
		t.Errorf("times of the machine that makes the image stand in it: %s", kept)
	}
	if err := os.Chtimes(filepath.Join(root, from.Modules), time.Time{}, time.Unix(77, 0)); err != nil {
		t.Fatal(err)
	}
	// The second file of the daemon is the last one that was unpacked.
	time.Sleep(1100 * time.Millisecond)
	if err := os.Chmod(filepath.Join(root, from.Daemon[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ProvideCapabilities(root, cache); err != nil {
		t.Fatal(err)
	}
	number := func(file string) string { return strconv.FormatInt(ctime(t, filepath.Join(root, file)), 10) }
	want := strings.NewReplacer(">11<", ">"+number(from.Emulator)+"<", ">12<", ">77<", ">13<", ">"+number(from.Daemon[1])+"<").Replace(probed)
	if got := read(t, filepath.Join(cache, cached, "name.xml")); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if number(from.Daemon[0]) == number(from.Daemon[1]) {
		t.Error("the daemon's files have one time: the test shows nothing")
	}
}

// TestProvideAgain: what libvirtd has found out in this pod stays, and what another container left is replaced.
func TestProvideAgain(t *testing.T) {
	t.Parallel()
	root, cache := image(t), t.TempDir()
	if err := ProvideCapabilities(root, cache); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cache, cached, "name.xml")
	// Folders of images have the time 0, which libvirt leaves out.
	modules := filepath.Join(root, from.Modules)
	if err := os.Chtimes(modules, time.Time{}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := ProvideCapabilities(root, cache); err != nil || strings.Contains(read(t, file), "qemumoddirmtime") {
		t.Errorf("%v: %s", err, read(t, file))
	}
	own := strings.ReplaceAll(read(t, file), "'vnc'", "'kvm'")
	put(t, file, own)
	if err := ProvideCapabilities(root, cache); err != nil || read(t, file) != own {
		t.Errorf("%v: %s", err, read(t, file))
	}
	for _, left := range []string{probed, "", "<qemuCaps>"} {
		put(t, file, left)
		if err := ProvideCapabilities(root, cache); err != nil || !strings.Contains(read(t, file), "<flag name='vnc'/>") || read(t, file) == probed {
			t.Errorf("%v: %s", err, read(t, file))
		}
	}
}

// TestOtherFiles: the capabilities of another QEMU, or another libvirt, are not provided.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	for change, named := range map[string]string{
		from.Emulator:               from.Emulator,
		from.Daemon[0]:              from.Daemon[0],
		from.Daemon[1]:              from.Daemon[1],
		from.Libraries[0]:           from.Libraries[0],
		from.Modules + "/new.so":    "new.so",
		Capabilities + "/" + origin: origin,
	} {
		root, cache := image(t), t.TempDir()
		put(t, filepath.Join(root, change), "another")
		if err := ProvideCapabilities(root, cache); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", change, err)
		}
		if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
			t.Errorf("%s: %v %v", change, left, err)
		}
	}
	root := image(t)
	for _, gone := range []string{filepath.Join(Capabilities, "name.xml"), from.Modules, Capabilities} {
		if err := os.RemoveAll(filepath.Join(root, gone)); err != nil {
			t.Fatal(err)
		}
		if err := ProvideCapabilities(root, t.TempDir()); err == nil {
			t.Errorf("'%s' is gone, and ProvideCapabilities returns no error", gone)
		}
	}
}

// TestKeep: nothing is kept of a libvirtd that has cached nothing, or something unknown.
func TestKeep(t *testing.T) {
	t.Parallel()
	root := image(t)
	cache := t.TempDir()
	if err := KeepCapabilities(root, cache, from, t.TempDir()); err == nil || !strings.Contains(err.Error(), "has cached no capabilities") {
		t.Error(err)
	}
	put(t, filepath.Join(cache, cached, "name.xml"), strings.ReplaceAll(probed, "selfctime", "self"))
	if err := KeepCapabilities(root, cache, from, t.TempDir()); err == nil || !strings.Contains(err.Error(), "and have 0") {
		t.Error(err)
	}
}

// TestConfigure: libvirtd finds the settings of the image, also after the container has started again.
func TestConfigure(t *testing.T) {
	t.Parallel()
	root, config := image(t), t.TempDir()
	for range 2 {
		if err := CopySettings(root, config); err != nil {
			t.Fatal(err)
		}
		if got := read(t, filepath.Join(config, "libvirt", "qemu.conf")); got != "content of "+settings {
			t.Error(got)
		}
	}
	if err := CopySettings(t.TempDir(), config); err == nil {
		t.Error("an image without settings was not noticed")
	}
}
