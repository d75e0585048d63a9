// Command images writes images as OCI archives, without a registry and without a container engine. The same sources give the same bytes. Run it at the
// root of the repository:
//
//	go run ./manifests/images -o bin/images kiln launcher
//
// writes bin/images/kiln.tar with the image docker.io/library/kiln:VERSION, and launcher.tar with kiln-launcher:VERSION. 'ctr images import',
// 'skopeo copy oci-archive:' and 'podman load' read them. bin/images/cache keeps unpacked packages of Debian for the launcher.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/manifests/images/kiln"
	"github.com/kilnvm/kiln/manifests/images/launcher"
	"github.com/kilnvm/kiln/manifests/images/programs"
)

// images has a function for each image.
var images = map[string]func(ctx context.Context, from programs.Sources, p programs.Platform, in launcher.Folders) (archive.Image, error){
	"kiln": func(ctx context.Context, from programs.Sources, p programs.Platform, in launcher.Folders) (archive.Image, error) {
		return kiln.Image(ctx, from, p, in.Work)
	},
	"launcher": launcher.Image,
}

// repositories are the names of the images in manifests/controller and manifests/devices.
var repositories = map[string]string{"kiln": "kiln", "launcher": "kiln-launcher"}

// options are the flags.
type options struct {
	out, version, platforms, cache string
	tree                           bool
}

func main() {
	var o options
	flag.StringVar(&o.out, "o", "bin/images", "folder of the archives")
	flag.StringVar(&o.version, "version", "", "version of the programs and tag of the images (default: git describe)")
	flag.StringVar(&o.platforms, "platforms", "linux/"+runtime.GOARCH, "platforms of each image, with commas between them")
	flag.StringVar(&o.cache, "cache", "", "folder for unpacked packages of Debian (default: cache in the folder of the archives)")
	flag.BoolVar(&o.tree, "tree", false, "write a tar archive of the image 'launcher' without the launcher to standard output, for its Containerfile")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	work := writeImages
	if o.tree {
		work = writeTree
	}
	err := work(ctx, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func (o options) cacheFolder() string {
	return cmp.Or(o.cache, filepath.Join(o.out, "cache"))
}

// writeTree writes the files of the image 'launcher' except the launcher as a tar archive to standard output. The Containerfile adds the program and the
// configuration.
func writeTree(ctx context.Context, o options, names []string) error {
	if !slices.Equal(names, []string{"launcher"}) {
		return errors.New("-tree is only for the image 'launcher'")
	}
	p, err := programs.ParsePlatform(o.platforms)
	if err != nil {
		return err
	}
	root, err := launcher.Tree(ctx, p, launcher.Folders{Cache: o.cacheFolder()})
	if err != nil {
		return err
	}
	return root.WriteTar(os.Stdout)
}

// writeImages writes the named images, or all.
func writeImages(ctx context.Context, o options, names []string) error {
	known := slices.Sorted(maps.Keys(images))
	if len(names) == 0 {
		names = known
	}
	from, err := programs.Describe(ctx, ".", o.version)
	if err != nil {
		return err
	}
	for _, name := range names {
		if images[name] == nil {
			return fmt.Errorf("'%s' is not an image, use %s", name, strings.Join(known, ", "))
		}
		if err := writeOne(ctx, o, from, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// writeOne writes an image for all platforms.
func writeOne(ctx context.Context, o options, from programs.Sources, name string) (err error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.out, ".build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var built []archive.Image
	for platform := range strings.SplitSeq(o.platforms, ",") {
		p, err := programs.ParsePlatform(platform)
		if err != nil {
			return err
		}
		image, err := images[name](ctx, from, p, launcher.Folders{Work: work, Cache: o.cacheFolder()})
		if err != nil {
			return err
		}
		built = append(built, image)
	}
	file := filepath.Join(o.out, name+".tar")
	reference := "docker.io/library/" + repositories[name] + ":" + from.Version
	if err := archive.Write(file, reference, built...); err != nil {
		return err
	}
	fmt.Println(file, reference)
	return nil
}
