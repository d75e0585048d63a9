package guest_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/poll"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// visibleHardware is the hardware that the guest reports on its console.
type visibleHardware struct{ cpus, kib, nics, disks, links, media int }

var visibleHardwareLine = regexp.MustCompile(`(?m)^KILN-HAS (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)\r?$`)

// waitForVisibleHardware waits until is returns true for the guest's last report of its hardware.
func (l *launcher) waitForVisibleHardware(t *testing.T, what string, is func(visibleHardware) bool) visibleHardware {
	t.Helper()
	var last visibleHardware
	if !poll.Until(longLimit, func() bool {
		all := visibleHardwareLine.FindAllStringSubmatch(l.consoleText(), -1)
		if len(all) == 0 {
			return false
		}
		for i, into := range []*int{&last.cpus, &last.kib, &last.nics, &last.disks, &last.links, &last.media} {
			*into, _ = strconv.Atoi(all[len(all)-1][i+1])
		}
		return is(last)
	}) {
		t.Fatalf("want %s; the guest reports %+v", what, last)
	}
	return last
}

// resizableVMI returns a VMI with 2 CPUs and 1 GiB that can grow to 8 CPUs and 4 GiB. It has a network card, a disk that can be unplugged, and a CD-ROM.
func resizableVMI(t *testing.T) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := vmiWithStorage(t)
	vmi.Spec.Domain.Firmware.KernelBoot.KernelArgs = guest.Cmdline + " kiln.grow=1"
	one, four := resource.MustParse("1Gi"), resource.MustParse("4Gi")
	vmi.Spec.Domain.CPU = &v1.CPU{Model: "qemu64", Sockets: 2, Cores: 1, Threads: 1, MaxSockets: 8}
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &one, MaxGuest: &four}
	vmi.Spec.Volumes[0].PersistentVolumeClaim.Hotpluggable = true
	for i := range vmi.Spec.Domain.Devices.Disks {
		if disk := &vmi.Spec.Domain.Devices.Disks[i]; disk.Name == "init" {
			disk.DiskDevice = v1.DiskDevice{CDRom: &v1.CDRomTarget{Bus: v1.DiskBusSATA, ReadOnly: new(true)}}
		}
	}
	return withGracePeriod(vmi, 300)
}

