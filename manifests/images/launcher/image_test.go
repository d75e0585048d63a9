package launcher

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/daemon"
	"github.com/kilnvm/kiln/manifests/images/programs"
	"github.com/kilnvm/kiln/test/poll"
)

// cache is the cache of 'make image': a second run finds the packages there.
const cache = "../../../bin/images/cache"

// unpacked builds the image and unpacks it as a node would.
func unpacked(t *testing.T) (root string) {
	t.Helper()
	if err := checkPrivileges(t.Context()); err != nil {
		t.Skip("pods are imitated in namespaces: ", err)
	}
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the image is made of Debian's packages, by Debian's programs: ", err)
		}
	}
	from := programs.Sources{Module: "../../..", Version: "proof"}
	image, err := Image(t.Context(), from, programs.Platform{OS: "linux", Architecture: runtime.GOARCH}, Folders{Work: t.TempDir(), Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // for account 107
		t.Fatal(err)
	}
	extract := exec.Command("tar", "-x", "-p", "-C", root)
	in, err := extract.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := extract.Start(); err != nil {
		t.Fatal(err)
	}
	if err := image.Root.WriteTar(in); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := extract.Wait(); err != nil {
		t.Fatal(err)
	}
	return root
}

// state is a folder for confined programs.
func state(t *testing.T) string {
	t.Helper()
	dir, err := makeStateFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestImage: the programs of the image run as in a pod: without root, without rights, on a root file system that nobody can write.
func TestImage(t *testing.T) {
	root := unpacked(t)
	for _, test := range []struct{ version, program string }{
		{"proof", "/launcher version"}, {"Red Hat", "/usr/bin/passt --version"}, {"TPM emulator version", "/usr/bin/swtpm --version"},
		{"cmdarg-create-config-files", "/usr/bin/swtpm_setup --tpm2 --print-capabilities"}, {"certtool", "/usr/bin/certtool --version"},
		{"qemu-img version 10.", "/usr/bin/qemu-img --version"}, {"(libvirt) 11.", "/usr/sbin/libvirtd --version"}, {"11.", "/usr/bin/virsh --version"},
	} {
		out, err := confinedCommand(t.Context(), root, state(t), strings.Fields(test.program)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), test.version) {
			t.Errorf("'%s': %v: %s", test.program, err, out)
		}
	}
	list, err := os.ReadFile(filepath.Join(root, "usr/share/kiln/packages"))
	if err != nil || !strings.Contains(string(list), "\nlibvirt-daemon 11.") || !strings.Contains(string(list), "\nqemu-utils 1:10.") {
		t.Errorf("%v: %s", err, list)
	}
	privileged(t, root)
	t.Run("capabilities", func(t *testing.T) { known(t, root) })
	t.Run("probing again", func(t *testing.T) { probedAgain(t, root) })
	t.Run("time zones", func(t *testing.T) { zoned(t, root) })
	t.Run("guest", func(t *testing.T) { guest(t, root) })
	t.Run("firmware in format qcow2", func(t *testing.T) { qcow2Firmware(t, root) })
}

