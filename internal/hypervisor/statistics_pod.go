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

// libvirt counts the traffic of a tap. It does not count the traffic of an interface that QEMU's own NAT or passt connects, and neither of these counts it.
// Such an interface uses the network of its pod, and no other interface uses it. So the counters of the pod's own device count the traffic of the guest, and
// some KiB a minute of the launcher.

// podCounters returns the counters of the device with the default route of this process's network, by the name of the interface that uses it. It returns nil
// if the domain has no such interface, or several.
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

// readTable reads a table of the kernel. It returns the zero value if the table cannot be read.
func readTable[T any](path string, read func(io.Reader) T) (nothing T) {
	file, err := os.Open(path)
	if err != nil {
		return nothing
	}
	defer file.Close()
	return read(file)
}

// podInterface returns the name of the interface that is connected in user mode; empty if there is not exactly one.
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

// defaultRoute returns the device of the first default route, whose destination and mask are 0.
func defaultRoute(table io.Reader) string {
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 7 && words[1] == "00000000" && words[7] == "00000000" {
			return words[0]
		}
	}
	return ""
}

// defaultRoute6 is defaultRoute for IPv6. It skips the kernel's own default route over lo, which rejects packets.
func defaultRoute6(table io.Reader) string {
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 9 && words[1] == "00" && strings.Trim(words[0], "0") == "" && words[9] != "lo" {
			return words[9]
		}
	}
	return ""
}

// deviceCounters reads the line of a device, and returns its counters by libvirt's names for the counters of a tap.
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
