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

// CommitOf asks git about a file or folder. It returns an empty Commit for what no repository has, and where git is not installed.
//
// The configuration of a repository names programs that git runs, and the folder may be a stranger's archive: the file system monitor,
// hooks and filters are switched off. A file that a filter changes, such as one of Git LFS, is reported as changed.
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
		command.Env = append(os.Environ(), settings(off)...)
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
		filters = "" // there is none
	}
	off = append(off[:2:2], strings.FieldsFunc(filters, func(r rune) bool { return r == 0 })...)
	// The configuration of a submodule is another one.
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

// settings returns environment variables by which git takes the keys as empty. With '-c', a name with '=' would set another key.
func settings(keys []string) (variables []string) {
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
		return "" // git reads more forms: where the password stands is not known
	}
	parsed.User, parsed.RawQuery, parsed.Fragment = nil, "", ""
	return parsed.String()
}
