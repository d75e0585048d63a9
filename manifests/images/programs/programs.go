// Package programs builds the programs of Kiln for images and releases. The programs are static, and their bytes depend only on the sources, the version and
// the Go toolchain.
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

// Sources is a checkout of Kiln, with the version and revision for its binaries and images.
type Sources struct {
	// Module is the folder of go.mod.
	Module string
	// Version is the version that the user gave, or the output of 'git describe'.
	Version string
	// Revision and Time are the revision and the time of the commit. They are empty if there is no repository or no git.
	Revision string
	Time     time.Time
}

// unknown is the version of sources without a repository, if the user gives none.
const unknown = "devel"

// Describe returns the version, revision and time of a checkout. If version is empty, it is the output of 'git describe'.
func Describe(ctx context.Context, module, version string) (Sources, error) {
	s := Sources{Module: module, Version: version}
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return s, fmt.Errorf("start this at the root of the repository: %w", err)
	}
	described, err := runGit(ctx, module, "describe", "--tags", "--always", "--dirty")
	if err != nil {
		described = unknown // no repository, or no git
	}
	if s.Version == "" {
		s.Version = described
	}
	if err != nil {
		return s, nil
	}
	commit, err := runGit(ctx, module, "log", "-1", "--format=%H %ct")
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

// runGit runs a command of git in the folder of the module.
func runGit(ctx context.Context, module string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = module
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// Platform is an operating system and an architecture, with Go's names.
type Platform struct {
	OS, Architecture string
}

func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// ParsePlatform parses a platform such as 'linux/amd64'.
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
	// The linker sets the revision. '-buildvcs' would read the repository, which an archive of the sources lacks.
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.Module
	// Variables of the environment that would change the bytes are set to Go's defaults.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-trimpath",
		"GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s for %s: %w\n%s", strings.Join(names, ", "), p, err, out.String())
	}
	return nil
}
