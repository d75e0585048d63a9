package virtlauncher

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/node"
)

// DiskImage is the image of a container disk with the guest of package guest.
const DiskImage = "registry.example/guest-disk:1"

// KernelImage is an image with the kernel and the initramfs of the same guest, which also has udev.
const KernelImage = "registry.example/guest-kernel:1"

// KernelPath is the path of the kernel in its image.
const KernelPath = "/boot/vmlinuz"

// UnpackedPath is the path of the same kernel, unpacked (guest.UnpackKernel), in the same image.
const UnpackedPath = "/boot/vmlinux"

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
	kernel, unpacked, initrd := filepath.Join(k.Dir, KernelPath), filepath.Join(k.Dir, UnpackedPath), filepath.Join(k.Dir, InitrdPath)
	if err := errors.Join(guest.UnpackKernel(kernel, unpacked), guest.AddUdev(initrd)); err != nil {
		return err
	}
	made := map[string]map[string]string{
		DiskImage:   {"disk/disk.qcow2": disk},
		KernelImage: {KernelPath: kernel, UnpackedPath: unpacked, InitrdPath: initrd},
	}
	for name, content := range made {
		file := filepath.Join(k.Dir, filepath.Base(name)+".tar")
		if err := writeImage(file, name, content); err != nil {
			return err
		}
		k.archives = append(k.archives, file)
	}
	return k.Import(ctx, n)
}

// nameByDigest names the guests' images of a node by their digests, too, as images of a registry are named. virt-controller names them by digest in the pod to
// which a guest migrates, and kubelet would look for them in the registry.
func nameByDigest(ctx context.Context, n *node.Node) error {
	for _, name := range []string{DiskImage, KernelImage} {
		list, err := containerd(ctx, n, "images", "list", "name=="+name)
		if err != nil {
			return err
		}
		digest := digests.FindString(list)
		if digest == "" {
			continue // it was not imported
		}
		repository, _, _ := strings.Cut(name, ":")
		if _, err := containerd(ctx, n, "images", "tag", "--force", name, repository+"@"+digest); err != nil {
			return err
		}
	}
	return nil
}

// digests matches the digest of an image.
var digests = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// containerd runs containerd's client in the namespace of kubelet's images.
func containerd(ctx context.Context, n *node.Node, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, n.Ctr, append([]string{"--address", n.Containerd, "--namespace", "k8s.io"}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
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
