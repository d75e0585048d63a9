package launch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
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
	host := &Host{State: dir}
	vmi := networkGuest(t)
	vmi.Spec.Domain.Devices.Disks, vmi.Spec.Volumes = nil, nil
	vmi.Annotations = map[string]string{v1.IgnitionAnnotation: data}
	bindings, errs := host.Bind(vmi)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	all := documents(t, vmi, bindings)
	kernel, initramfs, err := guest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	boot := *all.Domain.OS
	boot.Kernel, boot.Initrd, boot.Cmdline = kernel, initramfs, guest.Cmdline
	all.Domain.OS = &boot
	l := connected(t, d)
	if err := l.Run(all, nil); err != nil {
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
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	report, err := guest.WaitReport(ctx, bindings.SerialLog, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := report.Files[abi.Ignition], fmt.Sprintf("%d %x", len(data), sha256.Sum256([]byte(data))); got != want {
		t.Errorf("the guest finds a file of '%s', want '%s'", got, want)
	}
	if got, want := report.Generation, inMemory(all.Domain.GenID.Value); got != want {
		t.Errorf("the guest finds generation '%s', want '%s'", got, want)
	}
	if err := l.Remove(all.Domain.Name); err != nil {
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

// arguments are those of the process of this machine whose program has the one text in its name and the other among its arguments.
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
