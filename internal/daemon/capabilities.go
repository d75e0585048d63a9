package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Capabilities is the folder of the image with libvirt's cached capabilities of QEMU: one file for each emulator, with the name that libvirt gives it.
const Capabilities = "/usr/share/kiln/capabilities"

// Origin names the files that determine the capabilities, with their paths in the image. It is stored beside the capabilities.
type Origin struct {
	// Emulator is the binary of QEMU, Modules the folder of its modules.
	Emulator string `json:"emulator"`
	Modules  string `json:"modules"`
	// Daemon is libvirtd and the drivers that it loads, Libraries are further files that determine the capabilities.
	Daemon    []string `json:"daemon"`
	Libraries []string `json:"libraries"`
	// Digests are the digests of all these files, by their paths.
	Digests map[string]string `json:"digests"`
}

// origin is the name of the file with the Origin.
const origin = "origin.json"

// cached is the folder below XDG_CACHE_HOME in which a libvirtd of session mode keeps capabilities.
const cached = "libvirt/qemu/cache/capabilities"

// KeepCapabilities copies the capabilities that a libvirtd of the image below root has cached into dir, with their Origin. It leaves out the times of this
// unpacking, so that the same QEMU gives the same bytes.
func KeepCapabilities(root, cacheHome string, from Origin, dir string) error {
	found, err := filepath.Glob(filepath.Join(cacheHome, cached, "*.xml"))
	if err != nil || len(found) == 0 {
		return errors.Join(err, fmt.Errorf("libvirtd has cached no capabilities below '%s'", cacheHome))
	}
	if from.Digests, err = from.fileDigests(root); err != nil {
		return err
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if text, err = (times{}).setInFile(text); err != nil {
			return fmt.Errorf("'%s': %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o644); err != nil {
			return err
		}
	}
	raw, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, origin), append(raw, '\n'), 0o644)
}

// ProvideCapabilities copies the capabilities of the image below root, which is '/' in a pod, into the cache of a libvirtd with this XDG_CACHE_HOME. libvirtd
// must be started afterwards, by its path. An error means that the image has no capabilities, or that QEMU or libvirt was replaced since they were probed.
// Then libvirtd probes QEMU itself, which takes some seconds and is always right.
//
// libvirt accepts a cached file whose times are the ctimes of the emulator, and of libvirtd with its drivers, and the mtime of the folder of modules
// (virQEMUCapsIsValid in its src/qemu/qemu_capabilities.c). In a container these are the times of unpacking, so ProvideCapabilities sets them. If the account
// may use /dev/kvm, libvirt probes QEMU anyway, because its capabilities then depend on the processor, its microcode and the kernel of the node.
func ProvideCapabilities(root, cacheHome string) error {
	raw, err := os.ReadFile(filepath.Join(root, Capabilities, origin))
	if err != nil {
		return err
	}
	var from Origin
	if err := json.Unmarshal(raw, &from); err != nil {
		return fmt.Errorf("'%s' of the image: %w", origin, err)
	}
	now, err := from.fileDigests(root)
	if err != nil {
		return err
	}
	if !maps.Equal(now, from.Digests) {
		return fmt.Errorf("these files of QEMU or libvirt in the image differ from the files whose capabilities it has: %q", differingFiles(now, from.Digests))
	}
	at, err := from.fileTimes(root)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root, Capabilities, "*.xml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, errors.New("the image has no capabilities"))
	}
	for _, file := range files {
		if err := provideFile(file, filepath.Join(cacheHome, cached), at); err != nil {
			return err
		}
	}
	return nil
}

// provideFile copies one file. It does not replace a file with the same times, so that a container that starts again in its pod finds the capabilities that
// libvirtd has probed with /dev/kvm.
func provideFile(file, dir string, at times) error {
	to := filepath.Join(dir, filepath.Base(file))
	if had, err := os.ReadFile(to); err == nil {
		if same, err := at.setInFile(had); err == nil && bytes.Equal(same, had) {
			return nil
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if text, err = at.setInFile(text); err != nil {
		return fmt.Errorf("'%s': %w", file, err)
	}
	return replaceFile(to, text)
}

// fileDigests returns the digests of all files that determine the capabilities, by their paths.
func (o Origin) fileDigests(root string) (map[string]string, error) {
	names := slices.Concat([]string{o.Emulator}, o.Daemon, o.Libraries)
	modules, err := os.ReadDir(filepath.Join(root, o.Modules))
	if err != nil {
		return nil, err
	}
	for _, module := range modules {
		names = append(names, filepath.Join(o.Modules, module.Name()))
	}
	out := map[string]string{}
	for _, name := range names {
		if out[name], err = fileDigest(filepath.Join(root, name)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func fileDigest(name string) (text string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// differingFiles returns the files that two sets of digests differ in.
func differingFiles(a, b map[string]string) []string {
	names := map[string]bool{}
	for _, set := range []map[string]string{a, b} {
		for name := range set {
			if a[name] != b[name] {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
