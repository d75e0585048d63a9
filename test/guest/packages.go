package guest

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// kernelPackage is the meta package of the full kernel; the cloud flavour lacks drivers (see essential).
var kernelPackage = map[string]string{"amd64": "linux-image-amd64", "arm64": "linux-image-arm64"}

// findKernel takes an installed kernel if one has the drivers, else one unpacked into the cache by an
// earlier run, else fetches Debian's. Unpacking spares the installation: no initramfs, no boot loader.
func findKernel() (kernelSource, error) {
	installed, err := kernelsIn("/")
	if err != nil {
		return kernelSource{}, err
	}
	if source, found := firstComplete(installed, essential); found {
		return source, nil
	}
	name, known := kernelPackage[runtime.GOARCH]
	if !known {
		return kernelSource{}, fmt.Errorf("no guest kernel is known for architecture '%s'", runtime.GOARCH)
	}
	return unpackedKernel(name, essential)
}

// unpackedKernel returns the kernel of a package, which is fetched if this user has not done so before.
func unpackedKernel(name string, modules []string) (kernelSource, error) {
	root, err := unpackedPackage(name)
	if err != nil {
		return kernelSource{}, err
	}
	found, err := kernelsIn(root)
	if err != nil {
		return kernelSource{}, err
	}
	if source, ok := firstComplete(found, modules); ok {
		return source, nil
	}
	return kernelSource{}, fmt.Errorf("package '%s' unpacked in %s holds no kernel with modules %s; "+
		"remove that directory to fetch it again", name, root, strings.Join(modules, " "))
}

// firstComplete passes over kernels without the modules, and images that only root may read.
func firstComplete(sources []kernelSource, modules []string) (kernelSource, bool) {
	for _, source := range sources {
		if source.checkComplete(modules) == nil {
			return source, true
		}
	}
	return kernelSource{}, false
}

// kernelsIn lists the kernels below root, newest name first.
func kernelsIn(root string) ([]kernelSource, error) {
	images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil {
		return nil, err
	}
	// Trap: texts are sorted, not versions, so 6.9 comes after 6.12. Any complete kernel serves.
	slices.Sort(images)
	slices.Reverse(images)
	var out []kernelSource
	for _, image := range images {
		release := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
		// On a system with a merged /usr both names are one directory.
		for _, lib := range []string{"lib/modules", "usr/lib/modules"} {
			modules := filepath.Join(root, lib, release, "kernel")
			if _, err := os.Stat(modules); err == nil {
				out = append(out, kernelSource{image: image, modules: modules})
				break
			}
		}
	}
	return out, nil
}

// findBusybox returns a statically linked busybox: the guest has no libraries.
func findBusybox() (string, error) {
	candidates := []string{"bin/busybox", "usr/bin/busybox"}
	for _, path := range candidates {
		if isStatic(filepath.Join("/", path)) {
			return filepath.Join("/", path), nil
		}
	}
	root, err := unpackedPackage("busybox-static")
	if err != nil {
		return "", err
	}
	for _, path := range candidates {
		if isStatic(filepath.Join(root, path)) {
			return filepath.Join(root, path), nil
		}
	}
	return "", fmt.Errorf("package 'busybox-static' unpacked in %s holds no static busybox", root)
}

// isStatic reports whether a file is an ELF program without an interpreter, which is the dynamic loader. It is false for what cannot be read.
func isStatic(path string) bool {
	file, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// unpackedPackage returns the directory that holds the files of a Debian package, fetching it if this user
// has not done so before. Two processes that fetch at once both succeed: the first rename counts.
func unpackedPackage(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("package '%s' is not installed, and there is no place to unpack it: %w", name, err)
	}
	root := filepath.Join(cache, "kiln", "guest", name)
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(root), "fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	err = fetchPackage(name, work)
	if err != nil && os.Geteuid() == 0 {
		// The lists of packages may be absent, or so old that the version they name is gone.
		if _, update := runCommand(work, "apt-get", "update", "-qq"); update == nil {
			err = fetchPackage(name, work)
		}
	}
	if err != nil {
		return "", fmt.Errorf("package '%s' is not installed and cannot be fetched (install it, or run apt-get update first): %w", name, err)
	}
	if err := os.Rename(filepath.Join(work, "files"), root); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return root, nil
}

// fetchPackage downloads a package, or what a meta package stands for, and unpacks it into work/files.
func fetchPackage(name, work string) error {
	real := name
	if strings.HasPrefix(name, "linux-image-") {
		// "linux-image-amd64" is empty and depends on the kernel of the day.
		out, err := runCommand(work, "apt-cache", "depends", "--important", name)
		if err != nil {
			return err
		}
		_, after, found := strings.Cut(out, "Depends: ")
		if !found {
			return fmt.Errorf("apt-cache names no kernel for '%s'", name)
		}
		// apt-cache prints one line 'Depends: NAME' for each; the kernel is the first.
		real, _, _ = strings.Cut(after, "\n")
	}
	if _, err := runCommand(work, "apt-get", "download", "-qq", real); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("apt-get download %s left %d files: %w", real, len(files), err)
	}
	_, err = runCommand(work, "dpkg-deb", "-x", files[0], filepath.Join(work, "files"))
	return err
}

// runCommand returns what the command printed; its complaint becomes the error.
func runCommand(dir, name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir = dir
	// The answer of apt-cache is parsed: it must not be translated.
	command.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}
