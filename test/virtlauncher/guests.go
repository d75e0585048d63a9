package virtlauncher

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/node"
)

// DiskImage is the image of a container disk with the guest of package guest.
const DiskImage = "registry.example/guest-disk:1"

// KernelImage is an image with the kernel and the initramfs of the same guest.
const KernelImage = "registry.example/guest-kernel:1"

// KernelPath is the path of the kernel in its image.
const KernelPath = "/boot/vmlinuz"

// InitrdPath is the path of the initramfs in the image of the kernel.
const InitrdPath = "/boot/initrd"

// ImportGuests makes the images of the guests, and brings them to the node.
func (k *KubeVirt) ImportGuests(ctx context.Context, n *node.Node) error {
	raw, err := guest.BuildDisk(k.Dir)
	if err != nil {
		return err
	}
	disk := filepath.Join(k.Dir, "disk.qcow2")
	if out, err := exec.CommandContext(ctx, "qemu-img", "convert", "-O", "qcow2", raw, disk).CombinedOutput(); err != nil {
		return fmt.Errorf("qemu-img: %w: %s", err, out)
	}
	made := map[string]map[string]string{
		DiskImage:   {"disk/disk.qcow2": disk},
		KernelImage: {KernelPath: filepath.Join(k.Dir, KernelPath), InitrdPath: filepath.Join(k.Dir, InitrdPath)},
	}
	for name, content := range made {
		file := filepath.Join(k.Dir, filepath.Base(name)+".tar")
		if err := writeImage(file, name, content); err != nil {
			return err
		}
		if err := n.ImportImage(ctx, file); err != nil {
			return err
		}
		k.archives = append(k.archives, file)
	}
	return nil
}

// writeImage writes an image with files of this machine, by their paths in it.
func writeImage(file, name string, content map[string]string) error {
	root := &archive.Root{}
	for path, source := range content {
		if err := root.AddFile(path, source, 0o444); err != nil {
			return err
		}
	}
	return archive.Write(file, name, archive.Image{OS: "linux", Architecture: runtime.GOARCH, Root: root})
}
