package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/test/registry"
)

// noCluster is what a run says that has passed everything before a cluster is asked: the kubeconfig of tests does not exist.
const noCluster = "/none: no such file or directory"

// TestInstallBeforeAClusterIsAsked: what is wrong with a source, its name or its signature ends the run while nothing is read of a cluster.
func TestInstallBeforeAClusterIsAsked(t *testing.T) {
	repository, flag := newRegistry(t)
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		writeKeys(t, dir, name)
	}
	t.Setenv("COSIGN_PASSWORD", "secret")
	good, one := folderOf(t, smallInstancetype, linuxPreference), filepath.Join(dir, "one.pub")
	for _, arguments := range [][]string{
		{"push", good, repository + ":1.0.0"},
		{"push", folderOf(t, smallInstancetype), repository + ":1.1.0"},
		{"sign", repository + ":1.0.0", "--key", filepath.Join(dir, "one.key")},
		{"copy", repository + ":1.0.0", repository + ":2.0.0"}, // an old version, signed, as if it were a new one
		{"copy", repository + ":1.0.0", repository + ":latest"},
	} {
		if _, errOut, err := called(t, append(append([]string{"catalog"}, arguments...), flag)...); err != nil {
			t.Fatalf("%v: %v %s", arguments, err, errOut)
		}
	}
	for _, test := range []struct {
		why       string
		arguments []string
		status    int
		want      string
	}{
		{"a folder without a name", []string{good}, 2, "--name must name the catalog"},
		{"a name that is no label", []string{good, "--name", "General\x1b"}, 2, "the name 'General?' of the catalog must have"},
		{"a folder", []string{good, "--name", "general"}, 2, noCluster},
		{"a key for a folder", []string{good, "--name", "general", "--key", one}, 2, "files have no signature"},
		{"the cluster", []string{"cluster", "--name", "general"}, 2, "is installed already"},
		{"a name that an API server refuses", []string{folderOf(t, smallInstancetype, strings.Replace(linuxPreference, "linux", "Linux", 1)), "--name", "x"}, 1,
			"VirtualMachineClusterPreference Linux: Invalid value"},
		{"a field that no API has", []string{folderOf(t, strings.Replace(smallInstancetype, "cpu:", "cpus: 1, cpu:", 1)), "--name", "x"}, 1, "unknown field"},
		{"nothing", []string{t.TempDir(), "--name", "x"}, 2, "no instancetype and no preference"},
		{"a version", []string{repository + ":1.0.0"}, 2, noCluster},
		{"signed", []string{repository + ":1.0.0", "--key", one}, 2, noCluster},
		{"signed, by another name", []string{repository + ":latest", "--key", one, "--name", "other"}, 2, noCluster},
		{"not signed", []string{repository + ":1.1.0", "--key", one}, 1, "has no signature"},
		{"signed by another key", []string{repository + ":1.0.0", "--key", filepath.Join(dir, "two.pub")}, 1, "has no signature of this key"},
		{"an old version under a new tag", []string{repository + ":2.0.0", "--key", one}, 2, "the tag '2.0.0' names version '1.0.0'"},
		{"no such version", []string{repository + ":7.0.0"}, 2, "does not exist"},
	} {
		out, errOut, err := called(t, append(append([]string{"catalog", "install"}, test.arguments...), flag)...)
		output := out + errOut
		if err != nil {
			output += err.Error()
		}
		if cmdutil.ExitStatus(err) != test.status || !strings.Contains(output, test.want) {
			t.Errorf("%s: status %d, %q, want %d and %q", test.why, cmdutil.ExitStatus(err), output, test.status, test.want)
		}
	}
	for name, want := range map[string]string{"general": noCluster, "a/b": "the name 'a/b' of the catalog must have"} {
		if _, _, err := called(t, "catalog", "uninstall", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("uninstall %s: %v, want %s", name, err, want)
		}
	}
}

// writeKeys writes a pair of keys in cosign's form, with the password 'secret'.
func writeKeys(t *testing.T, dir, name string) {
	t.Helper()
	private, public := registry.Keys(t, "secret")
	writeFile(t, filepath.Join(dir, name+".key"), string(private))
	writeFile(t, filepath.Join(dir, name+".pub"), string(public))
}
