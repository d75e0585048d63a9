package devices

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// TestFilesAreKept: whole content in the place of any other, no draft beside it, and no write where it is there already.
func TestFilesAreKept(t *testing.T) {
	f := machine(t)
	for file, install := range map[string]func() error{
		filepath.Join(f.Seccomp, "kiln/launcher.json"): f.writeProfile, filepath.Join(f.CDI, "kilnvm.io-guest.json"): f.writeCDI,
	} {
		if err := install(); err != nil {
			t.Fatal(err)
		}
		first, err := os.Stat(file)
		if err != nil || first.Mode() != 0o644 {
			t.Fatalf("%v %v, want mode 0644", first, err)
		}
		want, _ := os.ReadFile(file)
		if err := install(); err != nil {
			t.Fatal(err)
		}
		if second, _ := os.Stat(file); !os.SameFile(first, second) || !first.ModTime().Equal(second.ModTime()) {
			t.Errorf("%s was written again", file)
		}
		write(t, file, string(want[:100])) // a machine that stopped in the middle of somebody else's write
		read, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		if err := install(); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(file); string(got) != string(want) {
			t.Errorf("%s was not mended", file)
		}
		// Who has the old file open reads what was in it: the new one took its place.
		if info, err := read.Stat(); err != nil || info.Size() != 100 {
			t.Errorf("%s was written in place: %v %v", file, info, err)
		}
		if beside, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(beside) != 1 {
			t.Errorf("%v, want nothing beside %s", beside, filepath.Base(file))
		}
		if hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(hidden) != 0 {
			t.Errorf("%v was left", hidden)
		}
	}
}

// TestProfile: the default one, the calls of passt, and unshare without a bit besides the namespaces of passt.
func TestProfile(t *testing.T) {
	f := machine(t)
	if err := f.writeProfile(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(f.Seccomp, "kiln/launcher.json"))
	if err != nil {
		t.Fatal(err)
	}
	var made specs.LinuxSeccomp
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	if made.DefaultAction != specs.ActErrno || len(made.Architectures) == 0 {
		t.Errorf("default action %s, architectures %v", made.DefaultAction, made.Architectures)
	}
	const newNetwork = unix.CLONE_NEWNET | unix.CLONE_NEWUSER
	for _, c := range []struct {
		why, call string
		flags     uint64
		allowed   bool
	}{
		{"a usual call", "read", 0, true},
		{"passt's user namespace", "unshare", unix.CLONE_NEWUSER, true},
		{"its others", "unshare", unix.CLONE_NEWIPC | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWPID, true},
		{"its root file system", "mount", 0, true},
		{"", "pivot_root", 0, true},
		{"", "umount2", 0, true},
		{"a network namespace", "unshare", unix.CLONE_NEWNET, false},
		{"together with a user namespace", "unshare", newNetwork, false},
		{"a cgroup namespace", "unshare", unix.CLONE_NEWCGROUP, false},
		{"a thread", "clone", unix.CLONE_VM | unix.CLONE_THREAD, true},
		{"clone with a namespace", "clone", newNetwork, false},
		{"clone3, whose flags no filter can see", "clone3", 0, false},
		{"others' namespaces", "setns", 0, false},
		{"the newer calls that mount", "fsmount", 0, false},
		{"the kernel's keys", "add_key", 0, false},
		{"BPF", "bpf", 0, false},
	} {
		if got := allowed(t, made, c.call, c.flags); got != c.allowed {
			t.Errorf("%s: %s(0x%x) is allowed: %t, want %t", c.why, c.call, c.flags, got, c.allowed)
		}
	}
}

// allowed judges a call by its first argument. A call that rules of different actions are about has no meaning.
func allowed(t *testing.T, profile specs.LinuxSeccomp, call string, first uint64) (yes bool) {
	t.Helper()
	actions := map[specs.LinuxSeccompAction]bool{}
	for _, rule := range profile.Syscalls {
		if !slices.Contains(rule.Names, call) {
			continue
		}
		actions[rule.Action] = true
		fits := true
		for _, arg := range rule.Args {
			if arg.Op != specs.OpMaskedEqual || arg.Index != 0 {
				t.Fatalf("%s: rule %v is not understood by this test", call, rule)
			}
			fits = fits && first&arg.Value == arg.ValueTwo
		}
		yes = yes || fits && rule.Action == specs.ActAllow
	}
	if len(actions) > 1 {
		t.Errorf("%s: rules with actions %v", call, actions)
	}
	return yes
}

// TestCDI: by the library that container runtimes use, a container of any user gets a device of the launcher's.
func TestCDI(t *testing.T) {
	f := machine(t)
	if err := f.writeCDI(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(f.CDI, cdiFile))
	if err != nil {
		t.Fatal(err)
	}
	// /dev/null is what each machine has.
	null := filepath.Join(t.TempDir(), "cdi.json")
	write(t, null, string(replaced(t, text, "/dev/kvm", "/dev/null")))
	cache, err := cdi.NewCache(cdi.WithSpecDirs(filepath.Dir(null)), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if errs := cache.GetErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	want := []string{"kilnvm.io/guest=kvm", "kilnvm.io/guest=tun", "kilnvm.io/guest=vhost-net", "kilnvm.io/guest=vhost-vsock"}
	if diff := cmp.Diff(want, cache.ListDevices()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	plain := specs.LinuxDevice{Path: "/dev/null", Type: "c", Major: 1, Minor: 3}
	container := &specs.Spec{Process: &specs.Process{User: specs.User{UID: 1000, GID: 1000}}, Linux: &specs.Linux{Devices: []specs.LinuxDevice{plain}}}
	if _, err := cache.InjectDevices(container, want[0]); err != nil {
		t.Fatal(err)
	}
	user, mode := uint32(107), os.FileMode(0o660)
	plain.UID, plain.GID, plain.FileMode = &user, &user, &mode
	if diff := cmp.Diff([]specs.LinuxDevice{plain}, container.Linux.Devices); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	major, minor := int64(1), int64(3)
	rules := []specs.LinuxDeviceCgroup{{Allow: true, Type: "c", Major: &major, Minor: &minor, Access: "rw"}}
	if diff := cmp.Diff(rules, container.Linux.Resources.Devices); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// replaced fails unless there is something to be replaced.
func replaced(t *testing.T, text []byte, old, new string) []byte {
	t.Helper()
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("'%s' is not in %s", old, text)
	}
	return bytes.ReplaceAll(text, []byte(old), []byte(new))
}
