package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// apt runs Debian's apt with the lists, settings and cache of a folder.
type apt struct {
	dir string
}

// fresh is how long package lists are used before apt downloads newer ones.
const fresh = 24 * time.Hour

// keyring has the keys of Debian's archive, where the package debian-archive-keyring puts them.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// prepareApt prepares the folder dir for the set's architecture, and downloads package lists.
func (s Set) prepareApt(ctx context.Context, dir string) (apt, error) {
	a := apt{dir}
	for _, folder := range []string{"state/lists/partial", "cache/archives/partial", "none/partial", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return a, err
		}
	}
	targets, err := runWithMachineSettings(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages")
	if err != nil {
		return a, fmt.Errorf("packages of Debian are resolved by apt: %w", err)
	}
	list, err := sourcesList(targets)
	if err != nil {
		return a, err
	}
	dump, err := runWithMachineSettings(ctx, "apt-config", "dump")
	if err != nil {
		return a, err
	}
	for name, text := range map[string]string{
		"sources.list": list,
		"preferences":  preferencesText(s.Backports),
		"apt.conf":     aptConf(dir, s.Architecture, dump),
		"status":       "", // no package is installed
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return a, err
		}
	}
	return a, a.updateLists(ctx)
}

// runWithMachineSettings runs a program of apt with the settings of this machine. It must only read.
func runWithMachineSettings(ctx context.Context, name string, args ...string) (string, error) {
	return runOutput(exec.CommandContext(ctx, name, args...))
}

// runAptGet runs apt-get with only the settings of the folder.
func (a apt) runAptGet(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"), "LC_ALL=C.UTF-8")
	return runOutput(cmd)
}

// runOutput runs a program, and returns its standard output. The error contains its standard error.
func runOutput(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(3, len(cmd.Args))], " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// errNoMirror is the error if apt of this machine has no mirror of the release.
var errNoMirror = errors.New("apt of this machine has no source of Debian '" + Release + "' and its security updates; the image is made of the packages of " +
	"such mirrors: name them in a file of /etc/apt/sources.list.d, with suites '" + Release + "' and '" + Release + "-security', and run apt-get update")

// sourcesList returns apt's list of sources. targets has the mirrors of this machine ('URI RELEASE' in each line). A mirror of a release also has its updates
// and backports.
func sourcesList(targets string) (string, error) {
	var main, security string
	for line := range strings.Lines(targets) {
		uri, release, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch release {
		case Release:
			main = strings.TrimSuffix(uri, "/")
		case Release + "-security":
			security = strings.TrimSuffix(uri, "/")
		}
	}
	if main == "" || security == "" {
		return "", errNoMirror
	}
	options := ""
	if _, err := os.Stat(keyring); err == nil {
		options = "[signed-by=" + keyring + "] "
	}
	var out strings.Builder
	for _, s := range [][2]string{{main, Release}, {main, Release + "-updates"}, {main, Release + "-backports"}, {security, Release + "-security"}} {
		fmt.Fprintf(&out, "deb %s%s %s main\n", options, s[0], s[1])
	}
	return out.String(), nil
}

// preferencesText returns apt's preferences, which take the given source packages from the backports. All others are from the release, whose security support
// is better.
func preferencesText(backports []string) string {
	return "Package: src:" + strings.Join(backports, " src:") + "\nPin: release n=" + Release + "-backports\nPin-Priority: 990\n"
}

