package cli

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/test/registry"
)

// newRegistry starts a registry in memory and returns a repository of it. Arguments are the flags that reach it.
func newRegistry(t *testing.T) (repository, flag string) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := registry.Start(t, nil)
	return "oci://" + server.Host + "/catalogs/general", "--registry-ca=" + server.Authority
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	smallInstancetype = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: small}\n" +
		"spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}\n"
	linuxPreference = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterPreference\nmetadata: {name: linux}\nspec: {}\n"
)

func called(t *testing.T, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	a := call(t, "", arguments...)
	return a.out, a.errOut, a.err
}

// folderOf writes a catalog into a folder.
func folderOf(t *testing.T, documents ...string) string {
	t.Helper()
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "all.yaml"), strings.Join(documents, "---\n"))
	return folder
}

// TestCatalogVersions publishes two versions, the second with a changed instancetype, and reads them back.
func TestCatalogVersions(t *testing.T) {
	repository, flag := newRegistry(t)
	first := folderOf(t, smallInstancetype, linuxPreference)
	changed := folderOf(t, strings.Replace(smallInstancetype, "1Gi", "2Gi", 1), linuxPreference)
	same := folderOf(t, linuxPreference, strings.Replace(smallInstancetype, "1Gi", "1024Mi", 1))
	for _, step := range []struct {
		name      string
		arguments []string
		fails     bool
		want      string
	}{
		{"no version", []string{"push", first, repository + ":latest"}, true, "must be a semantic version"},
		{"first", []string{"push", first, repository + ":1.0.0"}, false, "1 instancetype and 1 preference"},
		{"again", []string{"push", first, repository + ":1.0.0"}, false, "1 instancetype and 1 preference"},
		{"the tag moves", []string{"push", changed, repository + ":1.0.0"}, true, "is published already"},
		{"a changed instancetype", []string{"push", changed, repository + ":1.1.0"}, true, "instancetype 'small' differs from version 1.0.0"},
		{"another form of the amount", []string{"push", same, repository + ":1.0.1"}, false, "1 instancetype and"},
		{"allowed", []string{"push", changed, repository + ":1.1.0", "--allow-change"}, false, "1 instancetype and"},
		{"compared with the highest below", []string{"push", first, repository + ":1.0.2"}, false, "1 instancetype and"},
		{"inspected", []string{"inspect", repository + ":1.1.0"}, false, "version: 1.1.0"},
		{"copied", []string{"copy", repository + ":1.1.0", repository + "/mirror:1.1.0"}, false, "sha256:"},
		{"linted", []string{"lint", repository + ":1.1.0"}, false, "0 errors"},
		{"compared", []string{"diff", repository + ":1.0.0", repository + ":1.0.1"}, false, "compatible"},
		{"no such version", []string{"lint", repository + ":7.0.0"}, true, "does not exist"},
	} {
		out, errOut, err := called(t, append(append([]string{"catalog"}, step.arguments...), flag)...)
		output := out + errOut
		if err != nil {
			output += err.Error()
		}
		if (err != nil) != step.fails || !strings.Contains(output, step.want) {
			t.Errorf("%s: %v, %q, want %q", step.name, err, output, step.want)
		}
	}
	target := filepath.Join(t.TempDir(), "pulled")
	for range 2 { // the second time the folder is not empty
		_, _, err := called(t, "catalog", "pull", repository+"/mirror:1.1.0", "--output-dir", target, flag)
		if raw, _ := os.ReadFile(filepath.Join(target, "instancetypes", "small.yaml")); !strings.Contains(string(raw), "guest: 2Gi") {
			t.Errorf("pulled %q, %v", raw, err)
		}
	}
	if _, _, err := called(t, "catalog", "pull", repository+":1.0.0", "--output-dir", target, flag); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("overwrote a folder: %v", err)
	}
	if raw, _ := os.ReadFile(filepath.Join(target, "instancetypes", "small.yaml")); !strings.Contains(string(raw), "guest: 2Gi") {
		t.Errorf("the folder has now %q", raw)
	}
}

