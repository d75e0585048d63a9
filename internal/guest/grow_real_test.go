package guest_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// has is what the guest says that it has.
type has struct{ cpus, kib, nics, disks, links, media int }

var hasLine = regexp.MustCompile(`(?m)^KILN-HAS (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)\r?$`)

// says waits until the guest says that it has what the test wants.
func (l *launcher) says(t *testing.T, what string, is func(has) bool) has {
	t.Helper()
	end := time.Now().Add(generous)
	for {
		all := hasLine.FindAllStringSubmatch(l.console(), -1)
		var last has
		if len(all) > 0 {
			for i, into := range []*int{&last.cpus, &last.kib, &last.nics, &last.disks, &last.links, &last.media} {
				*into, _ = strconv.Atoi(all[len(all)-1][i+1])
			}
			if is(last) {
				return last
			}
		}
		if time.Now().After(end) || t.Context().Err() != nil {
			t.Fatalf("want %s; the guest says %+v", what, last)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// growing is a guest of 2 CPUs and 1 GiB that may have 8 and 4 GiB. It has a card, a disk that may be unplugged, and a CD-ROM.
func growing(t *testing.T) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := storage(t)
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
	return vmiOf(vmi, 300)
}

// asks changes what the guest is to have.
func (c *api) asks(t *testing.T, live v1alpha1.LiveHardware) {
	t.Helper()
	if err := c.change(func(pod *v1alpha1.GuestPod) error {
		pod.Spec.Live = &v1alpha1.GuestPodLive{LiveHardware: live}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func runs(is func(v1alpha1.ReportedHardware) bool) func(v1alpha1.GuestPodStatus) bool {
	return func(status v1alpha1.GuestPodStatus) bool { return status.Running != nil && is(*status.Running) }
}

// TestGrows: a guest that runs gets CPUs and memory, loses its link and gets it back, gives its medium back, and loses a card and a disk; it sees all of it,
// and what the launcher reports is what libvirt runs.
func TestGrows(t *testing.T) {
	nightly.Only(t) // TestGrowsLive of test/pods has a guest grow in its pod; a fake libvirt takes links and media away in TestLiveChanges
	t.Parallel()
	c := serve(t, growing(t))
	l := launch(t, c, mounts(t))
	booted := c.reports(t, l, "what libvirt runs", runs(func(r v1alpha1.ReportedHardware) bool { return r.VCPUs == 2 && r.MemoryKiB == 1<<20 }))
	if at := booted.Running; len(at.Absent)+len(at.LinksDown)+len(at.Ejected) > 0 || at.Hindrance != "" {
		t.Errorf("at boot the launcher reports %+v", at)
	}
	before := l.says(t, "2 CPUs and a link", func(h has) bool { return h.cpus == 2 && h.links == 1 && h.media == 1 })
	live := v1alpha1.LiveHardware{VCPUs: 4, MemoryKiB: 2 << 20}
	c.asks(t, live)
	c.reports(t, l, "4 vCPUs and 2 GiB", runs(func(r v1alpha1.ReportedHardware) bool { return r.VCPUs == 4 && r.MemoryKiB == 2<<20 }))
	l.says(t, "4 CPUs and 1 GiB more", func(h has) bool { return h.cpus == 4 && h.kib-before.kib == 1<<20 })

	live.LinksDown, live.Ejected = []string{"default"}, []string{"init"}
	c.asks(t, live)
	c.reports(t, l, "no link and no medium", runs(func(r v1alpha1.ReportedHardware) bool { return len(r.LinksDown) == 1 && len(r.Ejected) == 1 }))
	l.says(t, "no link and no medium", func(h has) bool { return h.links == 0 && h.media == 0 })
	live.LinksDown, live.Ejected = nil, nil
	c.asks(t, live)
	c.reports(t, l, "link and medium", runs(func(r v1alpha1.ReportedHardware) bool { return len(r.LinksDown) == 0 && len(r.Ejected) == 0 }))
	l.says(t, "link and medium", func(h has) bool { return h.links == 1 && h.media == 1 })

	live.Absent = []string{"disk.data", "interface.default"}
	c.asks(t, live)
	status := c.reports(t, l, "neither card nor disk", runs(func(r v1alpha1.ReportedHardware) bool { return len(r.Absent) == 2 && r.Hindrance == "" }))
	l.says(t, "neither card nor disk", func(h has) bool { return h.nics == 0 && h.disks == before.disks-1 })
	if got := fmt.Sprint(status.Running.Absent); got != "[disk.data interface.default]" {
		t.Errorf("the launcher reports %s", got)
	}
	l.term(t)
	if status := l.exits(t); status != 0 {
		t.Errorf("the launcher ends with status %d, want 0", status)
	}
	if end := c.reports(t, l, "a guest that has powered off", in(v1alpha1.GuestPoweredOff)); end.Running != nil {
		t.Errorf("a guest that has ended runs %+v", end.Running)
	}
}

// TestIgnoredUnplug: a guest without a system keeps its card. The launcher says so, and goes on.
func TestIgnoredUnplug(t *testing.T) {
	t.Parallel()
	vmi := growing(t)
	vmi.Spec.Domain.Firmware = nil // nothing to boot
	c := serve(t, vmiOf(vmi, 2))
	l := launch(t, c, mounts(t))
	c.reports(t, l, "what libvirt runs", runs(func(r v1alpha1.ReportedHardware) bool { return r.VCPUs == 2 }))
	c.asks(t, v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20, Absent: []string{"interface.default"}})
	status := c.reports(t, l, "a hindrance", runs(func(r v1alpha1.ReportedHardware) bool { return r.Hindrance != "" }))
	if said := status.Running; !strings.Contains(said.Hindrance, "interface 'default'") || len(said.Absent) > 0 {
		t.Errorf("the launcher reports %+v", said)
	}
	c.asks(t, v1alpha1.LiveHardware{VCPUs: 3, MemoryKiB: 1 << 20, Absent: []string{"interface.default"}})
	c.reports(t, l, "a CPU more", runs(func(r v1alpha1.ReportedHardware) bool { return r.VCPUs == 3 }))
	l.term(t)
	l.exits(t)
}
