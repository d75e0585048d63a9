package catalogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Commit describes the Git commit of a folder.
type Commit struct {
	// Revision is the last commit that changed the folder, and Time the time of that commit. Both are empty outside of a repository and for
	// a folder with uncommitted changes.
	Revision string
	Time     time.Time
	// Remote is the URL of 'origin' without credentials.
	Remote string
	// Changed reports that the folder has uncommitted changes.
	Changed bool
}

// CommitOf asks git about a file or folder. It returns an empty Commit if no repository contains it, or if git is not installed.
//
// The configuration of a repository names programs that git runs. Because the folder may come from a stranger, the file system monitor,
// hooks and filters are disabled. Therefore a file that a filter changes, such as a file in Git LFS, is reported as changed.
func CommitOf(ctx context.Context, source string) (c Commit, err error) {
	info, err := os.Stat(source)
	if err != nil {
		return Commit{}, nil // '-' or 'cluster'
	}
	dir := source
	if !info.IsDir() {
		dir = filepath.Dir(source)
	}
	off := []string{"core.fsmonitor", "core.hooksPath"}
	git := func(arguments ...string) (string, error) {
		command := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, arguments...)...)
		command.Env = append(os.Environ(), emptySettings(off)...)
		out, err := command.Output()
		return strings.TrimSpace(string(out)), err
	}
	if inside, err := git("rev-parse", "--is-inside-work-tree"); err != nil || inside != "true" {
		return Commit{}, nil
	}
	if c.Remote, err = git("config", "--get", "remote.origin.url"); err != nil {
		c.Remote = "" // there is no 'origin'
	}
	c.Remote = withoutCredentials(c.Remote)
	filters, err := git("config", "--null", "--name-only", "--get-regexp", `^filter\..*\.(clean|process|required)$`)
	if err != nil {
		filters = "" // there are no filters
	}
	off = append(off[:2:2], strings.FieldsFunc(filters, func(r rune) bool { return r == 0 })...)
	// A submodule has its own configuration, which could name programs, too.
	state, err := git("status", "--porcelain", "--ignore-submodules=all", "--", ".")
	if err != nil {
		return Commit{}, gitError(err)
	}
	if c.Changed = state != ""; c.Changed {
		return c, nil
	}
	last, err := git("rev-list", "--max-count=1", "--no-commit-header", "--format=%H %cI", "HEAD", "--", ".")
	if err != nil {
		return Commit{}, gitError(err)
	}
	revision, at, _ := strings.Cut(last, " ")
	if revision == "" {
		return c, nil // no commit has the folder
	}
	if c.Time, err = time.Parse(time.RFC3339, at); err != nil {
		return Commit{}, fmt.Errorf("git returned the time '%s': %w", at, err)
	}
	c.Revision = revision
	return c, nil
}

// emptySettings returns environment variables that make keys of git's configuration empty. With '-c', a key that contains '=' would set another key.
func emptySettings(keys []string) (variables []string) {
	for i, key := range keys {
		variables = append(variables, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=", i))
	}
	return append(variables, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(keys)))
}

func gitError(err error) error {
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return fmt.Errorf("git: %s", bytes.TrimSpace(failed.Stderr))
	}
	return fmt.Errorf("git: %w", err)
}

// withoutCredentials returns a URL without user, password and query. A token in the URL of 'origin' must not be published.
func withoutCredentials(remote string) string {
	if !strings.Contains(remote, "://") {
		return remote // 'git@example.org:catalog.git' has no password
	}
	parsed, err := url.Parse(remote)
	if err != nil {
		return "" // git accepts URLs that url.Parse does not, and they may contain a password
	}
	parsed.User, parsed.RawQuery, parsed.Fragment = nil, "", ""
	return parsed.String()
}
