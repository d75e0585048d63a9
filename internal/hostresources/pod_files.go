package hostresources

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// Volumes of ConfigMaps, Secrets, service accounts, the downward API and Sysprep become ISO images of their files, as in KubeVirt.

// Labels of the images, as in KubeVirt.
const (
	filesLabel   = "cfgdata"
	sysprepLabel = "unattend"
)

// fileLabel returns the label of the image for a volume of files, and false for other volumes.
func fileLabel(volume v1.Volume) (label string, known bool) {
	switch {
	case volume.ConfigMap != nil:
		return cmp.Or(volume.ConfigMap.VolumeLabel, filesLabel), true
	case volume.Secret != nil:
		return cmp.Or(volume.Secret.VolumeLabel, filesLabel), true
	case volume.DownwardAPI != nil:
		return cmp.Or(volume.DownwardAPI.VolumeLabel, filesLabel), true
	case volume.ServiceAccount != nil:
		return filesLabel, true
	case volume.Sysprep != nil:
		return sysprepLabel, true
	}
	return "", false
}

// fileImage describes an ISO with the files of a volume.
func (p *Pod) fileImage(volume, path, label string) (volumeSource, error) {
	tree, err := p.openVolume(volume)
	if err != nil {
		return volumeSource{}, err
	}
	defer tree.Close()
	files := map[string]string{}
	if err := tree.collectFiles(".", files); err != nil {
		return volumeSource{}, err
	}
	content, err := buildNamedISO(label, files)
	return isoVolume(path, content), err
}

// Limits of a volume of files. A ConfigMap or Secret has at most 1 MiB, in keys and values together.
const (
	maxFileBytes = 2 << 20
	maxFiles     = 4096
)

// collectFiles reads the files of a folder and its subfolders. It skips names that begin with '..', which keys cannot have: kubelet keeps the data in such
// folders, and the other names are links to it.
func (r *Root) collectFiles(dir string, files map[string]string) error {
	entries, err := fs.ReadDir(r.root.FS(), dir)
	if err != nil {
		return r.userError(dir, err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		rel := path.Join(dir, entry.Name())
		info, err := r.root.Stat(rel)
		switch {
		case err != nil:
			return r.userError(rel, err)
		case info.IsDir():
			err = r.collectFiles(rel, files)
		default:
			err = r.addFile(rel, files)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addFile reads one file. It returns an error if the files exceed the limits.
func (r *Root) addFile(rel string, files map[string]string) error {
	left := int64(maxFileBytes)
	for _, content := range files {
		left -= int64(len(content))
	}
	content, err := r.readBounded(rel, left+1)
	if err != nil {
		return err
	}
	if int64(len(content)) > left || len(files) == maxFiles {
		return fmt.Errorf("%s has more than %d bytes or %d files", r.name, maxFileBytes, maxFiles)
	}
	files[rel] = string(content)
	return nil
}

// readFirst returns the content of the first file of these names that exists; empty if none does.
func (r *Root) readFirst(names ...string) (string, error) {
	for _, name := range names {
		if _, err := r.root.Stat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		files := map[string]string{}
		err := r.addFile(name, files)
		return files[name], err
	}
	return "", nil
}
