package hostresources

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kdomanski/iso9660"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestIgnition: the configuration reaches QEMU through a file that others cannot read, and is in no document of libvirt.
func TestIgnition(t *testing.T) {
	t.Parallel()
	const data = `{"ignition": {"version": "3.4.0"}, "passwd": {"users": [{"name": "core", "passwordHash": "` + passphrase + `"}]}}`
	d := libvirt.Start(t)
	dir, err := os.MkdirTemp("", "kiln-ignition-") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	host := &BareMachine{State: dir}
	vmi := explicit.WithClaim(t)
	vmi.Spec.Domain.Devices.Disks, vmi.Spec.Volumes = nil, nil
	vmi.Annotations = map[string]string{v1.IgnitionAnnotation: data}
	bound := bound(t, host, vmi)
	all := explicit.Documents(t, vmi, bound.Bindings)
	kernel, initramfs, err := guest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	boot := *all.Domain.OS
	boot.Kernel, boot.Initrd, boot.Cmdline = kernel, initramfs, guest.Cmdline
	all.Domain.OS = &boot
	l := connected(t, d)
	if err := l.Start(t.Context(), guestOf(vmi, all, nil)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, string(vmi.UID), "ignition.json")
	if got := arguments(t, "qemu-system", "file="+file); !strings.Contains(got, "name=opt/com.coreos/config,file="+file) {
		t.Errorf("QEMU runs with '%s'", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want it for one user alone", info, err)
	}
	active, err := d.ActiveXML(all.Domain.Name)
	if err != nil || strings.Contains(active, passphrase) {
		t.Errorf("%v, or the data is in\n%s", err, active)
	}
	ctx, cancel := context.WithTimeout(t.Context(), guest.BootTimeout)
	defer cancel()
	report, err := guest.WaitReport(ctx, bound.SerialLog, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := report.Files[abi.Ignition], fmt.Sprintf("%d %x", len(data), sha256.Sum256([]byte(data))); got != want {
		t.Errorf("the guest finds a file of '%s', want '%s'", got, want)
	}
	if got, want := report.Generation, inMemory(all.Domain.GenID.Value); got != want {
		t.Errorf("the guest finds generation '%s', want '%s'", got, want)
	}
	if err := l.Remove(t.Context(), ownerOf(vmi)); err != nil {
		t.Fatal(err)
	}
	if err := host.Forget(vmi); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file outlives its guest: %v", err)
	}
}

// inMemory is a GUID in the order in which guests find it: the first three groups are numbers of a little-endian machine.
func inMemory(guid string) string {
	raw, _ := hex.DecodeString(strings.ReplaceAll(guid, "-", ""))
	for _, group := range [][]byte{raw[:4], raw[4:6], raw[6:8]} {
		slices.Reverse(group)
	}
	return hex.EncodeToString(raw)
}

// arguments returns the command line of the process of this machine whose program has the one text in its name and the other among its arguments.
func arguments(t *testing.T, program, part string) string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		line, err := os.ReadFile(process)
		name, _, _ := bytes.Cut(line, []byte{0})
		if err == nil && bytes.Contains(name, []byte(program)) && bytes.Contains(line, []byte(part)) {
			return string(bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
		}
	}
	return ""
}

// writeNoCloud writes the ISO of a source to a file.
func writeNoCloud(t *testing.T, path string, vmi *v1.VirtualMachineInstance, data *v1.CloudInitNoCloudSource) error {
	t.Helper()
	iso, err := inlineNoCloud(path, vmi, data)
	if err != nil {
		return err
	}
	return iso.file.ensureFile(t.Context())
}

func TestNoCloudISO(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seed.iso")
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "web.one", Namespace: "shop"}}
	source := &v1.CloudInitNoCloudSource{UserData: "#cloud-config\n", NetworkDataBase64: "dmVyc2lvbjogMg=="}
	if err := writeNoCloud(t, file, vmi, source); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	image, err := iso9660.OpenImage(in)
	if err != nil {
		t.Fatal(err)
	}
	if label, _ := image.Label(); label != "cidata" {
		t.Errorf("label is '%s'; cloud-init looks for cidata", label)
	}
	root, err := image.RootDir()
	if err != nil {
		t.Fatal(err)
	}
	children, err := root.GetChildren()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, child := range children {
		raw, err := io.ReadAll(child.Reader())
		if err != nil {
			t.Fatal(err)
		}
		got[child.Name()] = string(raw)
	}
	want := map[string]string{
		"user-data": "#cloud-config\n", "network-config": "version: 2",
		"meta-data": "instance-id: web.one.shop\nlocal-hostname: web\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of the ISO (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: user data often holds a password", info.Mode())
	}
}

// TestNoCloudISOUnderItsGuest: a start that is repeated leaves the image that the guest reads alone, at any time and in any place; one
// with other data takes the place of the file and does not write into it.
func TestNoCloudISOUnderItsGuest(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	source := &v1.CloudInitNoCloudSource{UserData: "#cloud-config\n", NetworkData: "version: 2"}
	files := []string{filepath.Join(t.TempDir(), "first.iso"), filepath.Join(t.TempDir(), "second.iso")}
	make := func(file string) (os.FileInfo, []byte) {
		t.Helper()
		if err := writeNoCloud(t, file, vmi, source); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info, raw
	}
	before, first := make(files[0])
	guest, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	if again, bytes := make(files[0]); !os.SameFile(before, again) || !again.ModTime().Equal(before.ModTime()) || string(bytes) != string(first) {
		t.Error("the same image was written again")
	}
	time.Sleep(20 * time.Millisecond) // the real clock must move on, because an ISO image has time stamps in hundredths of a second
	if _, second := make(files[1]); string(second) != string(first) {
		t.Error("equal data gives another image at another time")
	}
	source.UserData = "#cloud-config\nhostname: other\n"
	if after, bytes := make(files[0]); os.SameFile(before, after) || string(bytes) == string(first) {
		t.Error("the image with other data is not a file of its own")
	}
	if read, err := io.ReadAll(guest); err != nil || string(read) != string(first) {
		t.Errorf("a guest that has the old image open reads another: %v", err)
	}
}
