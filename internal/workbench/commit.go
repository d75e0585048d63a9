package workbench

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

// Commit is the state of Git in which a folder was published.
type Commit struct {
	// Revision is the last commit that changed the folder, Time when it was committed. Both are empty outside of a repository and for
	// a folder with changes.
	Revision string
	Time     time.Time
	// Remote is the URL of 'origin' without credentials.
	Remote string
	// Changed reports that the folder differs from the commit.
	Changed bool
}

// CommitOf asks git about a file or folder. It returns an empty Commit for what no repository has, and where git is not installed. The
// configuration of a repository may name programs: those that these commands would run are switched off.
func CommitOf(ctx context.Context, source string) (c Commit, err error) {
	info, err := os.Stat(source)
	if err != nil {
		return Commit{}, nil // '-' or 'cluster'
	}
	dir := source
	if !info.IsDir() {
		dir = filepath.Dir(source)
	}
	git := func(arguments ...string) (string, error) {
		arguments = append([]string{"-C", dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, arguments...)
		out, err := exec.CommandContext(ctx, "git", arguments...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if inside, err := git("rev-parse", "--is-inside-work-tree"); err != nil || inside != "true" {
		return Commit{}, nil
	}
	if c.Remote, err = git("config", "--get", "remote.origin.url"); err != nil {
		c.Remote = "" // there is no 'origin'
	}
	c.Remote = withoutCredentials(c.Remote)
	state, err := git("status", "--porcelain", "--", ".")
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

func gitError(err error) error {
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return fmt.Errorf("git: %s", bytes.TrimSpace(failed.Stderr))
	}
	return fmt.Errorf("git: %w", err)
}

// withoutCredentials returns a URL without user and password. A token in the URL of 'origin' must not be published.
func withoutCredentials(remote string) string {
	parsed, err := url.Parse(remote)
	if err != nil || parsed.Scheme == "" {
		return remote // 'git@example.org:catalog.git' has no password
	}
	parsed.User = nil
	return parsed.String()
}
