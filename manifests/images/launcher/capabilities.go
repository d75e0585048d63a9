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
)

// addCapabilities puts what libvirt finds out about QEMU into an image for this machine's platform, so that pods need not probe it. Without them, each pod
// does so.
func addCapabilities(ctx context.Context, image archive.Image, tree debian.Tree, cache string) error {
	if image.OS != runtime.GOOS || image.Architecture != runtime.GOARCH {
		fmt.Fprintf(os.Stderr, "images: QEMU of %s does not run here: each pod will probe it\n", image.Architecture)
		return nil
	}
	if err := able(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "images: QEMU is not probed, each pod will do so: %v\n", err)
		return nil
	}
	place, err := filepath.Abs(filepath.Join(cache, "capabilities-"+tree.Digest[:16]))
	if err != nil {
		return err
	}
	if _, err := os.Stat(place); err != nil {
		err := debian.Complete(place, func(work string) error { return probe(ctx, tree.Root, work) })
		if err != nil {
			return fmt.Errorf("probing QEMU: %w", err)
		}
	}
	files, err := os.ReadDir(place)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := image.Root.AddFile(filepath.Join(daemon.Capabilities, file.Name()), filepath.Join(place, file.Name()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// probe lets libvirtd of the tree find out what its QEMU can do, and keeps that in a folder. It sees no /dev/kvm, whatever this machine has.
func probe(ctx context.Context, root, to string) (err error) {
	from, err := found(root)
	if err != nil {
		return err
	}
	state, err := folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	s, err := begin(ctx, root, state)
	if err != nil {
		return err
	}
	defer s.end()
	if _, err := s.capabilities(); err != nil {
		return err
	}
	return daemon.Keep(root, filepath.Join(state, "cache"), from, to)
}

// found are the files of a tree that decide what libvirt finds out about QEMU, by their paths in the image.
func found(root string) (daemon.Origin, error) {
	var o daemon.Origin
	p, known := platforms[runtime.GOARCH]
	if !known {
		return o, fmt.Errorf("the image is for %s", names())
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
