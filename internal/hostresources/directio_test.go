package hostresources

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"golang.org/x/sys/unix"
	v1 "kubevirt.io/api/core/v1"
)

// cached returns a folder of ramfs, which has no O_DIRECT.
func cached(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	switch err := unix.Mount("ramfs", dir, "ramfs", 0, ""); {
	case errors.Is(err, unix.EPERM):
		t.Skip("needs root: it mounts a file system without O_DIRECT")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestDirectIO: what a volume says of O_DIRECT is what QEMU meets when it opens the files of the disk.
func TestDirectIO(t *testing.T) {
	without, with := cached(t), t.TempDir()
	for _, dir := range []string{without, with} {
		for name, content := range map[string][]byte{"disk.img": make1MiB(), "image/disk/a.img": make1MiB()} {
			file := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := func(dir string) func(*testing.T) (backend.Volume, error) {
		return func(*testing.T) (backend.Volume, error) {
			return backend.Volume{Path: filepath.Join(dir, "disk.img"), Format: "raw"}, nil
		}
	}
	over := func(base, dir string) func(*testing.T) (backend.Volume, error) {
		return func(t *testing.T) (backend.Volume, error) {
			tree, err := openMount(filepath.Join(base, "image"), "image")
			if err != nil {
				return backend.Volume{}, err
			}
			defer tree.Close()
			source, err := tree.overlayOf(t.Context(), "", filepath.Join(dir, "overlay.qcow2"))
			if err != nil {
				return backend.Volume{}, err
			}
			return source.Volume, source.file.ensureFile(t.Context())
		}
	}
	for _, c := range []struct {
		why    string
		volume func(*testing.T) (backend.Volume, error)
		want   bool
	}{
		{"a file of a file system with it", at(with), false},
		{"a file of one without", at(without), true},
		{"an overlay on one without", over(with, without), true},
		{"an overlay whose image is on one without", over(without, with), true},
		{"an overlay and its image with it", over(with, with), false},
	} {
		t.Run(c.why, func(t *testing.T) {
			volume, err := c.volume(t)
			if err != nil {
				t.Fatal(err)
			}
			if got := withDirectIO(volume).NoDirectIO; got != c.want {
				t.Errorf("NoDirectIO is %v, want %v", got, c.want)
			}
			if output := opened(t, volume, ""); strings.Contains(output, "O_DIRECT") != c.want {
				t.Errorf("QEMU without the page cache says %q, and NoDirectIO is %v", output, c.want)
			}
		})
	}
	pipe := filepath.Join(with, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	refusesDirectIO(pipe) // returns, though nobody writes into it
	if refusesDirectIO(filepath.Join(with, "missing")) {
		t.Error("the file system of a file that is not there has no O_DIRECT")
	}
}

// TestDirectIOOfVolumes: every volume that is a file is asked, however it came to be.
func TestDirectIOOfVolumes(t *testing.T) {
	dir := cached(t)
	p := mounted(t, map[string]string{"/secrets/.keep": ""})
	p.Root = dir
	for _, name := range []string{"volumes/data/..data/key", "volumes/data/disk.img", "volumes/data/disk/a.img"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, make([]byte, 4096), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for why, source := range everyImage() {
		bound, errs := p.Bind(t.Context(), having(source))
		if refused(t, why, "", errs.ToAggregate()); !bound.Volumes["data"].NoDirectIO {
			t.Errorf("%s: %+v does not say that its file system has no O_DIRECT", why, bound.Volumes["data"])
		}
	}
}

// opened is what QEMU says when a guest gets a disk of the volume without the page cache. layer is a block driver below the format, with its options.
func opened(t *testing.T, volume backend.Volume, layer string) string {
	t.Helper()
	const name = "qemu-system-x86_64"
	if _, err := exec.LookPath(name); err != nil {
		t.Fatal(name + " is missing: install qemu-system-x86")
	}
	file := "driver=file,cache.direct=on,node-name=file,filename=" + volume.Path
	nodes := []string{"-blockdev", file, "-blockdev", "driver=" + volume.Format + ",node-name=disk,file=file"}
	if layer != "" {
		nodes = []string{"-blockdev", file, "-blockdev", layer + ",node-name=layer,image=file",
			"-blockdev", "driver=" + volume.Format + ",node-name=disk,file=layer"}
	}
	if volume.Backing != "" {
		base := []string{"-blockdev", "driver=file,cache.direct=on,read-only=on,node-name=base-file,filename=" + volume.Backing,
			"-blockdev", "driver=" + volume.BackingFormat + ",read-only=on,node-name=base,file=base-file"}
		nodes = append(base, nodes...)
		nodes[len(nodes)-1] += ",backing=base"
	}
	qemu := exec.CommandContext(t.Context(), name, append([]string{"-machine", "pc,accel=tcg", "-m", "64", "-S", "-nodefaults", "-display", "none",
		"-qmp", "stdio",
		"-device", "virtio-blk-pci,drive=disk"}, nodes...)...)
	qemu.Stdin = strings.NewReader(`{"execute":"qmp_capabilities"}{"execute":"quit"}`)
	output := &strings.Builder{}
	qemu.Stderr = output
	if err := qemu.Run(); err != nil && output.Len() == 0 {
		t.Fatal(err)
	}
	return output.String()
}

// everyImage are the volumes of which a pod makes a file, and a claim whose file it finds.
func everyImage() map[string]v1.VolumeSource {
	claim := claimOf("claim")
	return map[string]v1.VolumeSource{
		"NoCloud":        {CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config"}},
		"ConfigDrive":    {CloudInitConfigDrive: &v1.CloudInitConfigDriveSource{UserData: "#cloud-config"}},
		"configMap":      {ConfigMap: &v1.ConfigMapVolumeSource{}},
		"secret":         {Secret: &v1.SecretVolumeSource{SecretName: "x"}},
		"downwardAPI":    {DownwardAPI: &v1.DownwardAPIVolumeSource{}},
		"serviceAccount": {ServiceAccount: &v1.ServiceAccountVolumeSource{ServiceAccountName: "x"}},
		"sysprep":        {Sysprep: &v1.SysprepSource{}},
		"emptyDisk":      {EmptyDisk: emptyDiskOf("1000001")},
		"containerDisk":  {ContainerDisk: &v1.ContainerDiskSource{Image: "demo:1", Path: "disk/a.img"}},
		"ephemeral":      {Ephemeral: &v1.EphemeralVolumeSource{PersistentVolumeClaim: &claim.PersistentVolumeClaim.PersistentVolumeClaimVolumeSource}},
		"claim":          claim,
	}
}
