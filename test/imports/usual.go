package imports

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/poll"
)

// usual is a machine as tools for plain libvirt define it. libvirt assigns the addresses. Words in capitals are replaced.
const usual = `<domain type='qemu'>
  <name>usual</name><uuid>0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d10</uuid>
  <memory unit='MiB'>MEMORY</memory><vcpu>2</vcpu>
  <os>FIRMWARE<type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/>FEATURES</features>
  <cpu mode='custom' match='exact'><model fallback='forbid'>qemu64</model></cpu>
  <clock offset='utc'><timer name='rtc' tickpolicy='catchup'/><timer name='pit' tickpolicy='delay'/><timer name='hpet' present='no'/></clock>
  <pm><suspend-to-mem enabled='no'/><suspend-to-disk enabled='no'/></pm>
  <devices>
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='ROOT'/><target dev='vda' bus='virtio'/></disk>
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='DATA'/><target dev='sda' bus='scsi'/><serial>D-7</serial></disk>
    <controller type='scsi' model='virtio-scsi'/>
    <controller type='usb' model='qemu-xhci' ports='15'/>
    <controller type='pci' model='pcie-root'/>PORTS
    <interface type='user'><mac address='52:54:00:5c:00:01'/><model type='virtio'/></interface>MORE
    <serial type='null'><log file='LOG' append='on'/><target type='isa-serial' port='0'/></serial>
    <channel type='unix'><source mode='bind'/><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <input type='tablet' bus='usb'/>
    <video><model type='vga'/></video><graphics type='vnc' port='-1'/>
    <memballoon model='virtio'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>TPM
  </devices>
</domain>`

// WithEFIAndTPM are words of Usual for a machine with EFI firmware, Secure Boot with Microsoft's keys, and a TPM. NVRAM in the result is a path for its
// variables.
var WithEFIAndTPM = []string{
	"FEATURES", "<smm state='on'/>", "MEMORY", "512", "TPM", "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>",
	"FIRMWARE", "<loader readonly='yes' secure='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.secboot.fd</loader>" +
		"<nvram template='/usr/share/OVMF/OVMF_VARS_4M.ms.fd'>NVRAM</nvram>",
}

// Usual returns the XML of a machine as tools for plain libvirt define it, named usual. root and data are raw images, log is the file for the serial port.
// pairs are further words and their replacements: MORE for devices, FIRMWARE, FEATURES, TPM, and MEMORY in MiB.
func Usual(root, data, log string, pairs ...string) string {
	ports := strings.Repeat("<controller type='pci' model='pcie-root-port'/>", 14)
	given := append([]string{"ROOT", root, "DATA", data, "LOG", log, "PORTS", ports}, pairs...)
	return strings.NewReplacer(append(given, "FIRMWARE", "", "FEATURES", "<vmport state='off'/>", "TPM", "", "MEMORY", "256", "MORE", "")...).Replace(usual)
}

// BootOnce starts a domain that is defined, returns the report of its boot with this number, and shuts it down. log is the file of its serial port.
func BootOnce(ctx context.Context, d *libvirt.Daemon, name, log string, boot int) (report guest.Report, err error) {
	if err := d.Create(name); err != nil {
		return report, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Destroy(name))
		}
	}()
	waits, cancel := context.WithTimeout(ctx, guest.BootTimeout)
	defer cancel()
	if report, err = guest.WaitReport(waits, log, boot); err != nil {
		return report, err
	}
	if err := d.Shutdown(name); err != nil {
		return report, err
	}
	off := poll.Until(2*time.Minute, func() bool {
		state, err := d.State(name)
		return err == nil && state == "shut off"
	})
	if !off {
		return report, fmt.Errorf("%s does not power off", name)
	}
	return report, nil
}
