package libvirt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	rpc "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// Emulated returns a copy of a domain that any machine can define: for QEMU without KVM, and without the host's own CPU.
func Emulated(given *libvirtxml.Domain) *libvirtxml.Domain {
	dom := *given
	dom.Type = "qemu"
	if dom.CPU.Mode == "host-passthrough" {
		cpu := *dom.CPU
		cpu.Mode, cpu.Migratable = "maximum", ""
		dom.CPU = &cpu
	}
	return &dom
}

// Define makes a domain persistent and returns its inactive XML as libvirt reads it back: with all
// that libvirt has added. The error is libvirt's own. A domain of that name and UUID is replaced.
func (d *Daemon) Define(xml string) (string, error) {
	var out string
	err := d.withConnection(func(client *rpc.Libvirt) error {
		domain, err := client.DomainDefineXML(xml)
		if err != nil {
			return err
		}
		out, err = client.DomainGetXMLDesc(domain, rpc.DomainXMLInactive|rpc.DomainXMLSecure)
		return err
	})
	return out, err
}

// Undefine removes a domain that does not run, with its firmware variables.
func (d *Daemon) Undefine(name string) error {
	return d.onDomain(name, func(client *rpc.Libvirt, domain rpc.Domain) error {
		return client.DomainUndefineFlags(domain, rpc.DomainUndefineNvram)
	})
}

// Create starts a defined domain.
func (d *Daemon) Create(name string) error {
	return d.onDomain(name, func(client *rpc.Libvirt, domain rpc.Domain) error { return client.DomainCreate(domain) })
}

// Shutdown presses the power button of a running domain; the guest of test/guest then powers off.
func (d *Daemon) Shutdown(name string) error {
	return d.onDomain(name, func(client *rpc.Libvirt, domain rpc.Domain) error {
		return client.DomainShutdownFlags(domain, rpc.DomainShutdownAcpiPowerBtn)
	})
}

// Destroy ends a running domain at once.
func (d *Daemon) Destroy(name string) error {
	return d.onDomain(name, func(client *rpc.Libvirt, domain rpc.Domain) error { return client.DomainDestroy(domain) })
}

// Resume lets a paused domain go on.
func (d *Daemon) Resume(name string) error {
	return d.onDomain(name, func(client *rpc.Libvirt, domain rpc.Domain) error { return client.DomainResume(domain) })
}

// Suspend pauses a running domain.
func (d *Daemon) Suspend(name string) error {
	return d.onDomain(name, func(client *rpc.Libvirt, domain rpc.Domain) error { return client.DomainSuspend(domain) })
}

// Signal sends a signal to the QEMU of a domain, such as SIGKILL, which the kernel sends when a machine runs out of memory. No other domain on this machine
// may have the name.
func Signal(name string, signal syscall.Signal) error {
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, process := range processes {
		line, err := os.ReadFile(process)
		if err != nil || !bytes.HasPrefix(line, []byte("/usr/bin/qemu-system")) || !bytes.Contains(line, []byte("guest="+name+",")) {
			continue
		}
		number, err := strconv.Atoi(filepath.Base(filepath.Dir(process)))
		if err != nil {
			return err
		}
		return syscall.Kill(number, signal)
	}
	return fmt.Errorf("no QEMU runs domain '%s'", name)
}

// states are libvirt's own words, as virsh prints them.
var states = map[rpc.DomainState]string{
	rpc.DomainNostate: "no state", rpc.DomainRunning: "running", rpc.DomainBlocked: "idle",
	rpc.DomainPaused: "paused", rpc.DomainShutdown: "in shutdown", rpc.DomainShutoff: "shut off",
	rpc.DomainCrashed: "crashed", rpc.DomainPmsuspended: "pmsuspended",
}

// State returns a domain's state in virsh's words, such as "running" or "shut off".
func (d *Daemon) State(name string) (string, error) {
	var out string
	err := d.onDomain(name, func(client *rpc.Libvirt, domain rpc.Domain) error {
		state, _, err := client.DomainGetState(domain, 0)
		out = states[rpc.DomainState(state)]
		return err
	})
	return out, err
}

// ActiveXML returns the XML of a running domain, with every alias and runtime path.
func (d *Daemon) ActiveXML(name string) (string, error) {
	var out string
	err := d.onDomain(name, func(client *rpc.Libvirt, domain rpc.Domain) (err error) {
		out, err = client.DomainGetXMLDesc(domain, 0)
		return err
	})
	return out, err
}

// withConnection runs one piece of work on a connection of its own.
func (d *Daemon) withConnection(work func(*rpc.Libvirt) error) error {
	client, err := d.Connect()
	if err != nil {
		return err
	}
	return errors.Join(work(client), client.Disconnect())
}

func (d *Daemon) onDomain(name string, work func(*rpc.Libvirt, rpc.Domain) error) error {
	return d.withConnection(func(client *rpc.Libvirt) error {
		domain, err := client.DomainLookupByName(name)
		if err != nil {
			return err
		}
		return work(client, domain)
	})
}

// Validate judges a domain document by libvirt's schema with virt-xml-validate. libvirt itself reads
// documents that the schema forbids: unknown elements are silently dropped.
func Validate(xml string) error {
	if err := needTools("virt-xml-validate", "xmllint"); err != nil {
		return err
	}
	command := exec.Command("virt-xml-validate", "-", "domain")
	command.Stdin = strings.NewReader(xml)
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("virt-xml-validate: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Attach plugs a device into a domain that runs.
func (d *Daemon) Attach(name, device string) error {
	return d.onDomain(name, func(l *rpc.Libvirt, domain rpc.Domain) error {
		return l.DomainAttachDeviceFlags(domain, device, uint32(rpc.DomainAffectLive))
	})
}
