package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// released are the programs of another commit that a cluster starts.
var released = []string{"webhook", "controller", "launcher"}

// Export writes the sources of a commit into a folder. It needs the history of the repository.
func Export(ctx context.Context, root, commit, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := dir + ".tar"
	defer os.Remove(archive)
	for _, args := range [][]string{{"git", "-C", root, "archive", "-o", archive, commit}, {"tar", "-xf", archive, "-C", dir}} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// sourcesOf is the folder with the sources of a commit; the repository for the empty one.
func (c *Cluster) sourcesOf(commit string) string {
	if commit == "" {
		return c.Root
	}
	return filepath.Join(c.Dir, "sources-"+commit)
}

// programOf is the name of a program of the release that is installed; empty if it is this tree.
func (c *Cluster) programOf(name string) string {
	if c.Release == "" {
		return ""
	}
	return name + "-" + c.Release
}

// buildRelease builds the programs of the release.
func (c *Cluster) buildRelease(ctx context.Context) error {
	root := c.sourcesOf(c.Release)
	if err := Export(ctx, c.Root, c.Release, root); err != nil {
		return err
	}
	of := sources{root: root, flags: []string{"-buildvcs=false"}}
	for _, name := range released {
		of.folders = append(of.folders, "./cmd/"+name)
	}
	dir := filepath.Join(root, "bin")
	if err := of.build(ctx, dir); err != nil {
		return err
	}
	for _, name := range released {
		if err := hold(filepath.Join(dir, name), c.Program(c.programOf(name))); err != nil {
			return err
		}
	}
	return nil
}

// MoveTo upgrades or downgrades Kiln to a commit, empty for this tree, as docs/how-to/upgrade.md says: its manifests are applied, and each program is
// replaced. Launchers are the caller's to restart.
func (c *Cluster) MoveTo(ctx context.Context, commit string) error {
	c.Release = commit
	if commit != "" {
		if _, err := os.Stat(c.Program(c.programOf("webhook"))); errors.Is(err, os.ErrNotExist) {
			if err := c.buildRelease(ctx); err != nil {
				return err
			}
		}
	}
	if err := c.kustomize(ctx); err != nil {
		return err
	}
	if err := errors.Join(c.install(ctx), c.apply(ctx, nil)); err != nil {
		return err
	}
	return errors.Join(c.RollController(ctx, cmp.Or(c.programOf("controller"), "controller")),
		c.RollWebhook(ctx, cmp.Or(c.programOf("webhook"), "webhook")), c.readBundle(ctx))
}
