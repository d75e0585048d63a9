package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"
	"libvirt.org/go/libvirtxml"
)

// seenFacts returns the facts that a guest sees of its platform and its devices, in words that do not depend on how they are spelled. What
// holds nothing leaves no fact.
func seenFacts(d *libvirtxml.Domain) map[string]string {
	// Absent and empty are the same: a fact of no words is not noted.
	facts := map[string]string{}
	note := func(name string, words ...any) {
		if text := strings.TrimSpace(strings.Join(strings.Fields(fmt.Sprintln(words...)), " ")); text != "" {
			facts[name] = text
		}
	}
	note("machine", d.OS.Type.Arch, d.OS.Type.Machine)
	note("memory KiB", toKiB(d.Memory.Value, d.Memory.Unit))
	// maxMemory is what memory hotplug can reach. Its slots are not compared.
	if m := d.MaximumMemory; m != nil {
		note("memory KiB at most", toKiB(m.Value, m.Unit))
	}
	// The text of vCPU is what the domain can grow to.
	note("vCPUs", startingCPUs(d), "of", d.VCPU.Value)
	// Defaults of libvirt are written out before they are compared, because one side may spell them and the other not.
	note("reboot", rebootPolicy(d.OnReboot))
	note("launch security", launchSecurity(d.LaunchSecurity))
	seenCPU(d.CPU, note)
	seenFirmware(d, note)
	seenClock(d.Clock, note)
	seenFeatures(d.Features, note)
	seenDevices(d.Devices, note)
	return facts
}

// fact notes words under a name.
type fact = func(name string, words ...any)

// startingCPUs returns how many vCPUs are enabled at boot. libvirt has two forms: vcpu's attribute 'current', and a list 'vcpus' with one
// element for each. Without either all are enabled.
func startingCPUs(d *libvirtxml.Domain) (n uint) {
	if d.VCPUs == nil {
		if d.VCPU.Current > 0 {
			return d.VCPU.Current
		}
		return d.VCPU.Value
	}
	for _, cpu := range d.VCPUs.VCPU {
		if cpu.Enabled == "yes" {
			n++
		}
	}
	return n
}

// rebootPolicy returns the policy in words. libvirt's default is restart.
func rebootPolicy(policy string) string {
	if policy == "" {
		return "restart"
	}
	return policy
}

// launchSecurity returns kind and policy of the launch security. SEV's certificate and session belong to the guest's owner and are compared too.
func launchSecurity(s *libvirtxml.DomainLaunchSecurity) string {
	switch {
	case s == nil:
		return ""
	case s.SEVSNP != nil:
		return fmt.Sprintf("sev-snp %#x", *s.SEVSNP.Policy)
	case s.TDX != nil:
		return "tdx"
	case s.SEV != nil:
		return fmt.Sprintf("sev %#x %s %s", *s.SEV.Policy, s.SEV.DHCert, s.SEV.Session)
	}
	// A kind that Kiln does not render: such a case has to differ from every domain of Kiln.
	return "another"
}

// seenCPU notes topology, model, features and NUMA nodes. Dies and clusters of the topology are not compared, because KubeVirt has no field for them.
func seenCPU(c *libvirtxml.DomainCPU, note fact) {
	if c == nil {
		return
	}
	if t := c.Topology; t != nil {
		note("topology", t.Sockets, t.Cores, t.Threads)
	}
	model := ""
	if c.Model != nil {
		model = c.Model.Value
	}
	note("cpu", c.Mode, model)
	var features []string
	for _, f := range c.Features {
		policy := f.Policy
		if policy == "" {
			policy = "require" // libvirt's reading
		}
		features = append(features, f.Name+"="+policy)
	}
	// The order of features in a document has no meaning for libvirt.
	slices.Sort(features)
	note("cpu features", strings.Join(features, " "))
	if c.Numa == nil {
		return
	}
	for i, cell := range c.Numa.Cell {
		cpus := cell.CPUs
		if set, err := cpuset.Parse(cpus); err == nil {
			cpus = set.String() // one spelling
		}
		note(fmt.Sprintf("cell %d", i), cpus, toKiB(cell.Memory, cell.Unit))
	}
}

// seenFirmware notes firmware, direct kernel boot, boot menu, ACPI tables and SMBIOS. Paths of images and variables are the host's, and are not
// compared.
func seenFirmware(d *libvirtxml.Domain, note fact) {
	os := d.OS
	// Two ways to ask for UEFI: libvirt's automatic selection by 'firmware', and a loader with its type.
	if efi := os.Firmware == "efi" || os.Loader != nil && os.Loader.Type != ""; efi {
		note("firmware", "efi")
	}
	if os.BIOS != nil {
		note("firmware on serial port", os.BIOS.UseSerial)
	}
	note("kernel arguments", os.Cmdline)
	if os.BootMenu != nil {
		note("boot menu", os.BootMenu.Enable, os.BootMenu.Timeout)
	}
	if os.ACPI != nil {
		for _, table := range os.ACPI.Tables {
			// The content is a file of the host, so that only its presence is compared.
			note("acpi table "+table.Type, "given")
		}
	}
	if os.SMBios != nil {
		note("smbios", os.SMBios.Mode)
	}
	note("uuid", d.UUID)
	if d.GenID != nil {
		note(generationID, "given")
	}
	for _, info := range d.SysInfo {
		if info.SMBIOS == nil {
			continue
		}
		if s := info.SMBIOS.System; s != nil {
			for _, e := range s.Entry {
				if e.Name == "uuid" {
					note("uuid", e.Value) // libvirt makes it the domain's
				}
			}
		}
		if os.SMBios == nil {
			continue // without it the strings go nowhere
		}
		if s := info.SMBIOS.System; s != nil {
			noteSMBIOS("system ", s.Entry, note)
		}
		if c := info.SMBIOS.Chassis; c != nil {
			noteSMBIOS("chassis ", c.Entry, note)
		}
	}
}

// noteSMBIOS notes SMBIOS strings under the names that libvirt's sysinfo has for them.
func noteSMBIOS(prefix string, list []libvirtxml.DomainSysInfoEntry, note fact) {
	for _, e := range list {
		note(prefix+e.Name, e.Value)
	}
}

// seenClock notes offset and timers. All attributes of a timer are one fact.
func seenClock(c *libvirtxml.DomainClock, note fact) {
	if c == nil {
		return
	}
	offset := c.Offset
	if c.Adjustment != "" && c.Adjustment != "reset" {
		offset = "variable" // libvirt's reading of UTC with a number
	}
	note("clock", offset, c.Adjustment, c.TimeZone)
	for _, t := range c.Timer {
		note("timer "+t.Name, t.Present, t.TickPolicy, t.Track, t.Frequency)
	}
}

// toKiB converts a size to KiB. libvirt's default unit of memory is KiB; bytes are rounded up to it, as libvirt does. Units that neither side writes are
// not known here.
func toKiB(value uint, unit string) uint {
	switch unit {
	case "b", "bytes":
		return (value + 1023) / 1024
	case "MiB":
		return value * 1024
	case "GiB":
		return value * 1024 * 1024
	}
	return value
}
