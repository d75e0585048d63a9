package hostresources

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "kubevirt.io/api/core/v1"
)

func TestImagesStayBelowTheirRoot(t *testing.T) {
	needQemuImg(t)
	host, dir := testHost(t)
	file := filepath.Join(t.TempDir(), "overlay.qcow2")
	for _, test := range []struct{ name, image, path, want string }{
		{name: "the one disk", image: "registry.example/demo:1"},
		{name: "named", image: "registry.example/demo:1", path: "/disk/root.img"},
		{name: "dots in the image", image: "../../outside.img", want: "not a valid image name"},
		{name: "absolute image", image: "/etc", want: "not a valid image name"},
		{name: "dots in the path", image: "registry.example/demo:1", path: "/../../../../etc/passwd", want: "does not exist"},
		{name: "link in the tree", image: "registry.example/demo:1", path: "/boot/evil", want: "cannot be served"},
		{name: "no image", image: "", want: "not a valid image name"},
		{name: "unknown image", image: "registry.example/none", want: "does not exist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			volume, err := host.containerDisk(t.Context(), &v1.ContainerDiskSource{Image: test.image, Path: test.path}, file)
			switch {
			case test.want == "" && (err != nil || volume.Backing != filepath.Join(dir, "containers/registry.example/demo:1/disk/root.img")):
				t.Errorf("got %+v, %v", volume, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %+v, %v, want an error with '%s'", volume, err, test.want)
			}
		})
	}
}

// An image of an unknown author may name any file of the host as its backing file.
func TestImagesMayNotReferToOtherFiles(t *testing.T) {
	needQemuImg(t)
	dir := t.TempDir()
	base, evil := filepath.Join(dir, "base.img"), filepath.Join(dir, "evil.qcow2")
	if err := os.WriteFile(base, make1MiB(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := qemuImg(t.Context(), "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, evil); err != nil {
		t.Fatal(err)
	}
	if _, err := imageFormat(t.Context(), evil); err == nil || !strings.Contains(err.Error(), "refers to another file") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// TestImageLeadsNowhereElse: the author of an image is a tenant. Whatever is in its tree, and whatever it is called, only its own regular files
// are served.
func TestImageLeadsNowhereElse(t *testing.T) {
	needQemuImg(t)
	host, dir := testHost(t)
	containers := filepath.Join(dir, "containers")
	evil := filepath.Join(containers, "evil:1")
	for _, make := range []func() error{
		func() error { return os.MkdirAll(filepath.Join(evil, "disk"), 0o755) },
		func() error { return os.WriteFile(filepath.Join(evil, "disk", "real.img"), make1MiB(), 0o600) },
		func() error { return os.Symlink("real.img", filepath.Join(evil, "disk", "own.img")) },
		func() error { return os.Symlink("../../../disk.img", filepath.Join(evil, "disk", "tenant.img")) },
		func() error {
			return os.Symlink("../../registry.example/demo:1/disk/root.img", filepath.Join(evil, "disk", "image.img"))
		},
		func() error { return os.Symlink("../..", filepath.Join(evil, "disk", "up")) },
		func() error { return os.Symlink(dir, filepath.Join(evil, "all")) },
		func() error { return os.Symlink("../registry.example", filepath.Join(evil, "all-of-them")) },
		func() error { return os.Symlink("..", filepath.Join(containers, "outside")) },
		func() error { return unix.Mkfifo(filepath.Join(evil, "disk", "pipe.img"), 0o600) },
		func() error {
			return unix.Mknod(filepath.Join(evil, "disk", "device.img"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0)))
		},
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ why, image, path, want string }{
		{"its own", "evil:1", "/disk/real.img", ""},
		{"a link to its own", "evil:1", "/disk/own.img", ""},
		{"a link to a tenant's disk", "evil:1", "/disk/tenant.img", "cannot be served"},
		{"a link to another image", "evil:1", "/disk/image.img", "cannot be served"},
		{"a folder that is a link", "evil:1", "/disk/up/registry.example/demo:1/disk/root.img", "cannot be served"},
		{"an absolute link", "evil:1", "/all/disk.img", "cannot be served"},
		{"a pipe, which nobody would open", "evil:1", "/disk/pipe.img", "not a regular file"},
		{"a device of the host", "evil:1", "/disk/device.img", "not a regular file"},
		{"no file", "evil:1", "/", "not a regular file"},
		{"all images at once", ".", "registry.example/demo:1/disk/root.img", "not a valid image name"},
		{"a part of its own, as if it were a repository on a port", "evil:1/disk", "/real.img", ""},
		{"a link in it, as if it were that", "evil:1/all-of-them", "/demo:1/disk/root.img", "contains a symbolic link"},
		{"a name that is a link", "outside", "/disk.img", "contains a symbolic link"},
	} {
		file := filepath.Join(t.TempDir(), "overlay.qcow2")
		volume, err := host.containerDisk(t.Context(), &v1.ContainerDiskSource{Image: c.image, Path: c.path}, file)
		refused(t, c.why, c.want, err)
		if want := filepath.Join(evil, "disk", "real.img"); c.want == "" && volume.Backing != want {
			t.Errorf("%s: the overlay is of '%s', want '%s'", c.why, volume.Backing, want)
		}
		kernel := &v1.KernelBoot{Container: &v1.KernelBootContainer{Image: c.image, InitrdPath: c.path}}
		_, errs := kernelFiles(&v1.Firmware{KernelBoot: kernel}, host.Volumes.openImage)
		refused(t, c.why+", as initrd", c.want, errs.ToAggregate())
	}
}

func refused(t *testing.T, why, want string, err error) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error '%v', want '%s'", why, err, want)
	}
}

// TestOverlayIsMadeOnce: what a guest wrote stays, an incomplete file is never used, and only its owner may read it.
func TestOverlayIsMadeOnce(t *testing.T) {
	needQemuImg(t)
	host, _ := testHost(t)
	dir := t.TempDir()
	for name, make := range map[string]func(file string) error{
		"overlay": func(file string) error {
			disk, err := host.containerDisk(t.Context(), &v1.ContainerDiskSource{Image: "registry.example/demo:1"}, file)
			if err != nil {
				return err
			}
			return disk.file.ensureFile(t.Context())
		},
		"empty": func(file string) error {
			return emptyDisk(file, 1<<20).file.ensureFile(t.Context())
		},
	} {
		file := filepath.Join(dir, name)
		if err := make(file); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v; want it for one user alone", name, info.Mode(), err)
		}
		if err := os.WriteFile(file, []byte("written by the guest"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := make(file); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != "written by the guest" {
			t.Errorf("%s: made again over what the guest has written: %d bytes, %v", name, len(got), err)
		}
	}
	if err := emptyDisk(filepath.Join(dir, "huge"), -1).file.ensureFile(t.Context()); err == nil {
		t.Error("a disk of less than nothing was made")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, in the folder are %v; want the two disks", err, left)
	}
}

func needQemuImg(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Fatal("qemu-img is missing: install qemu-utils")
	}
}

// TestQemuImgIsGivenUp: qemu-img hangs when the server of an image does, and ends with the context of its guest's start.
func TestQemuImgIsGivenUp(t *testing.T) {
	needQemuImg(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("the start is given up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, gone)
	defer cancel()
	if _, err := imageFormat(ctx, pipe); !errors.Is(err, gone) {
		t.Errorf("error '%v', want '%v'", err, gone)
	}
}
