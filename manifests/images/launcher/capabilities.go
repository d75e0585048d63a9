package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/kilnvm/kiln/internal/daemon"
	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/manifests/images/debian"
	"github.com/kilnvm/kiln/manifests/images/programs"
)

// form must be changed if probe or internal/daemon keeps other files for the same QEMU, because folders in the cache are found by it.
const form = "2"

// capabilitiesFolder returns a folder with libvirt's cache about the QEMU of a tree, so that pods need not probe it. It returns an empty name for another
// platform than this machine's, and if this process may not start libvirtd: then each pod probes QEMU.
func capabilitiesFolder(ctx context.Context, p programs.Platform, tree debian.Tree, cache string) (folder string, err error) {
	if p.OS != runtime.GOOS || p.Architecture != runtime.GOARCH {
		fmt.Fprintf(os.Stderr, "images: QEMU of %s does not run here: each pod will probe it\n", p)
		return "", nil
	}
	if err := checkPrivileges(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "images: QEMU is not probed here, each pod will probe it: %v\n", err)
		return "", nil
	}
	folder, err = filepath.Abs(filepath.Join(cache, "capabilities-"+form+"-"+tree.Digest[:16]))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := debian.CompleteFolder(folder, func(work string) error { return probeQEMU(ctx, tree.Root, work) }); err != nil {
		return "", fmt.Errorf("probing QEMU: %w", err)
	}
	return folder, nil
}

// addCapabilities adds the files of the folder of capabilities to the image.
func addCapabilities(root *archive.Root, folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := root.AddFile(filepath.Join(daemon.Capabilities, file.Name()), filepath.Join(folder, file.Name()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// probeQEMU starts libvirtd of the tree, which probes QEMU, and keeps its cache in a folder. libvirtd does not see /dev/kvm, even if this machine has it.
func probeQEMU(ctx context.Context, root, to string) (err error) {
	from, err := qemuFiles(root)
	if err != nil {
		return err
	}
	state, err := makeStateFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	s, err := startSession(ctx, root, state)
	if err != nil {
		return err
	}
	defer s.kill()
	if _, err := s.domainCapabilities(); err != nil {
		return err
	}
	return daemon.KeepCapabilities(root, filepath.Join(state, "cache"), from, to)
}

// qemuFiles returns the files of a tree on which libvirt's cache about QEMU depends, by their paths in the image.
func qemuFiles(root string) (daemon.Origin, error) {
	var o daemon.Origin
	p, known := platforms[runtime.GOARCH]
	if !known {
		return o, fmt.Errorf("the image is for %s", architectureNames())
	}
	libraries := filepath.Join("/usr/lib", p.triplet)
	o.Emulator, o.Modules = filepath.Join("/usr/bin", p.qemu), filepath.Join(libraries, "qemu")
	o.Daemon = []string{"/usr/sbin/libvirtd"}
	for pattern, into := range map[string]*[]string{
		"libvirt/connection-driver/*.so": &o.Daemon,
		"libvirt.so.0":                   &o.Libraries,
	} {
		files, err := filepath.Glob(filepath.Join(root, libraries, pattern))
		if err != nil || len(files) == 0 {
			return o, errors.Join(err, fmt.Errorf("the image has no '%s'", pattern))
		}
		for _, file := range files {
			inside, err := filepath.Rel(root, file)
			if err != nil {
				return o, err
			}
			*into = append(*into, "/"+inside)
		}
	}
	return o, nil
}
