package hostresources

import (
	"fmt"
	"path"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// administrators are the folders below --volume-root in which no hostDisk may be: a guest would write into images that all boot from, or read the
// keys of others, since earlier releases kept claims there.
var administrators = []string{imagesDir, "claims"}

// checkHostDiskPath refuses a path, relative to --volume-root, in one of the administrator's folders.
func checkHostDiskPath(rel string) error {
	if slices.ContainsFunc(administrators, func(dir string) bool { return rel == dir || below(rel, dir) }) {
		return fmt.Errorf("'%s' is in a folder that is reserved for the machine's administrator; use another folder below --volume-root", rel)
	}
	return nil
}

// hostDisk binds a raw image by path. Its format is never probed: a guest can write any header into its own disk.
func (h *BareMachine) hostDisk(disk *v1.HostDisk) (source, error) {
	rel, err := h.Volumes.Below(disk.Path)
	if err == nil {
		err = checkHostDiskPath(rel)
	}
	if err != nil {
		return source{}, err
	}
	if disk.Type == v1.HostDiskExistsOrCreate {
		if err := h.createDisk(rel, disk); err != nil {
			return source{}, err
		}
	}
	file, info, err := h.Volumes.File(rel)
	if err != nil {
		return source{}, err
	}
	// The administrator's links may lead into those folders too.
	if rel, err = h.Volumes.Below(file); err == nil {
		err = checkHostDiskPath(rel)
	}
	return source{Volume: backend.Volume{Path: file, Format: "raw", Block: !info.Mode().IsRegular()}}, err
}

// createDisk creates a hostDisk unless it exists, in an existing folder. The folder is resolved first: a link in the path could lead into one of the
// administrator's folders.
func (h *BareMachine) createDisk(rel string, disk *v1.HostDisk) error {
	if disk.Capacity.Cmp(resource.Quantity{}) <= 0 {
		return fmt.Errorf("type '%s' requires a 'capacity' greater than zero", disk.Type)
	}
	folder, err := h.Volumes.resolve(path.Dir(rel))
	if err != nil {
		return err
	}
	file := path.Join(folder, path.Base(rel))
	if err := checkHostDiskPath(file); err != nil {
		return err
	}
	return h.Volumes.Create(file, aligned(disk.Capacity.Value()))
}
