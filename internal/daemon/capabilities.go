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

// Capabilities is the folder of the image with what libvirt found out about QEMU, one file for each emulator, named as libvirt names them.
const Capabilities = "/usr/share/kiln/capabilities"

// Origin is what capabilities follow from. Its paths are those of the image. It lies beside them.
type Origin struct {
	// Emulator is the binary of QEMU, Modules the folder of its modules.
	Emulator string `json:"emulator"`
	Modules  string `json:"modules"`
	// Daemon is libvirtd and the drivers that it loads, Libraries are further files that decide what it finds out.
	Daemon    []string `json:"daemon"`
	Libraries []string `json:"libraries"`
	// Digests are those of all these files, by their paths.
	Digests map[string]string `json:"digests"`
}

// origin is its file.
const origin = "origin.json"

// cached is where a libvirtd of session mode keeps capabilities, below XDG_CACHE_HOME.
const cached = "libvirt/qemu/cache/capabilities"

// Keep writes the capabilities that a libvirtd of the image below root has cached into the image's folder, with what they follow from. The same QEMU gives the
// same bytes: times of this unpacking are left out.
func Keep(root, cacheHome string, from Origin, dir string) error {
	found, err := filepath.Glob(filepath.Join(cacheHome, cached, "*.xml"))
	if err != nil || len(found) == 0 {
		return errors.Join(err, fmt.Errorf("libvirtd has cached no capabilities below '%s'", cacheHome))
	}
	if from.Digests, err = from.digests(root); err != nil {
		return err
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if text, err = (times{}).into(text); err != nil {
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

// Provide gives the capabilities of the image below root, which is '/' in a pod, to a libvirtd whose XDG_CACHE_HOME is the given folder. libvirtd must be
// started by its path after it. An error means that libvirtd probes QEMU itself, which takes it some seconds and is right in every case: the image has no
// capabilities, or QEMU or libvirt was replaced since they were probed.
//
// libvirt accepts a cached file whose times are the ctimes of the emulator, and of libvirtd with its drivers, and the mtime of the folder of modules
// (virQEMUCapsIsValid in its src/qemu/qemu_capabilities.c). In a container these are times of unpacking, so they are set here. Where the account may use
// /dev/kvm, libvirt probes all the same: what QEMU can do then depends on the processor, its microcode and the kernel of the node.
func Provide(root, cacheHome string) error {
	raw, err := os.ReadFile(filepath.Join(root, Capabilities, origin))
	if err != nil {
		return err
	}
	var from Origin
	if err := json.Unmarshal(raw, &from); err != nil {
		return fmt.Errorf("'%s' of the image: %w", origin, err)
	}
	now, err := from.digests(root)
	if err != nil {
		return err
	}
	if !maps.Equal(now, from.Digests) {
		return fmt.Errorf("the image has other files of QEMU or libvirt than those whose capabilities it has: %q", different(now, from.Digests))
	}
	at, err := from.times(root)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root, Capabilities, "*.xml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, errors.New("the image has no capabilities"))
	}
	for _, file := range files {
		if err := provide(file, filepath.Join(cacheHome, cached), at); err != nil {
			return err
		}
	}
	return nil
}

// provide leaves a file with the same times as it is: a container that starts again in its pod finds what libvirtd has found out with /dev/kvm.
func provide(file, dir string, at times) error {
	to := filepath.Join(dir, filepath.Base(file))
	if had, err := os.ReadFile(to); err == nil {
		if same, err := at.into(had); err == nil && bytes.Equal(same, had) {
			return nil
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if text, err = at.into(text); err != nil {
		return fmt.Errorf("'%s': %w", file, err)
	}
	return replace(to, text)
}

// digests reads all files that decide what libvirt finds out.
func (o Origin) digests(root string) (map[string]string, error) {
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
		if out[name], err = digest(filepath.Join(root, name)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func digest(name string) (text string, err error) {
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

// different returns the files that two sets of digests differ in.
func different(a, b map[string]string) []string {
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
