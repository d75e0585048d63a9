// Package kiln builds the image 'kiln', which contains only the webhook, the controller, the API server of subresources and the command line. The file
// Containerfile builds the same image with podman, buildah or docker.
package kiln

import (
	"context"
	_ "embed"
	"path/filepath"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/manifests/images/programs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Programs are the programs of the image, which are in its root folder.
var Programs = []string{"webhook", "controller", "apiserver", "kubectl-kiln"}

// passwd and group name the account User: 'id' and Go's os/user look up its name.
var (
	//go:embed passwd
	passwd string
	//go:embed group
	group string
)

// User is the account of the programs. manifests/webhook and manifests/controller use the same one.
const User = "65532:65532"

// Image builds the image for a platform. The folder work contains the programs, and must exist until the image is written.
func Image(ctx context.Context, from programs.Sources, p programs.Platform, work string) (archive.Image, error) {
	dir := filepath.Join(work, p.OS+"-"+p.Architecture)
	if err := from.Build(ctx, p, dir, Programs...); err != nil {
		return archive.Image{}, err
	}
	return ImageOf(from, p, dir)
}

// ImageOf returns the image with the programs in a folder. They are read when the image is written.
func ImageOf(from programs.Sources, p programs.Platform, dir string) (archive.Image, error) {
	image := archive.Image{OS: p.OS, Architecture: p.Architecture, Root: &archive.Root{}, Config: imageConfig(from)}
	for _, name := range Programs {
		if err := image.Root.AddFile(name, filepath.Join(dir, name), 0o755); err != nil {
			return image, err
		}
	}
	for name, text := range map[string]string{"etc/passwd": passwd, "etc/group": group} {
		if err := image.Root.AddText(name, text, 0o644); err != nil {
			return image, err
		}
	}
	return image, nil
}

// imageConfig returns the configuration of the image. The entrypoint is kubectl-kiln; the Deployments run other programs of the image by
// `command`.
func imageConfig(from programs.Sources) archive.Config {
	labels := map[string]string{
		ocispec.AnnotationTitle:       "kiln",
		ocispec.AnnotationDescription: "The VM configuration pipeline for Kubernetes: webhook, controller, API server of subresources and command line",
		ocispec.AnnotationVersion:     from.Version,
		ocispec.AnnotationLicenses:    "Apache-2.0",
	}
	if from.Revision != "" {
		labels[ocispec.AnnotationRevision] = from.Revision
	}
	return archive.Config{Entrypoint: []string{"/kubectl-kiln"}, User: User, Labels: labels, Created: from.Time}
}
