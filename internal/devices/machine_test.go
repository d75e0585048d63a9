package devices

import (
	"os"
	"path/filepath"
	"testing"
)

// machine has folders of a machine with all devices, under which containers are confined as they should be.
func machine(t *testing.T) Folders {
	t.Helper()
	root := t.TempDir()
	f := Folders{
		Plugins: filepath.Join(root, "p"), Seccomp: filepath.Join(root, "seccomp"), CDI: filepath.Join(root, "cdi"),
		Dev: filepath.Join(root, "dev"), Proc: filepath.Join(root, "proc"), Containerd: filepath.Join(root, "containerd"),
	}
	if err := os.Mkdir(f.Plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range Served {
		addDevice(t, f, d)
	}
	write(t, filepath.Join(f.Proc, "misc"), "200 tun\n232 kvm\n")
	write(t, filepath.Join(f.Proc, "self/status"), "Name:\tlauncher\nSeccomp:\t2\nSeccomp_filters:\t1\n")
	write(t, filepath.Join(f.Proc, "sys/user/max_user_namespaces"), "100\n")
	write(t, filepath.Join(f.Containerd, "config.toml"),
		"version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ndevice_ownership_from_security_context = true\n")
	return f
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// onMachine is where the device stands in the folder of devices.
func onMachine(f Folders, d Device) string { return filepath.Join(f.Dev, d.Path[len("/dev/"):]) }

// addDevice adds a character device, which is /dev/null by another name.
func addDevice(t *testing.T, f Folders, d Device) {
	t.Helper()
	file := onMachine(f, d)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", file); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
}

func TestFault(t *testing.T) {
	kvm, tun := Served[0], Served[1]
	for _, c := range []struct {
		why    string
		device Device
		change func(t *testing.T, f Folders)
		want   string
	}{
		{"all is there", kvm, func(*testing.T, Folders) {}, ""},
		{"no device", kvm, func(t *testing.T, f Folders) { remove(t, onMachine(f, kvm)) }, "the machine has no /dev/kvm"},
		{"a file", kvm, func(t *testing.T, f Folders) {
			remove(t, onMachine(f, kvm))
			write(t, onMachine(f, kvm), "")
		}, "/dev/kvm is not a character device"},
		{"udev made it, and the kernel has no KVM", kvm, func(t *testing.T, f Folders) { write(t, filepath.Join(f.Proc, "misc"), "200 tun\n") },
			"/dev/kvm is there, but the kernel does not serve it: no module for this machine's virtualization is loaded"},
		{"tun's module is loaded when it is opened", tun, func(t *testing.T, f Folders) { write(t, filepath.Join(f.Proc, "misc"), "") }, ""},
	} {
		f := machine(t)
		c.change(t, f)
		if got := f.deviceFault(c.device); got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
}