// TestUnknownCommands mistypes commands below others.
func TestUnknownCommands(t *testing.T) {
	for _, parent := range []string{"catalog", "create"} {
		if _, _, err := called(t, parent, "lnit"); cmdutil.ExitStatus(err) != 2 || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%s: %v", parent, err)
		}
		if out, _, err := called(t, parent); err != nil || !strings.Contains(out, "Usage:") {
			t.Errorf("%s alone: %v: %s", parent, err, out)
		}
	}
}

// TestPushRefuses has catalogs that an API server would refuse.
func TestPushRefuses(t *testing.T) {
	repository, flag := newRegistry(t)
	for name, folder := range map[string]string{
		"unknown field": folderOf(t, strings.Replace(smallInstancetype, "cpu:", "cpus: 1, cpu:", 1)),
		"no YAML":       folderOf(t, "a: ["),
		"empty":         t.TempDir(),
	} {
		if _, _, err := called(t, "catalog", "push", folder, repository+":1.0.0", flag); err == nil {
			t.Errorf("%s: published", name)
		}
	}
	if _, _, err := called(t, "catalog", "inspect", repository+":1.0.0", flag); err == nil {
		t.Error("a refused catalog is published")
	}
}

// TestCommitOfCatalog publishes a committed folder from two clones: the digest is the same, and the token of the remote is not published.
func TestCommitOfCatalog(t *testing.T) {
	repository, flag := newRegistry(t)
	folder := folderOf(t, smallInstancetype)
	git := func(dir string, arguments ...string) {
		t.Helper()
		command := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, arguments...)...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", arguments, err, out)
		}
	}
	git(folder, "init", "-q")
	git(folder, "add", "-A")
	git(folder, "commit", "-q", "-m", "first")
	clone := filepath.Join(t.TempDir(), "clone")
	git(folder, "clone", "-q", folder, clone)
	var digests []string
	for i, dir := range []string{folder, clone} {
		git(dir, "config", "remote.origin.url", "https://user:token@example.org/catalog.git")
		out, errOut, err := called(t, "catalog", "push", dir, repository+string(rune('a'+i))+":1.0.0", flag)
		if err != nil {
			t.Fatalf("%v: %s", err, errOut)
		}
		_, digest, _ := strings.Cut(out, "@")
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("two clones have the digests %q", digests)
	}
	out, _, err := called(t, "catalog", "inspect", repository+"a:1.0.0", "-o", "json", flag)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Reference, Digest string
		Annotations       map[string]string
		Index             catalog.Index
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	if source := found.Annotations["org.opencontainers.image.source"]; source != "https://example.org/catalog.git" {
		t.Errorf("the source is %q", source)
	}
	if revision := found.Annotations["org.opencontainers.image.revision"]; len(revision) != 40 {
		t.Errorf("the revision is %q", revision)
	}
	if out, _, err := called(t, "catalog", "inspect", repository+"a:1.0.0", "-o", "name", flag); err != nil ||
		out != "virtualmachineclusterinstancetype.instancetype.kubevirt.io/small\n" {
		t.Errorf("names: %v\n%s", err, out)
	}
	writeFile(t, filepath.Join(folder, "more.yaml"), linuxPreference)
	_, errOut, err := called(t, "catalog", "push", folder, repository+"a:1.1.0", flag)
	if err != nil || !strings.Contains(errOut, "not committed") {
		t.Errorf("%v: %q", err, errOut)
	}
}

// TestSignedCatalog signs with a key of cosign's form and verifies with it and with another one.
func TestSignedCatalog(t *testing.T) {
	repository, flag := newRegistry(t)
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		writeKeys(t, dir, name)
	}
	reference := repository + ":1.0.0"
	if _, errOut, err := called(t, "catalog", "push", folderOf(t, smallInstancetype), reference, flag); err != nil {
		t.Fatalf("%v: %s", err, errOut)
	}
	sign := func() (out, errOut string, err error) {
		return called(t, "catalog", "sign", reference, "--key", filepath.Join(dir, "one.key"), flag)
	}
	verify := func(by string) (out, errOut string, err error) {
		return called(t, "catalog", "verify", reference, "--key", filepath.Join(dir, by+".pub"), flag)
	}
	if _, _, err := sign(); err == nil || !strings.Contains(err.Error(), "COSIGN_PASSWORD") {
		t.Errorf("signed without a password: %v", err)
	}
	t.Setenv("COSIGN_PASSWORD", "secret")
	if _, errOut, err := verify("one"); cmdutil.ExitStatus(err) != 1 || !strings.Contains(errOut, "has no signature") {
		t.Errorf("verified before it was signed: %v: %s", err, errOut)
	}
	if out, errOut, err := sign(); err != nil || !strings.Contains(out, ": signed") {
		t.Fatalf("%v: %s", err, errOut)
	}
	if out, errOut, err := verify("one"); err != nil || !strings.Contains(out, ": verified") {
		t.Errorf("%v: %s", err, errOut)
	}
	if _, errOut, err := verify("two"); cmdutil.ExitStatus(err) != 1 || !strings.Contains(errOut, "has no signature of this key") {
		t.Errorf("verified by another key: %v: %s", err, errOut)
	}
}

