// Package images makes images of KubeVirt v1.9.0 as package manifests/images makes Kiln's own: of programs that Go builds and of files of Debian's packages,
// without a container engine. They stand in for the images of KubeVirt's registry, which contain packages of CentOS Stream. The programs are KubeVirt's.
//
// What KubeVirt's build (BUILD.bazel of each program, hack/rpm-deps.sh) puts into its images besides, and what is different here:
//
//   - virt-launcher has virtqemud, which Debian 12 does not build. Here it is libvirtd, which libvirt builds of the same sources, with more drivers and another
//     name of its socket: virtqemud.sh gives this socket the expected name.
//   - virt-launcher-monitor has the file capability cap_net_bind_service, which it passes on: without it, it cannot start virt-launcher.
//   - /var/run is a relative link to /run, which virt-handler follows through /proc/PID/root.
//   - /etc/libvirt has qemu.conf, virtqemud.conf and hooks/qemu of KubeVirt's sources, and virtlogd.conf of the package. The accounts are root and qemu (107),
//     and libvirt-qemu, without which Debian's libvirt does not start.
//   - node-labeller.sh needs a shell, virsh and the daemon. The hook needs bash.
//   - libvirt is 11.3 and QEMU 10.0, of Debian's backports; KubeVirt has 11.10 and 10.1. EFI firmware is Debian's, of 2022.11, see addFirmware. Firmware for
//     SEV and TDX is missing. virtiofsd is missing: Debian 12 has no package of it.
//   - virt-handler has nft, qemu-img, findmnt and others of util-linux. passt-repair is missing, which only migrations of interfaces with binding passt need.
//   - container-disk is a C program of one file, which the image virt-launcher brings into the pods of guests with container disks.
package images

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/manifests/images/debian"
	"github.com/kilnvm/kiln/test/cluster"
)

// Registry is the registry of the images that test/kubevirt/objects names.
const Registry = "registry.example/kubevirt"

// Tag is the tag of these images, and KubeVirt's version.
const Tag = "v1.9.0"

// Name returns the name of an image of KubeVirt.
func Name(program string) string { return Registry + "/" + program + ":" + Tag }

// Folders are what images are made of and in.
type Folders struct {
	// Root is the folder of this repository.
	Root string
	// Work takes programs and archives. It must exist as long as they are used.
	Work string
	// Cache keeps unpacked packages of Debian for the next time.
	Cache string
}

// Write writes the archives of all images that pods of KubeVirt run here, and returns their paths.
func Write(ctx context.Context, in Folders) (archives []string, err error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("the images of KubeVirt are made only on amd64, not on %s", runtime.GOARCH)
	}
	programs := filepath.Join(in.Work, "programs")
	if err := cluster.BuildKubeVirt(ctx, in.Root, programs, "virt-api", "virt-controller"); err != nil {
		return nil, err
	}
	if err := cluster.BuildNative(ctx, in.Root, programs, slices.Concat(ofLauncher, ofHandler)...); err != nil {
		return nil, err
	}
	sources, err := sourceFolder(ctx, in.Root)
	if err != nil {
		return nil, err
	}
	b := builder{Folders: in, programs: programs, sources: sources}
	for _, image := range []struct {
		name string
		make func(context.Context) (archive.Image, error)
	}{{"virt-api", b.single("virt-api")}, {"virt-controller", b.single("virt-controller")}, {"virt-handler", b.handler}, {"virt-launcher", b.launcher}} {
		made, err := image.make(ctx)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", image.name, err)
		}
		file := filepath.Join(in.Work, image.name+".tar")
		if err := archive.Write(file, Name(image.name), made); err != nil {
			return nil, fmt.Errorf("image %s: %w", image.name, err)
		}
		archives = append(archives, file)
	}
	return archives, nil
}

// ofLauncher and ofHandler are the programs of the images virt-launcher and virt-handler, by their folders in KubeVirt's cmd.
var (
	ofLauncher = []string{"virt-launcher", "virt-launcher-monitor", "virt-freezer", "virt-probe", "virt-tail", "virt-launcher/libvirt-hook-client"}
	ofHandler  = []string{"virt-handler", "virt-chroot"}
)

