package hypervisor

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// TestStatistics: a real guest is counted under the names of its spec, and what it does is seen in the next answer.
func TestStatistics(t *testing.T) {
	t.Parallel()
	l := connected(t, libvirt.Start(t))
	dir := t.TempDir()
	kernel, initrd, err := guest.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(dir, "disk")
	if err := os.WriteFile(disk, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tuntap", "add", "dev", "kilnstat0", "mode", "tap"}, {"link", "set", "kilnstat0", "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "kilnstat0").Run() })
	vmi := explicit.WithClaim(t)
	vmi.Spec.Domain.Firmware = &v1.Firmware{KernelBoot: &v1.KernelBoot{KernelArgs: guest.Cmdline,
		Container: &v1.KernelBootContainer{Image: "kernel:1", KernelPath: "/vmlinuz", InitrdPath: "/initrd"}}}
	bindings := backend.AssumedBindings(vmi)
	bindings.Serial, bindings.VNC, bindings.SerialLog, bindings.Kernel, bindings.Initrd = "", "", "", kernel, initrd
	bindings.Volumes["data"] = backend.Volume{Path: disk, Format: "raw", LogicalBlock: 512, PhysicalBlock: 512}
	bindings.NICs["default"] = backend.NIC{Kind: "tap", Device: "kilnstat0"}
	headless := false
	vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = &headless
	if _, err := l.Statistics(t.Context(), ownerOf(vmi)); err == nil {
		t.Error("a guest that does not run is counted")
	}
	if err := l.Start(t.Context(), guestOf(vmi, explicit.Documents(t, vmi, bindings), nil)); err != nil {
		t.Fatal(err)
	}
	first, err := l.Statistics(t.Context(), ownerOf(vmi))
	if err != nil {
		t.Fatal(err)
	}
	var last Statistics
	waitUntil(t, "the guest's balloon answers, and its disk and its card are used", func() bool {
		last, err = l.Statistics(t.Context(), ownerOf(vmi))
		_, answers := last.Memory["usable"]
		return err == nil && answers && last.Disks["data"]["rd.bytes"] > 0 && last.NICs["default"]["rx.pkts"] > 0
	})
	if last.CPU["time"] <= first.CPU["time"] || last.VCPUs["0"]["time"] <= first.VCPUs["0"]["time"] || last.Memory["rss"] == 0 || last.Memory["balloon"] == 0 {
		t.Errorf("first %+v, then %+v", first, last)
	}
	for name, values := range map[string]Values{"disk": last.Disks["data"], "card": last.NICs["default"], "vCPU": last.VCPUs["0"], "CPU": last.CPU} {
		if len(values) < 3 {
			t.Errorf("%s: %v", name, values)
		}
	}
	if len(last.Disks) != 1 || len(last.NICs) != 1 {
		t.Errorf("%v, %v", last.Disks, last.NICs)
	}
}

// TestPodCounters: which device is the pod's, and which interface has it.
func TestPodCounters(t *testing.T) {
	const (
		routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
			"net1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\neth0\t00000000\t0100F40A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
		zero, far = "00000000000000000000000000000000", "fd000000000000000000000000000000"
		routes6   = far + " 40 " + zero + " 00 " + zero + " 00000100 00000001 00000000 00000001     net1\n" +
			zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200       lo\n" +
			zero + " 00 " + zero + " 00 " + far + " 00000400 00000001 00000000 00000003     eth0\n"
		devices = "Inter-|   Receive                                                |  Transmit\n" +
			" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n" +
			"    lo:       1       1    1    1    0     0          0         0        1       1    1    1    0     0       0          0\n" +
			"  eth0:18446744073709551615       2    3    4    0     0          0         0        5       6    7    8    0     0       0          0\n"
	)
	if device, device6 := defaultRoute(strings.NewReader(routes)), defaultRoute6(strings.NewReader(routes6)); device != "eth0" || device6 != "eth0" {
		t.Errorf("the routes lead by '%s' and '%s'", device, device6)
	}
	want := Values{"rx.bytes": math.MaxUint64, "rx.pkts": 2, "rx.errs": 3, "rx.drop": 4, "tx.bytes": 5, "tx.pkts": 6, "tx.errs": 7, "tx.drop": 8}
	if diff := cmp.Diff(want, deviceCounters(strings.NewReader(devices), "eth0")); diff != "" {
		t.Error(diff)
	}
	if got := deviceCounters(strings.NewReader(devices), "eth1"); got != nil {
		t.Errorf("a device that is not there has %v", got)
	}
	user := &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{}}
	tap := &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}}
	for _, c := range []struct {
		sources []*libvirtxml.DomainInterfaceSource
		want    string
	}{{nil, ""}, {[]*libvirtxml.DomainInterfaceSource{tap, user}, "nic1"}, {[]*libvirtxml.DomainInterfaceSource{user, user}, ""}} {
		running := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{}}
		for i, source := range c.sources {
			running.Devices.Interfaces = append(running.Devices.Interfaces,
				libvirtxml.DomainInterface{Source: source, Alias: abi.BoundAlias("interface", "nic"+strconv.Itoa(i))})
		}
		if got := podInterface(running); got != c.want {
			t.Errorf("of %d interfaces '%s' has the pod's network, want '%s'", len(c.sources), got, c.want)
		}
	}
}
