package debian

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestParse: what apt says of packages becomes names and versions, in order, and nothing else is guessed.
func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parseURIs("'http://example.org/b_1%253a10.0+ds-2_amd64.deb' b_1%3a10.0+ds-2_amd64.deb 5 SHA256:00\n" +
		"'http://example.org/a.deb' a_0.1~x-1_all.deb 4 SHA256:00\n")
	want := []Package{{Name: "a", Version: "0.1~x-1", Architecture: "all"}, {Name: "b", Version: "1:10.0+ds-2", Architecture: "amd64"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Package{})); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if err == nil && got[1].file != "b_1%3a10.0+ds-2_amd64.deb" {
		t.Errorf("archive '%s'", got[1].file)
	}
	if text := listPackages(got); text != "a 0.1~x-1\nb 1:10.0+ds-2\n" {
		t.Errorf("list %q", text)
	}
	for wrong, message := range map[string]string{
		"": "apt resolves no package", "W: a warning of apt\n": "unknown way", "'http://x/a.deb' a.deb 4 SHA256:00\n": "unknown way",
		"'http://x/a' ../a_1_all.deb 4 SHA256:00\n": "unknown way",
	} {
		if _, err := parseURIs(wrong); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestSources: the mirrors of the machine are used, for its own release alone. Where it has none, the error says what to give it.
func TestSources(t *testing.T) {
	t.Parallel()
	const mirrors = "https://m.example/debian/ bookworm\nhttps://m.example/debian/ bookworm-updates\nhttps://s.example/security/ bookworm-security\n"
	text, err := sourcesList(mirrors)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(line, "[signed-by="+keyring+"] ", "")
		got = append(got, strings.TrimSuffix(strings.TrimPrefix(line, "deb "), " main\n"))
	}
	want := []string{"https://m.example/debian bookworm", "https://m.example/debian bookworm-updates", "https://m.example/debian bookworm-backports",
		"https://s.example/security bookworm-security"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for why, targets := range map[string]string{"nothing is configured": "", "another release": strings.ReplaceAll(mirrors, "bookworm", "trixie"),
		"no security updates": "https://m.example/debian/ bookworm\n", "security updates alone": "https://s.example/security/ bookworm-security\n"} {
		if text, err := sourcesList(targets); err == nil || text != "" || !strings.Contains(err.Error(), "/etc/apt/sources.list.d") {
			t.Errorf("%s: %q, %v", why, text, err)
		}
	}
}

// TestConfiguration: of the machine's settings, proxies and checks stay; its hooks and folders do not, since they would change the machine.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	text := aptConf("/x", "arm64", "Acquire::http::Proxy \"http://proxy.example:3128\";\nAPT::Update::Post-Invoke:: \"rm -f /var/cache/apt/*\";\n"+
		"Acquire::IndexTargets::deb::DEP-11::MetaKey \"x\";\nDir::State \"var/lib/apt\";\nAcquire::Languages \"de\";\n")
	for _, wanted := range []string{`Acquire::http::Proxy "http://proxy.example:3128";`, `Dir::State "/x/state";`, `APT::Architecture "arm64";`,
		`Dir::Etc::parts "/dev/null";`, `Acquire::Languages "none";`} {
		if !strings.Contains(text, wanted+"\n") {
			t.Errorf("'%s' is missing in\n%s", wanted, text)
		}
	}
	for _, unwanted := range []string{"Post-Invoke", "DEP-11", `"var/lib/apt"`, `"de"`} {
		if strings.Contains(text, unwanted) {
			t.Errorf("'%s' stands in\n%s", unwanted, text)
		}
	}
	if got := preferencesText([]string{"qemu", "libvirt"}); !strings.Contains(got, "Package: src:qemu src:libvirt\nPin: release n=bookworm-backports\n") {
		t.Error(got)
	}
}

// TestWanted: the last pattern that matches a path, or a folder above it, decides.
func TestWanted(t *testing.T) {
	t.Parallel()
	patterns := []string{"usr/lib", "!usr/lib/*/gconv", "usr/lib/x/gconv/UTF-7.so", "usr/share/doc/*/copyright"}
	for name, want := range map[string]bool{
		"usr/lib/x/libc.so": true, "usr/lib/x/gconv/BIG5.so": false, "usr/lib/x/gconv/UTF-7.so": true, "usr/libexec/x": false,
		"usr/share/doc/a/copyright": true, "usr/share/doc/a/README": false, "etc/passwd": false,
	} {
		if Wanted(patterns, name) != want {
			t.Errorf("'%s' is wanted: %t", name, !want)
		}
	}
}

// TestDigest: another version, another package and another choice of files are another tree. The machine's folders are not.
func TestDigest(t *testing.T) {
	t.Parallel()
	set := Set{Architecture: "amd64", Packages: []string{"a"}, Files: []string{"usr"}}
	versions := []Package{{Name: "a", Version: "1", file: "a_1_all.deb"}}
	digest := func(s Set, p []Package) string {
		out, err := s.digestOf(p)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := digest(set, versions)
	if again := digest(set, []Package{{Name: "a", Version: "1", file: "elsewhere.deb"}}); again != first {
		t.Errorf("'%s' and '%s'", first, again)
	}
	seen := map[string]bool{first: true}
	for _, other := range []string{
		digest(set, []Package{{Name: "a", Version: "2"}}), digest(set, append(versions, Package{Name: "b", Version: "1"})),
		digest(Set{Architecture: "amd64", Packages: []string{"a"}, Files: []string{"usr", "!usr/share"}}, versions),
		digest(Set{Architecture: "amd64", Packages: []string{"a"}, Files: []string{"usr"}, Texts: map[string]string{"etc/passwd": "x"}}, versions),
	} {
		if seen[other] {
			t.Errorf("'%s' comes twice", other)
		}
		seen[other] = true
	}
}

// TestInterrupted: a folder appears when it is complete, and never half made. Who comes second keeps what is there.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := filepath.Join(dir, "tree")
	fill := func(result error) func(string) error {
		return func(work string) error {
			return errors.Join(os.WriteFile(filepath.Join(work, "file"), nil, 0o644), result)
		}
	}
	failed := errors.New("the disk is full")
	if err := CompleteFolder(place, fill(failed)); !errors.Is(err, failed) {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
	for range 2 {
		if err := CompleteFolder(place, fill(nil)); err != nil {
			t.Error(err)
		}
	}
	// A process that was killed cannot remove its folder.
	if err := os.MkdirAll(filepath.Join(dir, unfinished+"tree-1", "root"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeUnfinished(place); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left: %v", left, err)
	}
}

// TestLock: one process at a time works in a cache.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	release, err := lockFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := lockFolder(ctx, dir); err == nil || !strings.Contains(err.Error(), "another process uses '"+dir+"'") {
		t.Errorf("a second one has the lock, or waits for ever: %v", err)
	}
	second := make(chan error)
	go func() {
		releaseSecond, err := lockFolder(t.Context(), dir)
		if err == nil {
			err = releaseSecond()
		}
		second <- err
	}()
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