// TestCatalogSite writes a page with what fits what.
func TestCatalogSite(t *testing.T) {
	target := filepath.Join(t.TempDir(), "public")
	out, errOut, err := called(t, "catalog", "site", folderOf(t, smallInstancetype, linuxPreference), "--output-dir", target)
	if err != nil || !strings.Contains(out, "1 instancetype and 1 preference") {
		t.Fatalf("%v: %s%s", err, out, errOut)
	}
	raw, err := os.ReadFile(filepath.Join(target, "index.html"))
	if err != nil || !strings.Contains(string(raw), `"id":"instancetype/small"`) || !strings.Contains(string(raw), `"fits":[0]`) {
		t.Errorf("%v: %s", err, raw)
	}
}

// TestSiteNamesTheKey: the page of a published catalog names the key only if its signature is valid.
func TestSiteNamesTheKey(t *testing.T) {
	repository, flag := newRegistry(t)
	private, public := registry.Keys(t, "secret")
	_, stranger := registry.Keys(t, "secret")
	dir := t.TempDir()
	for name, content := range map[string][]byte{"one.key": private, "one.pub": public, "two.pub": stranger} {
		writeFile(t, filepath.Join(dir, name), string(content))
	}
	t.Setenv("COSIGN_PASSWORD", "secret")
	reference := repository + ":1.0.0"
	for _, args := range [][]string{{"push", folderOf(t, smallInstancetype), reference}, {"sign", reference, "--key", filepath.Join(dir, "one.key")}} {
		if _, errOut, err := called(t, append([]string{"catalog", args[0], flag}, args[1:]...)...); err != nil {
			t.Fatalf("%v: %s", err, errOut)
		}
	}
	block, _ := pem.Decode(public)
	signer := fmt.Sprintf("Signed by the key <code>sha256:%x</code>", sha256.Sum256(block.Bytes))
	for _, test := range []struct {
		source, key string
		status      int
		want        string
	}{
		{reference, "one.pub", 0, signer},
		{reference, "", 0, "Signature not verified"},
		{reference, "two.pub", 1, ""},
		{folderOf(t, smallInstancetype), "one.pub", 2, ""},
	} {
		folder := filepath.Join(t.TempDir(), "public")
		args := []string{"catalog", "site", test.source, flag, "--output-dir", folder}
		if test.key != "" {
			args = append(args, "--key", filepath.Join(dir, test.key))
		}
		_, errOut, err := called(t, args...)
		raw, _ := os.ReadFile(filepath.Join(folder, "index.html"))
		if cmdutil.ExitStatus(err) != test.status || !strings.Contains(string(raw), test.want) || test.status != 0 && raw != nil {
			t.Errorf("%s with the key '%s': %v: %s\n%s", test.source, test.key, err, errOut, raw)
		}
		if test.key == "" && strings.Contains(string(raw), "Signed by") {
			t.Error("the page names a key that was not verified")
		}
	}
}

// TestARegistryThatSpeaksPlainHTTP: the remedy is a flag of the command.
func TestARegistryThatSpeaksPlainHTTP(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	reference := "oci://" + strings.TrimPrefix(server.URL, "http://") + "/catalogs/general:1.0.0"
	for _, args := range [][]string{
		{"push", folderOf(t, smallInstancetype), reference}, {"pull", reference, "--output-dir", t.TempDir()}, {"inspect", reference},
	} {
		got := call(t, "", append([]string{"catalog"}, args...)...)
		if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.err.Error(), "speaks plain HTTP: use --plain-http") {
			t.Errorf("%q: %v", args, got.err)
		}
	}
}
