package hypervisor

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"libvirt.org/go/libvirtxml"
)

// libvirt counts what passes a tap. Of an interface that QEMU's own NAT or passt connects it counts nothing, and neither do these: such an interface has the
// network of its pod, and no other interface has it. So the counters of the pod's own device are those of the guest, and of the launcher: some KiB a minute.

// podCounters returns the counters of the device that leads out of this process's network, by the name of the interface that has it; nothing where the
// domain has no such interface, or several.
func podCounters(running *libvirtxml.Domain) map[string]Values {
	name := podInterface(running)
	if name == "" {
		return nil
	}
	device := cmp.Or(readTable("/proc/net/route", defaultRoute), readTable("/proc/net/ipv6_route", defaultRoute6))
	counters := readTable("/proc/net/dev", func(table io.Reader) Values { return deviceCounters(table, device) })
	if counters == nil {
		return nil
	}
	return map[string]Values{name: counters}
}

// readTable reads a table of the kernel; one that cannot be read is empty.
func readTable[T any](path string, read func(io.Reader) T) (nothing T) {
	file, err := os.Open(path)
	if err != nil {
		return nothing
	}
	defer file.Close()
	return read(file)
}

// podInterface returns the name of the only interface that is connected in user mode.
func podInterface(running *libvirtxml.Domain) (name string) {
	if running.Devices == nil {
		return ""
	}
	for i := range running.Devices.Interfaces {
		nic := &running.Devices.Interfaces[i]
		if nic.Source == nil || nic.Source.User == nil {
			continue
		}
		if name != "" {
			return ""
		}
		name = abi.Name("interface", nic.Alias)
	}
	return name
}

// defaultRoute returns the device of the first route to everywhere: its destination and its mask are 0.
func defaultRoute(table io.Reader) string {
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 7 && words[1] == "00000000" && words[7] == "00000000" {
			return words[0]
		}
	}
	return ""
}

// defaultRoute6 is defaultRoute for IPv6. The kernel has a route of its own to everywhere, by lo, which leads nowhere.
func defaultRoute6(table io.Reader) string {
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 9 && words[1] == "00" && strings.Trim(words[0], "0") == "" && words[9] != "lo" {
			return words[9]
		}
	}
	return ""
}

// deviceCounters reads the line of a device, and returns its counters by the names that libvirt has for those of a tap.
func deviceCounters(table io.Reader, device string) Values {
	if device == "" {
		return nil
	}
	for lines := bufio.NewScanner(table); lines.Scan(); {
		name, counters, _ := strings.Cut(lines.Text(), ":")
		words := strings.Fields(counters)
		if strings.TrimSpace(name) != device || len(words) < 12 {
			continue
		}
		values := Values{}
		for i, name := range map[int]string{0: "rx.bytes", 1: "rx.pkts", 2: "rx.errs", 3: "rx.drop", 8: "tx.bytes", 9: "tx.pkts", 10: "tx.errs", 11: "tx.drop"} {
			if n, err := strconv.ParseUint(words[i], 10, 64); err == nil {
				values[name] = n
			}
		}
		return values
	}
	return nil
}