// sourceFolder returns the folder of KubeVirt's sources among Go's modules.
func sourceFolder(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "kubevirt.io/kubevirt")
	cmd.Dir = filepath.Join(root, "test", "kubevirt", "native")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("the folder of KubeVirt's sources: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// builder makes images.
type builder struct {
	Folders
	programs string // the folder of KubeVirt's programs
	sources  string // the folder of KubeVirt's sources
}

// config is the configuration of an image whose programs are in /usr/bin. KubeVirt's manifests name programs without their folders.
func config(program, user string) archive.Config {
	return archive.Config{Entrypoint: []string{"/usr/bin/" + program}, User: user, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
}

// single returns how to make the image of a program that needs nothing besides. Its account is the one of KubeVirt's image.
func (b builder) single(program string) func(context.Context) (archive.Image, error) {
	return func(context.Context) (archive.Image, error) {
		root := &archive.Root{}
		image := archive.Image{OS: "linux", Architecture: runtime.GOARCH, Root: root, Config: config(program, "1001")}
		return image, errors.Join(b.add(root, program), root.AddEmptyFolder("tmp", 0o1777))
	}
}

// add adds programs of KubeVirt to an image.
func (b builder) add(root *archive.Root, programs ...string) error {
	for _, program := range programs {
		base := filepath.Base(program)
		if err := root.AddFile("usr/bin/"+base, filepath.Join(b.programs, base), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// tree unpacks files of Debian's packages into a new image. It also returns the folder in which they are.
func (b builder) tree(ctx context.Context, s debian.Set) (root *archive.Root, folder string, err error) {
	s.Architecture = runtime.GOARCH
	unpacked, err := s.Unpack(ctx, b.Cache)
	if err != nil {
		return nil, "", err
	}
	root = &archive.Root{}
	return root, unpacked.Root, errors.Join(root.AddFolder(unpacked.Root), root.AddLink("var/run", "../run"))
}

// addSource adds a file of KubeVirt's sources.
func (b builder) addSource(root *archive.Root, name, source string, mode os.FileMode) error {
	return root.AddFile(name, filepath.Join(b.sources, source), mode)
}

// handler makes the image of virt-handler.
func (b builder) handler(ctx context.Context) (archive.Image, error) {
	image := archive.Image{OS: "linux", Architecture: runtime.GOARCH, Config: config("virt-handler", "")}
	var err error
	if image.Root, _, err = b.tree(ctx, handlerSet()); err != nil {
		return image, err
	}
	return image, errors.Join(b.add(image.Root, ofHandler...), b.addSource(image.Root, "etc/nsswitch.conf", "cmd/virt-handler/nsswitch.conf", 0o644))
}

// launcher makes the image of virt-launcher, which is also the image of the first container of virt-handler's pod.
func (b builder) launcher(ctx context.Context) (archive.Image, error) {
	image := archive.Image{OS: "linux", Architecture: runtime.GOARCH, Config: config("virt-launcher", "107")}
	root, debian, err := b.tree(ctx, launcherSet())
	if err != nil {
		return image, err
	}
	image.Root = root
	disk, err := b.containerDisk(ctx)
	if err != nil {
		return image, err
	}
	const of = "cmd/virt-launcher/"
	return image, errors.Join(
		b.add(root, ofLauncher...),
		root.SetCapabilities("usr/bin/virt-launcher-monitor", unix.CAP_NET_BIND_SERVICE),
		root.AddFile("usr/bin/container-disk", disk, 0o755),
		addFirmware(root),
		root.AddText("usr/sbin/virtqemud", virtqemud, 0o755),
		root.AddFile("usr/lib/libvirt/virtqemud", filepath.Join(debian, "usr/sbin/libvirtd"), 0o755),
		b.addSource(root, "usr/bin/node-labeller.sh", of+"node-labeller/node-labeller.sh", 0o755),
		b.addSource(root, "etc/libvirt/qemu.conf", of+"qemu.conf", 0o644),
		b.addSource(root, "etc/libvirt/virtqemud.conf", of+"virtqemud.conf", 0o644),
		root.AddEmptyFolder("etc/libvirt/hooks", 0o755),
		b.addSource(root, "etc/libvirt/hooks/qemu", of+"qemu", 0o755),
		root.SetOwner(107, "etc/libvirt/hooks", "etc/libvirt/hooks/qemu"), // virt-launcher replaces the hook
		b.addSource(root, "etc/nsswitch.conf", of+"nsswitch.conf", 0o644),
	)
}

// addFirmware links Debian's EFI firmware in the folder and by the names that it has in CentOS, where virt-launcher looks for it. The links are to files of
// 4 MiB: Debian's firmware of 2 MiB with SMM writes nothing under TCG, and uses all of its CPU.
func addFirmware(root *archive.Root) error {
	var errs []error
	for name, target := range map[string]string{
		"OVMF_CODE.fd": "OVMF_CODE_4M.fd", "OVMF_CODE.secboot.fd": "OVMF_CODE_4M.secboot.fd",
		"OVMF_VARS.fd": "OVMF_VARS_4M.fd", "OVMF_VARS.secboot.fd": "OVMF_VARS_4M.ms.fd",
	} {
		errs = append(errs, root.AddLink("usr/share/edk2/ovmf/"+name, "../../OVMF/"+target))
	}
	return errors.Join(errs...)
}

//go:embed virtqemud.sh
var virtqemud string

// containerDisk compiles the program container-disk: KubeVirt links it statically, since it runs in the images of disks, which have nothing else.
func (b builder) containerDisk(ctx context.Context) (string, error) {
	program := filepath.Join(b.programs, "container-disk")
	out, err := exec.CommandContext(ctx, "gcc", "-static", "-O2", "-o", program, filepath.Join(b.sources, "cmd/container-disk-v2alpha/main.c")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("container-disk: %w\n%s", err, out)
	}
	return program, nil
}
