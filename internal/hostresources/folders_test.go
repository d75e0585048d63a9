package hostresources

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	v1 "kubevirt.io/api/core/v1"
)

// TestFoldersApart: a launcher whose folders overlap does not start, and names both flags.
func TestFoldersApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"volumes", "volumes-of-others", "claims", "open"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "volumes", "volumes/link": "../claims"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "open"), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, volumes, claims, state, keys string
		want                              []string
	}{
		{"each its own, and two of them not there yet", "volumes", "claims", "a/state", "keys", nil},
		{"a longer name is another folder", "volumes", "volumes-of-others", "state", "", nil},
		{"claims where disks are served", "volumes", "volumes/claims", "state", "", []string{"--volume-root", "--claims"}},
		{"one for both", "volumes", "volumes", "state", "", []string{"--volume-root", "--claims"}},
		{"by a link", "volumes", "link", "state", "", []string{"--volume-root", "--claims"}},
		{"by a link on the way to what is not there yet", "volumes", "claims", "link/state", "", []string{"--volume-root", "--state"}},
		{"by dots", "volumes", "claims", "claims/../volumes/state", "", []string{"--volume-root", "--state"}},
		{"a link in a served folder leads out of it", "volumes", "volumes/link", "state", "", nil},
		{"disks in the state", "state/volumes", "", "state", "", []string{"--volume-root", "--state"}},
		{"keys in the state", "volumes", "", "state", "state/keys", []string{"--state", "--tpm-keys"}},
		{"keys beside claims' keys", "volumes", "claims", "state", "claims/tpm", []string{"--claims", "--tpm-keys"}},
		{"everything", "/", "", "state", "", []string{"--volume-root", "--state"}},
		{"libvirt's states of TPMs", "/var/lib/libvirt", "", "state", "", []string{"--volume-root", "--tpm-states"}},
		{"claims' keys that a group may read", "volumes", "open", "state", "", []string{"--claims", "must be 0700"}},
		{"TPMs' keys that a group may read", "volumes", "", "state", "open", []string{"--tpm-keys", "must be 0700"}},
		{"claims that are nowhere", "volumes", "none", "state", "", []string{"--claims", "no such file"}},
	} {
		base := func(name string) string {
			if name == "" || filepath.IsAbs(name) {
				return name
			}
			return dir + "/" + name
		}
		err := Folders{VolumeRoot: base(c.volumes), Claims: base(c.claims), State: base(c.state), TPMKeys: base(c.keys), TPMStates: DefaultTPMStates}.Prepare()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: '%v', want '%s' in it", c.why, err, want)
			}
		}
		for _, made := range []string{"a", "state", "keys"} {
			if err := os.RemoveAll(filepath.Join(dir, made)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if made, err := os.ReadDir(filepath.Join(dir, "volumes")); err != nil || len(made) != 1 {
		t.Errorf("%v, a refused start has made %v", err, made)
	}
}

// TestFolderOfGuest: others than the launcher and QEMU do not enter it, and QEMU makes files in the folder for its sockets alone.
func TestFolderOfGuest(t *testing.T) {
	t.Parallel()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "web", "shop", "0d9c2f0e-0000-4000-8000-000000000001"
	for _, c := range []struct {
		why       string
		qemu      *backend.Account
		own, mine os.FileMode
	}{
		{"nothing is known of QEMU", nil, 0o700, 0o700},
		{"QEMU runs as the launcher", &backend.Account{UID: os.Geteuid(), GID: os.Getegid()}, 0o700, 0o700},
		{"QEMU has a user of its own", &backend.Account{UID: 64055, GID: 108}, 0o710, 0o700},
	} {
		host := &BareMachine{State: filepath.Join(t.TempDir(), "state")}
		if err := os.MkdirAll(host.Folder(vmi), 0o755); err != nil { // as an earlier release has left it
			t.Fatal(err)
		}
		bindings, errs := host.Bind(t.Context(), vmi, c.qemu)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		for _, dir := range []struct {
			path string
			mode os.FileMode
		}{{host.Folder(vmi), c.own}, {filepath.Dir(bindings.VNC), c.mine}} {
			if info, err := os.Stat(dir.path); err != nil || info.Mode().Perm() != dir.mode {
				t.Errorf("%s: '%s' is %v, %v; want %v", c.why, dir.path, info.Mode(), err, dir.mode)
			}
		}
	}
}
