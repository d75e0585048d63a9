// Package programs builds the programs of Kiln for images and releases: static, and with bytes that follow from the sources, the version and the Go
// toolchain alone.
package programs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Sources is a checkout of Kiln, and what its binaries and images say of it.
type Sources struct {
	// Module is the folder of go.mod.
	Module string
	// Version is given by whoever builds, or is the output of 'git describe'.
	Version string
	// Revision and Time are those of the commit. They are empty where git knows none, as in sources without their history.
	Revision string
	Time     time.Time
}

// unknown is the version of sources that have no history, when nobody gives one.
const unknown = "devel"

// Describe asks git about a checkout. An empty version is that of git.
func Describe(ctx context.Context, module, version string) (Sources, error) {
	s := Sources{Module: module, Version: version}
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return s, fmt.Errorf("start this at the root of the repository: %w", err)
	}
	described, err := git(ctx, module, "describe", "--tags", "--always", "--dirty")
	if err != nil {
		described = unknown // no repository, or no git
	}
	if s.Version == "" {
		s.Version = described
	}
	if err != nil {
		return s, nil
	}
	commit, err := git(ctx, module, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	revision, seconds, _ := strings.Cut(commit, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("git log printed '%s': %w", commit, err)
	}
	s.Revision, s.Time = revision, time.Unix(unix, 0).UTC()
	return s, nil
}

// git runs a command of git in the folder of the module.
func git(ctx context.Context, module string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = module
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// Platform is an operating system and an architecture, in Go's words.
type Platform struct {
	OS, Architecture string
}

func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// ParsePlatform reads 'linux/amd64'.
func ParsePlatform(text string) (Platform, error) {
	system, architecture, found := strings.Cut(text, "/")
	if !found || system == "" || architecture == "" || strings.Contains(architecture, "/") {
		return Platform{}, fmt.Errorf("'%s' must be a platform such as 'linux/amd64'", text)
	}
	return Platform{system, architecture}, nil
}

// stamps are the variables of internal/version that the linker sets.
const stamps = "github.com/kilnvm/kiln/internal/version."

// Build builds programs of cmd/ into a folder, under their names (with '.exe' for Windows). Each is static.
func (s Sources) Build(ctx context.Context, p Platform, dir string, names ...string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	flags := "-s -w -buildid= -X " + stamps + "stamp=" + s.Version
	if s.Revision != "" {
		flags += " -X " + stamps + "revision=" + s.Revision + " -X " + stamps + "committed=" + s.Time.UTC().Format(time.RFC3339)
	}
	// The revision comes with the stamps: '-buildvcs' would ask the repository, which an archive of the sources lacks.
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.Module
	// What the environment of whoever builds would change in the bytes is set to Go's defaults.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-trimpath",
		"GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s for %s: %w\n%s", strings.Join(names, ", "), p, err, out.String())
	}
	return nil
}
