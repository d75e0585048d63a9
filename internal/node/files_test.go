package node

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// vmiWithEveryFile returns a VMI for which a start writes files of all kinds.
func vmiWithEveryFile(t *testing.T, name string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := claimedVMI(t, name)
	locked := true
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{
		{Name: "seed", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{Bus: v1.DiskBusSATA, ReadOnly: &locked, Tray: v1.TrayStateClosed}}},
		{Name: "empty", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}},
	}
	vmi.Spec.Volumes = []v1.Volume{
		{Name: "seed", VolumeSource: v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config\n"}}},
		{Name: "empty", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Mi")}}},
	}
	vmi.Annotations = map[string]string{v1.IgnitionAnnotation: "{}"}
	return vmi
}

// TestRepeatedStartTouchesNothing: if the report of a start is lost, the repeated start does not touch the files of the running guest: QEMU could read a half
// written file.
func TestRepeatedStartTouchesNothing(t *testing.T) {
	t.Parallel()
	vmi := vmiWithEveryFile(t, "again")
	cluster := newClusterWithHardware(t, vmi)
	n := newNode(t, startLibvirt(t), cluster, cluster)
	after := reconcileRepeatedly(t, n, vmi)
	if after.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
	}
	look := func() map[string]string {
		files := map[string]string{}
		for _, name := range []string{"seed.iso", "empty.qcow2", "ignition.json", "host-policy.json"} {
			info, err := os.Stat(filepath.Join(n.Machine.Folder(vmi), name))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != 0o600 {
				t.Errorf("'%s' has mode %v, want it for one user only", name, info.Mode())
			}
			files[name] = info.ModTime().String()
		}
		return files
	}
	before := look()
	after.Status.Phase = v1.Scheduled
	if err := cluster.Status().Update(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if again := reconcileRepeatedly(t, n, vmi); again.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", again.Status.Phase, again.Status.Conditions)
	}
	if diff := cmp.Diff(before, look()); diff != "" {
		t.Errorf("times of files (-before +after):\n%s", diff)
	}
}

// TestGuestOfAnotherUser: libvirt as distributions configure it runs QEMU and swtpm as their own users. These users can read the files of the guest, and other
// users cannot.
func TestGuestOfAnotherUser(t *testing.T) {
	t.Parallel()
	d := libvirt.StartUnprivileged(t)
	vmi := vmiWithEveryFile(t, "other")
	display, persistent := true, true
	vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = &display
	vmi.Spec.Domain.Devices.TPM = &v1.TPMDevice{Persistent: &persistent}
	cluster := newClusterWithHardware(t, vmi)
	n := newNode(t, connectLibvirt(t, d), cluster, cluster)
	n.Machine.TPMStates = d.TPMStates()
	if err := os.Chmod(n.Machine.State, 0o711); err != nil { // as the launcher makes it
		t.Fatal(err)
	}
	after := reconcileRepeatedly(t, n, vmi)
	if after.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
	}
	status, err := os.ReadFile("/proc/" + findProcess(t, "guest=default_other,") + "/status")
	qemu := n.hostFacts().QEMU
	if err != nil || qemu == nil || qemu.UID == 0 || !strings.Contains(string(status), "\nUid:\t"+strconv.Itoa(qemu.UID)+"\t") {
		t.Errorf("libvirt says that QEMU runs as %v, and %v, its process says\n%s", qemu, err, status)
	}
	if _, err := os.Stat(filepath.Join(n.Machine.Folder(vmi), "qemu", "vnc.sock")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(n.Machine.Folder(vmi)); err != nil || info.Mode().Perm() != 0o710 {
		t.Errorf("the guest's folder is %v, %v", info.Mode(), err)
	}
}

// findProcess returns the ID of a process of this machine whose arguments contain a text.
func findProcess(t *testing.T, text string) string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range processes {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), text) {
			return filepath.Base(filepath.Dir(file))
		}
	}
	t.Fatalf("no process has '%s' among its arguments", text)
	return ""
}
