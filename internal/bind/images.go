package bind

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/kilnvm/kiln/pkg/domain/backend"
)

// A bare machine has no container runtime. The tree of image 'registry.example/demo:1' is the folder
// containers/registry.example/demo:1 below --volume-root, unpacked there by its administrator.

const imagesDir = "containers"

// image opens the tree of an image. Its author is not trusted: no link in it leads out of it.
func (r *Root) image(name string) (*Root, error) {
	if r == nil {
		return nil, errNoRoot
	}
	if _, err := reference.Parse(name); err != nil {
		return nil, fmt.Errorf("'%s' is not a valid image name: %w", name, err)
	}
	rel := path.Join(imagesDir, name)
	real, err := r.resolve(rel)
	if err != nil {
		return nil, err
	}
	if real != rel { // 'registry:1/tag' may be in the tree of image 'registry:1', whose author made the link
		return nil, fmt.Errorf("the path of image '%s' contains a symbolic link, which is not allowed", name)
	}
	dir := filepath.Join(r.dir, real)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, r.explain(real, err)
	}
	return &Root{root: root, dir: dir, name: fmt.Sprintf("image '%s'", name)}, nil
}

// imageFile returns the path of a regular file in an image's tree. An empty file means the only disk in /disk.
func (r *Root) imageFile(image, file string) (string, error) {
	tree, err := r.image(image)
	if err != nil {
		return "", err
	}
	defer tree.root.Close()
	rel := strings.TrimPrefix(path.Join("/", file), "/")
	if file == "" {
		disks, err := tree.Glob("disk", ".img", ".qcow2", ".raw")
		if err != nil {
			return "", err
		}
		if len(disks) != 1 {
			return "", fmt.Errorf("image '%s' has %d disks in /disk; choose one with 'path'", image, len(disks))
		}
		rel = disks[0]
	}
	real, info, err := tree.File(cmp.Or(rel, "."))
	if err == nil && !info.Mode().IsRegular() { // a device of the host
		err = fmt.Errorf("'%s' of image '%s' is not a regular file", file, image)
	}
	return real, err
}

// probe returns the format of an image that is not trusted, by qemu-img. It refuses an image that refers to other files: the guest would
// read them with QEMU's rights.
func probe(ctx context.Context, file string) (string, error) {
	out, err := runQemuImg(ctx, "info", "--output=json", "--", file)
	if err != nil {
		return "", fmt.Errorf("qemu-img cannot read '%s': %w", filepath.Base(file), err)
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
		return "", fmt.Errorf("image '%s' refers to another file, which is not allowed", filepath.Base(file))
	}
	if info.Format != "raw" && info.Format != "qcow2" {
		return "", fmt.Errorf("image '%s' has format '%s'; it must be raw or qcow2", filepath.Base(file), info.Format)
	}
	return info.Format, nil
}

// overlay creates a qcow2 file over a read-only image. The guest's writes last as long as its VMI.
func overlay(ctx context.Context, file, base, format string) (backend.Volume, error) {
	volume := backend.Volume{Path: file, Format: "qcow2", Backing: base, BackingFormat: format}
	return volume, once(file, func(draft string) error {
		return qemuImg(ctx, "create", "-q", "-f", "qcow2", "-F", format, "-b", base, "--", draft)
	})
}

// emptyDisk creates a sparse qcow2 file of size bytes.
func emptyDisk(ctx context.Context, file string, size int64) (backend.Volume, error) {
	return backend.Volume{Path: file, Format: "qcow2"}, once(file, func(draft string) error {
		return qemuImg(ctx, "create", "-q", "-f", "qcow2", "--", draft, fmt.Sprint(size))
	})
}

func qemuImg(ctx context.Context, args ...string) error {
	if _, err := runQemuImg(ctx, args...); err != nil {
		return fmt.Errorf("qemu-img %s: %w", args[0], err)
	}
	return nil
}

// qemuImgDeadline bounds a call of qemu-img, which hangs when the server of an image does. Here it normally takes less than a second.
const qemuImgDeadline = time.Minute

func runQemuImg(ctx context.Context, args ...string) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, qemuImgDeadline)
	defer cancel()
	out, err := exec.CommandContext(within, "qemu-img", args...).Output()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && within.Err() != nil:
		return nil, fmt.Errorf("no result within %s: the server of the image may be down", qemuImgDeadline)
	case err != nil:
		return nil, execError(err)
	}
	return out, nil
}

// execError returns the program's standard error, or its exit status if that is empty.
func execError(err error) error {
	if exit, ok := err.(*exec.ExitError); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%s", strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
