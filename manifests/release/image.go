package main

import (
	"context"
	"path/filepath"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/manifests/images/kiln"
)

// writeImage writes the image 'kiln' for all Linux platforms from the programs that were built before.
func (r release) writeImage(context.Context) error {
	var images []archive.Image
	for _, t := range r.targets {
		if t.platform.OS != "linux" {
			continue
		}
		image, err := kiln.ImageOf(r.from, t.platform, r.programsFolder(t.platform))
		if err != nil {
			return err
		}
		images = append(images, image)
	}
	return archive.Write(filepath.Join(r.out, "kiln-image.tar"), "docker.io/library/kiln:"+r.from.Version, images...)
}