// aptConf returns the text of apt.conf. dump is the output of 'apt-config dump', one setting in each line. Only the settings for downloads (proxies,
// checks of dates) are kept: hooks, for example, would change the lists of this machine.
func aptConf(dir, architecture, dump string) string {
	var out strings.Builder
	for line := range strings.Lines(dump) {
		key, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(key, "Acquire::") && !strings.HasPrefix(key, "Acquire::IndexTargets") && !strings.HasPrefix(key, "Acquire::Languages") {
			out.WriteString(line)
		}
	}
	for _, setting := range [][2]string{
		// These disable the configuration of this machine, which apt reads after APT_CONFIG.
		{"Dir::Etc::main", "/dev/null"}, {"Dir::Etc::parts", "/dev/null"}, {"Dir::Etc::sourceparts", "/dev/null"}, {"Dir::Etc::preferencesparts", "/dev/null"},
		{"Dir::Etc::sourcelist", filepath.Join(dir, "sources.list")}, {"Dir::Etc::preferences", filepath.Join(dir, "preferences")},
		{"Dir::State", filepath.Join(dir, "state")}, {"Dir::State::status", filepath.Join(dir, "status")},
		{"Dir::Cache", filepath.Join(dir, "cache")}, {"Dir::Log", filepath.Join(dir, "log")},
		{"APT::Architecture", architecture}, {"APT::Architectures", architecture}, {"APT::Install-Recommends", "false"},
		{"Acquire::Languages", "none"},
		// The account _apt may be unable to enter the folder.
		{"APT::Sandbox::User", "root"},
	} {
		fmt.Fprintf(&out, "%s %q;\n", setting[0], setting[1])
	}
	return out.String()
}

// updateLists downloads package lists if they do not exist or are old. If the download fails, it uses the old ones.
func (a apt) updateLists(ctx context.Context) error {
	stamp := filepath.Join(a.dir, "updated")
	info, err := os.Stat(stamp)
	wanted, _ := os.ReadFile(filepath.Join(a.dir, "sources.list"))
	had, _ := os.ReadFile(stamp)
	known := err == nil && bytes.Equal(wanted, had)
	if known {
		if age := time.Since(info.ModTime()); age >= 0 && age < fresh {
			return nil
		}
	}
	printProgress("reading the package lists of Debian")
	if _, err := a.runAptGet(ctx, "update", "-qq", "--error-on=any"); err != nil {
		if known && ctx.Err() == nil {
			printProgress("the package lists stay as they were: %v", err)
			return nil
		}
		return err
	}
	return os.WriteFile(stamp, wanted, 0o644)
}

// Package is a version of a package for one architecture.
type Package struct {
	Name, Version, Architecture string
	// file is the name of its archive in apt's cache.
	file string
}

// resolvePackages returns the named packages and all their dependencies, sorted by name.
func (a apt) resolvePackages(ctx context.Context, names []string) ([]Package, error) {
	// apt does not print the addresses of archives that are in its cache, for example after an interrupted download. So the cache is empty here.
	args := []string{"install", "-qq", "--print-uris", "-o", "Dir::Cache::archives=" + filepath.Join(a.dir, "none")}
	out, err := a.runAptGet(ctx, append(args, names...)...)
	if err != nil {
		return nil, err
	}
	return parseURIs(out)
}

// parseURIs parses the output of 'apt-get install --print-uris': 'URI' FILE SIZE DIGEST, with a file named NAME_VERSION_ARCHITECTURE.deb.
func parseURIs(uris string) ([]Package, error) {
	var out []Package
	for line := range strings.Lines(uris) {
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.HasPrefix(fields[0], "'") {
			return nil, fmt.Errorf("apt names a package in an unknown way: %q", line)
		}
		parts := strings.Split(strings.TrimSuffix(fields[1], ".deb"), "_")
		if len(parts) != 3 || filepath.Base(fields[1]) != fields[1] {
			return nil, fmt.Errorf("apt names a file in an unknown way: %q", fields[1])
		}
		version, err := url.PathUnescape(parts[1]) // apt writes the colon of an epoch as %3a
		if err != nil {
			return nil, err
		}
		out = append(out, Package{Name: parts[0], Version: version, Architecture: parts[2], file: fields[1]})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("apt resolves no package")
	}
	slices.SortFunc(out, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// downloadArchives downloads the archives of packages into apt's cache. apt verifies them with the signed lists.
func (a apt) downloadArchives(ctx context.Context, resolved []Package) error {
	printProgress("downloading %d packages of Debian", len(resolved))
	args := []string{"install", "-qq", "--yes", "--download-only"}
	for _, p := range resolved {
		args = append(args, p.Name+"="+p.Version)
	}
	_, err := a.runAptGet(ctx, args...)
	return err
}

// downloadedArchives returns the downloaded archives of packages.
func (a apt) downloadedArchives(resolved []Package) []archive {
	var out []archive
	for _, p := range resolved {
		out = append(out, archive{p, filepath.Join(a.dir, "cache", "archives", p.file)})
	}
	return out
}
