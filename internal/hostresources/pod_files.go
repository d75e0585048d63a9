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

// Labels of the images, KubeVirt's.
const (
	filesLabel   = "cfgdata"
	sysprepLabel = "unattend"
)

// fileLabel returns the label of the image of a volume of files; false for other volumes.
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

// fileImage describes an ISO of the files of a volume.
func (p *Pod) fileImage(volume, path, label string) (source, error) {
	tree, err := p.mount(volume)
	if err != nil {
		return source{}, err
	}
	defer tree.Close()
	files := map[string]string{}
	if err := tree.collect(".", files); err != nil {
		return source{}, err
	}
	content, err := namedISO(label, files)
	return image(path, content), err
}

// Bounds of a volume of files: a ConfigMap or Secret has at most 1 MiB, in keys and values together.
const (
	mostBytes = 2 << 20
	mostFiles = 4096
)

// collect reads the files of a folder and its subfolders. kubelet keeps the data in folders whose names begin with '..', and links to it: names of
// keys cannot begin so.
func (r *Root) collect(dir string, files map[string]string) error {
	entries, err := fs.ReadDir(r.root.FS(), dir)
	if err != nil {
		return r.explain(dir, err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		rel := path.Join(dir, entry.Name())
		info, err := r.root.Stat(rel)
		switch {
		case err != nil:
			return r.explain(rel, err)
		case info.IsDir():
			err = r.collect(rel, files)
		default:
			err = r.addFile(rel, files)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addFile reads one file. It refuses what does not fit.
func (r *Root) addFile(rel string, files map[string]string) error {
	left := int64(mostBytes)
	for _, content := range files {
		left -= int64(len(content))
	}
	content, err := r.read(rel, left+1)
	if err != nil {
		return err
	}
	if int64(len(content)) > left || len(files) == mostFiles {
		return fmt.Errorf("%s has more than %d bytes or %d files", r.name, mostBytes, mostFiles)
	}
	files[rel] = string(content)
	return nil
}

// firstOf returns the content of the first file of these names in a folder; empty if it has none of them.
func (r *Root) firstOf(names ...string) (string, error) {
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
