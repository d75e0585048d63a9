package launch

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/backend"
)

// A bare machine has no container runtime. The tree of image 'registry.example/demo:1' is the folder
// containers/registry.example/demo:1 below --volume-root, unpacked there by its administrator.

const imagesDir = "containers"

// imageFile is the path below the root of a file in an image's tree. An empty file means the one disk in /disk.
func (r *Root) imageFile(image, file string) (string, error) {
	if image == "" || !filepath.IsLocal(image) {
		return "", fmt.Errorf("image '%s' is not a name that can be a folder", image)
	}
	tree := path.Join(imagesDir, image)
	if file != "" {
		return path.Join(tree, path.Join("/", file)), nil
	}
	disks, err := r.Glob(path.Join(tree, "disk"), ".img", ".qcow2", ".raw")
	if err != nil {
		return "", err
	}
	if len(disks) != 1 {
		return "", fmt.Errorf("image '%s' has %d disks in /disk, want one; name it with 'path'", image, len(disks))
	}
	return disks[0], nil
}

// probe asks qemu-img for the format of an image that is not to be trusted: one that refers to further files is refused,
// since a guest would read them with QEMU's rights.
func probe(file string) (string, error) {
	out, err := exec.Command("qemu-img", "info", "--output=json", "--", file).Output()
	if err != nil {
		return "", fmt.Errorf("qemu-img cannot read '%s': %w", filepath.Base(file), execError(err))
	}
	var info struct {
		Format   string `json:"format"`
		Backing  string `json:"backing-filename"`
		Specific struct {
			Data struct {
				DataFile string `json:"data-file"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return "", fmt.Errorf("qemu-img: %w", err)
	}
	if info.Backing != "" || info.Specific.Data.DataFile != "" {
		return "", fmt.Errorf("image '%s' refers to another file, which is not served", filepath.Base(file))
	}
	if info.Format != "raw" && info.Format != "qcow2" {
		return "", fmt.Errorf("image '%s' has format '%s', want raw or qcow2", filepath.Base(file), info.Format)
	}
	return info.Format, nil
}

// overlay makes a qcow2 file over a read-only image, so that a guest's writes last as long as its VMI.
func overlay(file, base, format string) (backend.Volume, error) {
	volume := backend.Volume{Path: file, Format: "qcow2", Backing: base, BackingFormat: format}
	if readable(file) {
		return volume, nil
	}
	return volume, qemuImg("create", "-q", "-f", "qcow2", "-F", format, "-b", base, "--", file)
}

// emptyDisk makes a sparse qcow2 file of size bytes.
func emptyDisk(file string, size int64) (backend.Volume, error) {
	volume := backend.Volume{Path: file, Format: "qcow2"}
	if readable(file) {
		return volume, nil
	}
	return volume, qemuImg("create", "-q", "-f", "qcow2", "--", file, fmt.Sprint(size))
}

func qemuImg(args ...string) error {
	if _, err := exec.Command("qemu-img", args...).Output(); err != nil {
		return fmt.Errorf("qemu-img %s: %w", args[0], execError(err))
	}
	return nil
}

// execError prefers what the program said over its exit status.
func execError(err error) error {
	if exit, ok := err.(*exec.ExitError); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%s", strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
