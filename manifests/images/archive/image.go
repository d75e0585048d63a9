package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Image is an image for one platform.
type Image struct {
	// OS and Architecture are Go's words: linux, amd64.
	OS, Architecture string
	Root             *Root
	Config           Config
}

// Config is the configuration of an image: how its containers start, and its labels.
type Config struct {
	Entrypoint []string
	// User is numeric, such as '65532:65532', so that a kubelet can verify that it is not root.
	User string
	Env  []string
	// Labels are repeated as annotations of the manifest.
	Labels map[string]string
	// Created must depend only on the sources, such as the time of their commit. The zero value means the start of Unix time.
	Created time.Time
}

// containerdName is the annotation from which 'ctr images import' takes the name of an image.
const containerdName = "io.containerd.image.name"

// Write writes an archive with one image, or with an index of images for several platforms. name is the name of the image with a tag, such as
// 'docker.io/library/kiln:v1.0.0'. The file appears only when it is complete.
func Write(file, name string, images ...Image) (err error) {
	named, err := reference.ParseNormalizedNamed(name)
	tagged, ok := named.(reference.NamedTagged)
	if err != nil || !ok {
		return fmt.Errorf("'%s' must be the name of an image with a tag, such as 'docker.io/library/kiln:v1.0.0'", name)
	}
	work, err := os.MkdirTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	// Readers of layouts find an image by its tag, and containerd by its whole name.
	annotations := layout.WithAnnotations(map[string]string{ocispec.AnnotationRefName: tagged.Tag(), containerdName: tagged.String()})
	folder := filepath.Join(work, "layout")
	if err := writeLayout(folder, annotations, images); err != nil {
		return err
	}
	complete := filepath.Join(work, "complete.tar")
	if err := PackFolder(folder, complete); err != nil {
		return err
	}
	return os.Rename(complete, file)
}

// writeLayout writes an OCI image layout.
func writeLayout(folder string, annotations layout.Option, images []Image) error {
	to, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		built, err := i.buildImage()
		if err != nil {
			return err
		}
		if len(images) == 1 {
			return to.AppendImage(built, annotations, layout.WithPlatform(i.platform()))
		}
		platform := i.platform()
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: built, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return to.AppendIndex(index, annotations)
}

func (i Image) platform() v1.Platform { return v1.Platform{OS: i.OS, Architecture: i.Architecture} }

// buildImage returns the image: one layer, its configuration and its manifest.
func (i Image) buildImage() (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(i.Root.openTar, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = i.OS, i.Architecture
	file.Created = v1.Time{Time: i.Config.creationTime()}
	file.History = []v1.History{{Created: file.Created, CreatedBy: "manifests/images"}}
	file.Config = v1.Config{Entrypoint: i.Config.Entrypoint, User: i.Config.User, Env: i.Config.Env, Labels: i.Config.Labels}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return nil, err
	}
	if len(i.Config.Labels) == 0 {
		return image, nil
	}
	annotated, ok := mutate.Annotations(image, maps.Clone(i.Config.Labels)).(v1.Image)
	if !ok {
		return nil, errors.New("the library returned no image")
	}
	return annotated, nil
}

func (c Config) creationTime() time.Time {
	if c.Created.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return c.Created.UTC().Truncate(time.Second)
}

// openTar returns a reader of the tar archive. go-containerregistry calls it several times.
func (r *Root) openTar() (io.ReadCloser, error) {
	out, in := io.Pipe()
	go func() { in.CloseWithError(r.WriteTar(in)) }()
	return out, nil
}

// PackFolder writes a folder, such as an OCI layout, as a tar archive, with modes that do not depend on the umask of this process. go-containerregistry writes
// layouts only into folders, and tar archives only in docker's format; oras only reads archives of layouts.
func PackFolder(folder, file string) (err error) {
	var root Root
	err = filepath.WalkDir(folder, func(name string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() {
			return err
		}
		inside, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		return root.AddFile(filepath.ToSlash(inside), name, 0o644)
	})
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return root.WriteTar(out)
}

// Paths returns the sorted paths of all files, folders and links that were added.
func (r *Root) Paths() []string {
	return slices.SortedFunc(maps.Keys(r.entries), strings.Compare)
}
