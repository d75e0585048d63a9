package hostresources

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	v1 "kubevirt.io/api/core/v1"
)

// A bare machine has no container runtime. Its administrator unpacks the tree of image 'registry.example/demo:1' into the folder
// containers/registry.example/demo:1 below --volume-root.

const imagesDir = "containers"

// openImage opens the tree of an image. Links in the tree cannot lead out of it, because the author of the image is not trusted.
func (r *Root) openImage(name string) (*Root, error) {
	if r == nil {
		return nil, errNoRoot
	}
	if _, err := reference.Parse(name); err != nil {
		return nil, fmt.Errorf("'%s' is not a valid image name: %w", name, err)
	}
	rel := path.Join(imagesDir, name)
	real, err := r.resolveLinks(rel)
	if err != nil {
		return nil, err
	}
	if real != rel { // 'registry:1/tag' may be in the tree of image 'registry:1', whose author made the link
		return nil, fmt.Errorf("the path of image '%s' contains a symbolic link, which is not allowed", name)
	}
	dir := filepath.Join(r.dir, real)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, r.userError(real, err)
	}
	return &Root{root: root, dir: dir, name: fmt.Sprintf("image '%s'", name)}, nil
}

// regularFile returns the path of a regular file in a tree. For an empty file it returns the only disk in /disk, as KubeVirt does for images.
func (r *Root) regularFile(file string) (string, error) {
	rel := strings.TrimPrefix(path.Join("/", file), "/")
	if file == "" {
		disks, err := r.Glob("disk", ".img", ".qcow2", ".raw")
		if err != nil {
			return "", err
		}
		if len(disks) == 0 { // KubeVirt accepts a file of any name
			disks, err = r.Glob("disk", "")
		}
		if err != nil {
			return "", err
		}
		if len(disks) != 1 {
			return "", fmt.Errorf("%s has %d disks in /disk; choose one with 'path'", r.name, len(disks))
		}
		rel = disks[0]
	}
	real, info, err := r.File(cmp.Or(rel, "."))
	if err == nil && !info.Mode().IsRegular() { // a device of the host
		err = fmt.Errorf("'%s' of %s is not a regular file", file, r.name)
	}
	return real, err
}

// containerDisk describes an overlay over the disk in an image's tree. The tree stays read-only.
func (h *BareMachine) containerDisk(ctx context.Context, disk *v1.ContainerDiskSource, path string) (volumeSource, error) {
	tree, err := h.Volumes.openImage(disk.Image)
	if err != nil {
		return volumeSource{}, err
	}
	defer tree.Close()
	return tree.overlayOf(ctx, disk.Path, path)
}

// overlayOf describes an overlay at path over a disk in an image's tree.
func (r *Root) overlayOf(ctx context.Context, file, path string) (volumeSource, error) {
	base, err := r.regularFile(file)
	if err != nil {
		return volumeSource{}, err
	}
	format, err := imageFormat(ctx, base)
	if err != nil {
		return volumeSource{}, err
	}
	return overlayFile(path, backend.Volume{Path: base, Format: format}), nil
}