// zoned: the clock of a guest shows the time of its time zone, if libvirt starts QEMU. The zone has an offset of 14 hours all the year.
func zoned(t *testing.T, root string) {
	for _, zone := range []string{"Europe/Vienna", "America/Argentina/Buenos_Aires", "UTC", "Etc/GMT-14"} {
		if content, err := os.ReadFile(filepath.Join(root, "usr/share/zoneinfo", zone)); err != nil || !strings.HasPrefix(string(content), "TZif") {
			t.Errorf("'%s' is no time zone of the image: %v", zone, err)
		}
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the clock of this board does not tell its time")
	}
	clock := func(zone string) time.Time {
		t.Helper()
		ctx, end := context.WithCancel(t.Context())
		own := state(t)
		qemu := confinedCommand(ctx, root, own, "/usr/bin/"+platforms[runtime.GOARCH].qemu, "-machine", "q35,accel=tcg", "-S", "-nodefaults", "-display", "none",
			"-qmp", "unix:/tmp/qmp,server=on,wait=off", "-rtc", "base=localtime")
		qemu.Env = append(qemu.Env, "TZ="+zone)
		if err := qemu.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			end()
			_ = qemu.Wait() // it was killed
		}()
		var monitor net.Conn
		if !poll.Until(time.Minute, func() (open bool) {
			var err error
			monitor, err = net.Dial("unix", filepath.Join(own, "qmp"))
			return err == nil
		}) {
			t.Fatal("QEMU has no monitor")
		}
		defer monitor.Close()
		if _, err := io.WriteString(monitor, `{"execute": "qmp_capabilities"}
			{"execute": "qom-get", "arguments": {"path": "/machine", "property": "rtc-time"}, "id": "clock"}`); err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(monitor); ; {
			var answer struct {
				ID     string         `json:"id"`
				Return map[string]int `json:"return"`
			}
			if err := lines.Decode(&answer); err != nil {
				t.Fatalf("QEMU does not tell its time: %v", err)
			}
			if at := answer.Return; answer.ID == "clock" {
				return time.Date(1900+at["tm_year"], time.Month(1+at["tm_mon"]), at["tm_mday"], at["tm_hour"], at["tm_min"], at["tm_sec"], 0, time.UTC)
			}
		}
	}
	if ahead := clock("Etc/GMT-14").Sub(clock("UTC")); ahead < 13*time.Hour+50*time.Minute || ahead > 14*time.Hour+10*time.Minute {
		t.Errorf("a clock of 14 hours before UTC is %s before it", ahead)
	}
}

// privileged: nothing of the image gives rights to who starts it.
func privileged(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("'%s' has mode %s", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// known: libvirtd of a pod uses the image's capabilities, and probes QEMU if they do not belong to its files.
func known(t *testing.T, root string) {
	file := func(state string) string {
		found, err := filepath.Glob(filepath.Join(state, "cache/libvirt/qemu/cache/capabilities/*.xml"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v in the cache: %v", found, err)
		}
		return found[0]
	}
	// asked returns the answer of a new libvirtd, the time until then, and whether it kept the file of its cache.
	asked := func(state string) (answer string, took time.Duration) {
		start := time.Now()
		s, err := startSession(t.Context(), root, state)
		if err != nil {
			t.Fatal(err)
		}
		defer s.kill()
		if answer, err = s.domainCapabilities(); err != nil {
			t.Fatalf("%v: %s", err, s.log.String())
		}
		return answer, time.Since(start)
	}
	empty := state(t)
	want, without := asked(empty)

	given := state(t)
	provide(t, root, given)
	before := inode(t, file(given))
	got, with := asked(given)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("other capabilities: %s", diff)
	}
	if !os.SameFile(before, inode(t, file(given))) {
		t.Error("libvirtd has probed QEMU although it had the capabilities of the image")
	}
	t.Logf("libvirtd answers %.2f s after its start with the image's capabilities, %.2f s after it without them", with.Seconds(), without.Seconds())

	other := state(t)
	provide(t, root, other)
	raw, err := os.ReadFile(file(other))
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(raw), "<flag name='usb-hub'/>", "", 1)
	wrong = strings.Replace(wrong, "<qemuctime>", "<qemuctime>1", 1) // the time of another QEMU
	if err := os.WriteFile(file(other), []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := asked(other); got != want {
		t.Errorf("the cache of another QEMU changes the answer: %s", cmp.Diff(want, got))
	}
	if raw, err := os.ReadFile(file(other)); err != nil || !strings.Contains(string(raw), "<flag name='usb-hub'/>") {
		t.Errorf("libvirtd took the cache of another QEMU: %v", err)
	}
}

// provide does what the launcher does before it starts libvirtd, and gives the files to the account of the pod.
func provide(t *testing.T, root, state string) {
	t.Helper()
	start := time.Now()
	if err := daemon.ProvideCapabilities(root, filepath.Join(state, "cache")); err != nil {
		t.Fatal(err)
	}
	t.Logf("the capabilities were provided in %d ms", time.Since(start).Milliseconds())
	if err := daemon.CopySettings(root, filepath.Join(state, "config")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chown", "-R", User, state).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func inode(t *testing.T, file string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// probedAgain: probing gives the same bytes each time, or two builds would differ.
func probedAgain(t *testing.T, root string) {
	to := t.TempDir()
	if err := probeQEMU(t.Context(), root, to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("diff", "-r", to, filepath.Join(root, daemon.Capabilities)).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
