package guest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/poll"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// vmiWithStorage returns a VMI that boots a kernel from an image, and has a disk of each kind that a pod supports.
func vmiWithStorage(t *testing.T) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := explicit.WithClaim(t)
	vmi.Name, vmi.Namespace = "guest", "default"
	vmi.Spec.Domain.Firmware = &v1.Firmware{KernelBoot: &v1.KernelBoot{KernelArgs: guest.Cmdline,
		Container: &v1.KernelBootContainer{Image: "registry.example/kernel:1", KernelPath: "/boot/vmlinuz", InitrdPath: "/boot/initrd"}}}
	size := resource.MustParse("3Mi")
	for name, source := range map[string]v1.VolumeSource{
		"image": {ContainerDisk: &v1.ContainerDiskSource{Image: "registry.example/disk:1"}},
		"empty": {EmptyDisk: &v1.EmptyDiskSource{Capacity: size}},
		"init":  {CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config\n"}},
	} {
		disk := v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}, Serial: name}
		vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, disk)
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	}
	vmi.Spec.Domain.Devices.Disks[0].Serial = "claim"
	vmi.Status.VolumeStatus = []v1.VolumeStatus{{Name: "data", PersistentVolumeClaimInfo: &v1.PersistentVolumeClaimInfo{
		Requests: map[corev1.ResourceName]resource.Quantity{corev1.ResourceStorage: resource.MustParse("2Mi")}}}}
	return vmi
}

// mountVolumes returns a function that creates the mounts of vmiWithStorage, as kubelet does.
func mountVolumes(t *testing.T) func(root string) {
	return func(root string) {
		for _, volume := range []string{"data", "image/disk"} {
			if err := os.MkdirAll(filepath.Join(root, pod.VolumePath(volume)), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(filepath.Join(root, pod.VolumePath("data")), launcherUID, launcherUID); err != nil { // as fsGroup does
			t.Fatal(err)
		}
		disk := filepath.Join(root, pod.VolumePath("image"), "disk", "a.qcow2")
		if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", disk, "5M").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if _, _, err := guest.Build(filepath.Join(root, pod.Kernel)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBoot: a guest finds its disks, writes to the log of its container, and powers off when its pod is deleted.
func TestBoot(t *testing.T) {
	t.Parallel()
	c := serveVMI(t, withGracePeriod(vmiWithStorage(t), 300))
	l := startLauncher(t, c, mountVolumes(t))
	c.waitForReport(t, l, "a guest that runs", inState(v1alpha1.GuestRunning))
	report := l.waitForGuestReport(t)
	got := map[string]uint64{}
	for _, disk := range report.Disks {
		got[disk.Serial] = uint64(disk.Bytes)
	}
	if init := got["init"]; init == 0 || init > 1<<20 {
		t.Errorf("the image of cloud-init has %d bytes", init)
	}
	delete(got, "init")
	if diff := cmp.Diff(map[string]uint64{"claim": 2 << 20, "image": 5 << 20, "empty": 3 << 20}, got); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	l.sendTERM(t)
	if status := l.waitForExit(t); status != 0 {
		t.Errorf("the launcher ends with status %d, want 0", status)
	}
	c.waitForReport(t, l, "a guest that has powered off", inState(v1alpha1.GuestPoweredOff))
}

// waitForGuestReport returns the first report that the guest writes to its console, which is the launcher's standard output.
func (l *launcher) waitForGuestReport(t *testing.T) guest.Report {
	t.Helper()
	var reports []guest.Report
	if !poll.Until(longLimit, func() bool {
		text := l.consoleText()
		var err error
		if reports, err = guest.ParseReports(strings.NewReader(text[:strings.LastIndexByte(text, '\n')+1])); err != nil {
			t.Fatal(err)
		}
		return len(reports) > 0
	}) {
		t.Fatalf("the guest does not report; its console is:\n%s", l.consoleText())
	}
	return reports[0]
}
