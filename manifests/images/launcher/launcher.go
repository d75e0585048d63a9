// Package launcher builds the image of a guest's pod: the launcher, libvirt, QEMU, passt, swtpm and firmware, from packages of Debian. The file Containerfile
// builds the same image with podman, buildah or docker.
package launcher

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/manifests/images/programs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// passwd and group name the account User. qemuConf has the settings of libvirt's QEMU driver.
var (
	//go:embed passwd
	passwd string
	//go:embed group
	group string
	//go:embed qemu.conf
	qemuConf string
)

// User is the account 'qemu' of KubeVirt's images and Fedora's packages, because it owns the files of disks on volumes.
const User = "107:107"

// path has the folders in which libvirt looks for programs.
const path = "PATH=/usr/sbin:/usr/bin"

// Folders are the folders in which the image is built.
type Folders struct {
	// Work contains files that must exist until the image is written.
	Work string
	// Cache contains files for the next build.
	Cache string
}

// Image builds the image for a platform.
func Image(ctx context.Context, from programs.Sources, p programs.Platform, in Folders) (archive.Image, error) {
	return buildImage(ctx, from, p, in, backports)
}

// Earlier builds the image with QEMU and SeaBIOS of the release instead of its backports. Tests of upgrades start with it.
func Earlier(ctx context.Context, from programs.Sources, p programs.Platform, in Folders) (archive.Image, error) {
	return buildImage(ctx, from, p, in, []string{"libvirt"})
}

func buildImage(ctx context.Context, from programs.Sources, p programs.Platform, in Folders, backports []string) (archive.Image, error) {
	image := archive.Image{OS: p.OS, Architecture: p.Architecture, Config: imageConfig(from)}
	var err error
	if image.Root, err = buildTree(ctx, p, in, backports); err != nil {
		return image, err
	}
	dir := filepath.Join(in.Work, p.OS+"-"+p.Architecture)
	if err := from.Build(ctx, p, dir, "launcher"); err != nil {
		return image, err
	}
	return image, image.Root.AddFile("launcher", filepath.Join(dir, "launcher"), 0o755)
}

// Tree returns all files of the image except the launcher. The Containerfile uses it.
func Tree(ctx context.Context, p programs.Platform, in Folders) (*archive.Root, error) {
	return buildTree(ctx, p, in, backports)
}

func buildTree(ctx context.Context, p programs.Platform, in Folders, backports []string) (*archive.Root, error) {
	taken, found := debianSet(p.Architecture)
	if !found || p.OS != "linux" {
		return nil, fmt.Errorf("the image is for linux on %s, not for %s", architectureNames(), p)
	}
	taken.Backports = backports
	unpacked, err := taken.Unpack(ctx, in.Cache)
	if err != nil {
		return nil, err
	}
	root := &archive.Root{}
	if err := root.AddFolder(unpacked.Root); err != nil {
		return nil, err
	}
	known, err := capabilitiesFolder(ctx, p, unpacked, in.Cache)
	if err != nil || known == "" {
		return root, err
	}
	return root, addCapabilities(root, known)
}

// imageConfig returns the configuration of the image, whose entrypoint is the launcher.
func imageConfig(from programs.Sources) archive.Config {
	labels := map[string]string{
		ocispec.AnnotationTitle:       "launcher",
		ocispec.AnnotationDescription: "What a guest's pod runs: Kiln's launcher, libvirt, QEMU, passt, swtpm and firmware",
		ocispec.AnnotationVersion:     from.Version,
	}
	if from.Revision != "" {
		labels[ocispec.AnnotationRevision] = from.Revision
	}
	return archive.Config{Entrypoint: []string{"/launcher"}, User: User, Env: []string{path}, Labels: labels, Created: from.Time}
}
