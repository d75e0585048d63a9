// Command release writes all files of a release of Kiln into a folder: static programs, archives of the command line with a manifest for krew, the image for
// all platforms, the chart, the install manifests, a bill of materials, and checksums. The same sources, options and Go toolchain give the same bytes. Run it
// at the root of the repository: go run ./manifests/release -o bin/release
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/manifests/images/programs"
)

// target is a platform, and the programs of a release for it.
type target struct {
	platform programs.Platform
	programs []string
}

// Clusters run Linux. A user of a cluster may have another system.
var (
	server  = []string{"apiserver", "controller", "kubectl-kiln", "launcher", "webhook"}
	desk    = []string{"kubectl-kiln"}
	targets = []target{
		{programs.Platform{OS: "linux", Architecture: "amd64"}, server},
		{programs.Platform{OS: "linux", Architecture: "arm64"}, server},
		{programs.Platform{OS: "darwin", Architecture: "amd64"}, desk},
		{programs.Platform{OS: "darwin", Architecture: "arm64"}, desk},
		{programs.Platform{OS: "windows", Architecture: "amd64"}, desk},
	}
)

// release is one run of the command.
type release struct {
	from    programs.Sources
	targets []target
	work    string // folder of intermediate files
	out     string // folder of published files
	places
}

// places are the addresses at which users find what a release consists of.
type places struct {
	// registry is the prefix of the images in the chart and in the install manifests, such as 'registry.example.org/kiln'. Empty: they name the images of no
	// registry.
	registry string
	// downloads is the address of the folder with the files of the release, for krew.
	downloads string
}

func main() {
	out := flag.String("o", "bin/release", "folder of the release, which is replaced")
	version := flag.String("version", "", "version of the release (default: git describe)")
	var at places
	flag.StringVar(&at.registry, "registry", "", "registry, with or without a path, that the chart and the install manifests take the images from (default: none)")
	flag.StringVar(&at.downloads, "url", "", "address of the folder with these files, for krew (default: the releases of github.com/kilnvm/kiln)")
	platforms := flag.String("platforms", "", "platforms of the release, with commas between them (default: all)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	from, err := programs.Describe(ctx, ".", *version)
	chosen := targets
	if err == nil && *platforms != "" {
		chosen, err = chooseTargets(*platforms)
	}
	if err == nil {
		err = writeRelease(ctx, *out, from, chosen, at)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Println(*out, from.Version)
}

// chooseTargets returns the targets of some platforms.
func chooseTargets(platforms string) (chosen []target, err error) {
	for text := range strings.SplitSeq(platforms, ",") {
		i := slices.IndexFunc(targets, func(t target) bool { return t.platform.String() == text })
		if i < 0 {
			return nil, fmt.Errorf("-platforms: '%s' is not a platform of a release", text)
		}
		chosen = append(chosen, targets[i])
	}
	return chosen, nil
}

// writeRelease replaces a folder by a release. The folder does not change until the new release is complete.
func writeRelease(ctx context.Context, folder string, from programs.Sources, targets []target, at places) (err error) {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), ".release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	at.downloads = cmp.Or(at.downloads, "https://github.com/kilnvm/kiln/releases/download/"+from.Version)
	r := release{from: from, targets: targets, work: work, out: filepath.Join(work, "out"), places: at}
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		r.buildPrograms, r.writePlugin, r.writeImage, r.writeManifests, r.writeChart, r.writeMaterials, r.writeSums,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	return os.Rename(r.out, folder)
}

// buildPrograms builds the programs of all platforms. 'webhook' becomes 'webhook-linux-amd64'.
func (r release) buildPrograms(ctx context.Context) error {
	for _, t := range r.targets {
		dir := r.programsFolder(t.platform)
		if err := r.from.Build(ctx, t.platform, dir, t.programs...); err != nil {
			return err
		}
		built, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, file := range built {
			name, suffix := strings.TrimSuffix(file.Name(), ".exe"), ""
			if name != file.Name() {
				suffix = ".exe"
			}
			published := name + "-" + t.platform.OS + "-" + t.platform.Architecture + suffix
			if err := os.Link(filepath.Join(dir, file.Name()), filepath.Join(r.out, published)); err != nil {
				return err
			}
		}
	}
	return nil
}

// programsFolder returns the folder of the programs of a platform.
func (r release) programsFolder(p programs.Platform) string {
	return filepath.Join(r.work, p.OS+"-"+p.Architecture)
}
