package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Debian is a whole Debian: the paths of its kernel, its initramfs and a qcow2 disk without partitions, whose file system is ext4.
type Debian struct{ Kernel, Initramfs, Disk string }

// debianPackages are what a guest in a cloud has. The kernel's cloud flavour is the smallest one with virtio. Traps: cloud-init recommends only the programs
// by which it configures the network and gives rights to users; debootstrap does not find python3-cffi-backend, which another package provides a version of.
const debianPackages = "cloud-init,dbus,ifupdown,initramfs-tools,iproute2,isc-dhcp-client,linux-image-cloud-amd64,openssh-server,python3-cffi-backend," +
	"qemu-guest-agent,sudo,systemd-sysv,udev,zstd"

// debianDiskSize leaves the guest more than a gigabyte. Most of the disk is a hole.
const debianDiskSize = "2G"

// BuildDebian makes a Debian with cloud-init, OpenSSH and QEMU's guest agent by debootstrap, below a folder that exists. It changes nothing of what the
// packages install. It needs root, the packages debootstrap, e2fsprogs and qemu-utils, and a mirror of Debian among apt's sources.
func BuildDebian(ctx context.Context, dir string) (built Debian, err error) {
	mirror, suite, err := findDebianMirror(dir)
	if err != nil {
		return built, err
	}
	root := filepath.Join(dir, "root")
	if err := bootstrapDebian(ctx, mirror, suite, root); err != nil {
		return built, err
	}
	for name, path := range map[string]*string{"vmlinuz-*": &built.Kernel, "initrd.img-*": &built.Initramfs} {
		found, err := filepath.Glob(filepath.Join(root, "boot", name))
		if err != nil {
			return built, err
		}
		if len(found) != 1 {
			return built, fmt.Errorf("%d files of the kernel's package are boot/%s", len(found), name)
		}
		*path = found[0]
	}
	built.Disk = filepath.Join(dir, "debian.qcow2")
	return built, packDebian(ctx, root, built.Disk)
}

// findDebianMirror returns the mirror and the suite, such as 'bookworm', that apt installs Debian's packages from.
func findDebianMirror(dir string) (mirror, suite string, err error) {
	targets := func() (string, error) {
		return runCommand(dir, "apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(COMPONENT) $(CODENAME) $(SITE)", "Created-By: Packages")
	}
	out, err := targets()
	if err == nil && !strings.Contains(out, "Debian Debian main ") && os.Geteuid() == 0 {
		// apt knows the origin of a source only from the lists of packages.
		if _, err = runCommand(dir, "apt-get", "update", "-qq"); err == nil {
			out, err = targets()
		}
	}
	for line := range strings.Lines(out) {
		// Suite bookworm-updates has only the updates of another one.
		if words := strings.Fields(line); len(words) == 5 && strings.HasPrefix(line, "Debian Debian main ") && !strings.Contains(words[3], "-") {
			return words[4], words[3], nil
		}
	}
	return "", "", errors.Join(errors.New("apt has no mirror of Debian"), err)
}

// bootstrapDebian installs Debian into a folder. Its mounts and processes end with its namespaces.
func bootstrapDebian(ctx context.Context, mirror, suite, root string) error {
	if _, err := exec.LookPath("debootstrap"); err != nil {
		return fmt.Errorf("%w: install package 'debootstrap'", err)
	}
	// dpkg would wait for the disk after each file.
	fast := filepath.Join(root, "etc/dpkg/dpkg.cfg.d/unsafe-io")
	if err := os.MkdirAll(filepath.Dir(fast), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(fast, []byte("force-unsafe-io\n"), 0o644); err != nil {
		return err
	}
	err := runTool(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"debootstrap", "--variant=minbase", "--include="+debianPackages, suite, root, mirror)
	return errors.Join(err, os.Remove(fast))
}

// packDebian writes the disk, without the packages that apt has kept. The machine ID goes too: each guest makes one of its own.
func packDebian(ctx context.Context, root, disk string) error {
	packages, err := filepath.Glob(filepath.Join(root, "var/cache/apt/archives/*.deb"))
	if err != nil {
		return err
	}
	for _, file := range packages {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/machine-id"), nil, 0o444); err != nil {
		return err
	}
	raw := disk + ".raw"
	if err := runTool(ctx, "mke2fs", "-q", "-t", "ext4", "-d", root, raw, debianDiskSize); err != nil {
		return err
	}
	return errors.Join(runTool(ctx, "qemu-img", "convert", "-O", "qcow2", raw, disk), os.Remove(raw))
}

// runTool runs a program until the context ends. The end of what it printed becomes part of the error: debootstrap prints its errors to either output.
func runTool(ctx context.Context, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out[max(0, len(out)-2000):])
	}
	return nil
}
