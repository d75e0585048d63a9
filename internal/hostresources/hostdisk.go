package hostresources

import (
	"fmt"
	"path"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// reservedFolders are the folders below --volume-root in which a hostDisk is refused: a guest would write into images that all guests boot from, or read
// keys, because earlier releases kept claims there.
var reservedFolders = []string{imagesDir, "claims"}

// checkHostDiskPath returns an error if a path, relative to --volume-root, is in a reserved folder.
func checkHostDiskPath(rel string) error {
	if slices.ContainsFunc(reservedFolders, func(dir string) bool { return rel == dir || isInside(rel, dir) }) {
		return fmt.Errorf("'%s' is in a folder that is reserved for the machine's administrator; use another folder below --volume-root", rel)
	}
	return nil
}

// hostDisk returns a raw image by path. Its format is never detected, because a guest can write any header into its own disk.
func (h *BareMachine) hostDisk(disk *v1.HostDisk) (volumeSource, error) {
	rel, err := h.Volumes.Below(disk.Path)
	if err == nil {
		err = checkHostDiskPath(rel)
	}
	if err != nil {
		return volumeSource{}, err
	}
	if disk.Type == v1.HostDiskExistsOrCreate {
		if err := h.createDisk(rel, disk); err != nil {
			return volumeSource{}, err
		}
	}
	file, info, err := h.Volumes.File(rel)
	if err != nil {
		return volumeSource{}, err
	}
	// A link of the administrator may also lead into a reserved folder.
	if rel, err = h.Volumes.Below(file); err == nil {
		err = checkHostDiskPath(rel)
	}
	return volumeSource{Volume: backend.Volume{Path: file, Format: "raw", Block: !info.Mode().IsRegular()}}, err
}

// createDisk creates a hostDisk in an existing folder, unless the disk exists. The folder is resolved first: a link in the path could lead into a reserved
// folder.
func (h *BareMachine) createDisk(rel string, disk *v1.HostDisk) error {
	if disk.Capacity.Cmp(resource.Quantity{}) <= 0 {
		return fmt.Errorf("type '%s' requires a 'capacity' greater than zero", disk.Type)
	}
	folder, err := h.Volumes.resolveLinks(path.Dir(rel))
	if err != nil {
		return err
	}
	file := path.Join(folder, path.Base(rel))
	if err := checkHostDiskPath(file); err != nil {
		return err
	}
	return h.Volumes.Create(file, roundUpToBlock(disk.Capacity.Value()))
}