// requestHardware changes spec.live of the GuestPod.
func (c *fakeAPIServer) requestHardware(t *testing.T, live v1alpha1.LiveHardware) {
	t.Helper()
	if err := c.changePod(func(pod *v1alpha1.GuestPod) error {
		pod.Spec.Live = &v1alpha1.GuestPodLive{LiveHardware: live}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func reportsRunning(is func(v1alpha1.ReportedHardware) bool) func(v1alpha1.GuestPodStatus) bool {
	return func(status v1alpha1.GuestPodStatus) bool { return status.Running != nil && is(*status.Running) }
}

// TestGrows: a running guest gets CPUs and memory, loses its link and its medium and gets both back, and loses a card and a disk. The guest sees each change,
// and the launcher reports the hardware that libvirt runs.
func TestGrows(t *testing.T) {
	nightly.Only(t) // TestGrowsLive of test/pods has a guest grow in its pod; a fake libvirt takes links and media away in TestLiveChanges
	t.Parallel()
	c := serveVMI(t, resizableVMI(t))
	l := startLauncher(t, c, mountVolumes(t))
	booted := c.waitForReport(t, l, "what libvirt runs", reportsRunning(func(r v1alpha1.ReportedHardware) bool { return r.VCPUs == 2 && r.MemoryKiB == 1<<20 }))
	if at := booted.Running; len(at.Absent)+len(at.LinksDown)+len(at.Ejected) > 0 || at.Hindrance != "" {
		t.Errorf("at boot the launcher reports %+v", at)
	}
	before := l.waitForVisibleHardware(t, "2 CPUs and a link", func(h visibleHardware) bool { return h.cpus == 2 && h.links == 1 && h.media == 1 })
	live := v1alpha1.LiveHardware{VCPUs: 4, MemoryKiB: 2 << 20}
	c.requestHardware(t, live)
	c.waitForReport(t, l, "4 vCPUs and 2 GiB", reportsRunning(func(r v1alpha1.ReportedHardware) bool { return r.VCPUs == 4 && r.MemoryKiB == 2<<20 }))
	l.waitForVisibleHardware(t, "4 CPUs and 1 GiB more", func(h visibleHardware) bool { return h.cpus == 4 && h.kib-before.kib == 1<<20 })

	live.LinksDown, live.Ejected = []string{"default"}, []string{"init"}
	c.requestHardware(t, live)
	c.waitForReport(t, l, "no link and no medium", reportsRunning(func(r v1alpha1.ReportedHardware) bool { return len(r.LinksDown) == 1 && len(r.Ejected) == 1 }))
	l.waitForVisibleHardware(t, "no link and no medium", func(h visibleHardware) bool { return h.links == 0 && h.media == 0 })
	live.LinksDown, live.Ejected = nil, nil
	c.requestHardware(t, live)
	c.waitForReport(t, l, "link and medium", reportsRunning(func(r v1alpha1.ReportedHardware) bool { return len(r.LinksDown) == 0 && len(r.Ejected) == 0 }))
	l.waitForVisibleHardware(t, "link and medium", func(h visibleHardware) bool { return h.links == 1 && h.media == 1 })

	live.Absent = []string{"disk.data", "interface.default"}
	c.requestHardware(t, live)
	status := c.waitForReport(t, l, "neither card nor disk",
		reportsRunning(func(r v1alpha1.ReportedHardware) bool { return len(r.Absent) == 2 && r.Hindrance == "" }))
	l.waitForVisibleHardware(t, "neither card nor disk", func(h visibleHardware) bool { return h.nics == 0 && h.disks == before.disks-1 })
	if got := fmt.Sprint(status.Running.Absent); got != "[disk.data interface.default]" {
		t.Errorf("the launcher reports %s", got)
	}
	l.sendTERM(t)
	if status := l.waitForExit(t); status != 0 {
		t.Errorf("the launcher ends with status %d, want 0", status)
	}
	if end := c.waitForReport(t, l, "a guest that has powered off", inState(v1alpha1.GuestPoweredOff)); end.Running != nil {
		t.Errorf("a guest that has ended runs %+v", end.Running)
	}
}

// TestIgnoredUnplug: a guest without an operating system keeps its card. The launcher reports the hindrance, and makes other changes.
func TestIgnoredUnplug(t *testing.T) {
	t.Parallel()
	vmi := resizableVMI(t)
	vmi.Spec.Domain.Firmware = nil // nothing to boot
	c := serveVMI(t, withGracePeriod(vmi, 2))
	l := startLauncher(t, c, mountVolumes(t))
	c.waitForReport(t, l, "what libvirt runs", reportsRunning(func(r v1alpha1.ReportedHardware) bool { return r.VCPUs == 2 }))
	c.requestHardware(t, v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Absent: []string{"interface.default"}})
	status := c.waitForReport(t, l, "a hindrance", reportsRunning(func(r v1alpha1.ReportedHardware) bool { return r.Hindrance != "" }))
	if running := status.Running; !strings.Contains(running.Hindrance, "interface 'default'") || len(running.Absent) > 0 {
		t.Errorf("the launcher reports %+v", running)
	}
	c.requestHardware(t, v1alpha1.LiveHardware{VCPUs: 3, MemoryKiB: 1 << 20, Absent: []string{"interface.default"}})
	c.waitForReport(t, l, "a CPU more", reportsRunning(func(r v1alpha1.ReportedHardware) bool { return r.VCPUs == 3 }))
	l.sendTERM(t)
	l.waitForExit(t)
}
