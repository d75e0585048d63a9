package imported

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// readPlatform reads everything but devices.
func (r *reader) readPlatform() error {
	r.spec.Architecture = r.arch
	r.readMachine()
	if err := r.readMemory(); err != nil {
		return err
	}
	if err := r.readCPU(); err != nil {
		return err
	}
	r.readFirmware()
	r.readFeatures()
	r.readClock()
	return nil
}

// readMachine reads the machine type. The VM names the family, and the record the version.
func (r *reader) readMachine() {
	machine := r.dom.OS.Type.Machine
	r.spec.Domain.Machine = &v1.Machine{Type: r.board.Machine}
	if isOtherBoard(r.arch, machine) {
		r.OtherBoard = true
		r.addNote("os", "machine type '%s' becomes '%s': every device is on another bus, so that the guest detects all of them anew", machine, r.board.Machine)
	}
}

// isOtherBoard reports whether a machine type is of a family that Kiln does not have. An absent type is libvirt's default, which is Kiln's on arm64 and s390x.
func isOtherBoard(architecture, machine string) bool {
	board := frontend.BoardOf(architecture)
	return machine != "" && machine != board.Machine && !strings.HasPrefix(machine, board.Family)
}

// units are libvirt's units of memory in bytes.
var units = map[string]uint64{
	"b": 1, "bytes": 1, "KB": 1e3, "": 1 << 10, "k": 1 << 10, "KiB": 1 << 10, "MB": 1e6, "M": 1 << 20, "MiB": 1 << 20,
	"GB": 1e9, "G": 1 << 30, "GiB": 1 << 30, "TB": 1e12, "T": 1 << 40, "TiB": 1 << 40,
}

// quantityOf returns an amount of memory.
func quantityOf(value uint, unit string) (*resource.Quantity, error) {
	factor := units[unit]
	if value == 0 || factor == 0 || uint64(value) > math.MaxInt64/factor {
		return nil, fmt.Errorf("%d %s is no amount of memory", value, unit)
	}
	return resource.NewQuantity(int64(uint64(value)*factor), resource.BinarySI), nil
}

// setMemory writes the memory of the domain in KiB, as frontends and libvirt have it. A ceiling or a NUMA node of no legal amount stays as it is.
func (r *reader) setMemory(size *resource.Quantity) {
	r.dom.Memory = &libvirtxml.DomainMemory{Value: inKiB(size), Unit: "KiB"}
	if given := r.dom.MaximumMemory; given != nil {
		if most, err := quantityOf(given.Value, given.Unit); err == nil {
			given.Value, given.Unit = inKiB(most), "KiB"
		}
	}
	if r.dom.CPU == nil || r.dom.CPU.Numa == nil {
		return
	}
	for i := range r.dom.CPU.Numa.Cell {
		cell := &r.dom.CPU.Numa.Cell[i]
		if part, err := quantityOf(cell.Memory, cell.Unit); err == nil {
			cell.Memory, cell.Unit = inKiB(part), "KiB"
		}
	}
}

func inKiB(size *resource.Quantity) uint { return uint(size.Value() >> 10) }

// leastThatGrows is the least memory for which admission sets maxGuest.
var leastThatGrows = resource.MustParse("1Gi")

// readMemory reads the memory of the guest at its start.
func (r *reader) readMemory() error {
	guest, err := r.memorySize()
	if err != nil {
		return err
	}
	memory := &v1.Memory{Guest: guest}
	if guest.Cmp(leastThatGrows) >= 0 { // memory that can be plugged in would be a NUMA node, which the domain does not have
		memory.MaxGuest = ptr.To(guest.DeepCopy())
	}
	r.setMemory(guest)
	if backing := r.dom.MemoryBacking; backing != nil && backing.MemoryHugePages != nil {
		memory.Hugepages = &v1.Hugepages{PageSize: r.pageSize(backing.MemoryHugePages.Hugepages)}
	}
	r.spec.Domain.Memory = memory
	return nil
}

// memorySize returns the memory of the guest at its start: <memory>, or the sum of its NUMA nodes.
func (r *reader) memorySize() (*resource.Quantity, error) {
	if given := r.dom.Memory; given != nil {
		size, err := quantityOf(given.Value, given.Unit)
		if err != nil {
			return nil, fmt.Errorf("<memory>: %w", err)
		}
		return size, nil
	}
	sum := resource.NewQuantity(0, resource.BinarySI)
	if r.dom.CPU != nil && r.dom.CPU.Numa != nil {
		for _, cell := range r.dom.CPU.Numa.Cell {
			size, err := quantityOf(cell.Memory, cell.Unit)
			if err != nil {
				return nil, fmt.Errorf("<numa>: %w", err)
			}
			sum.Add(*size)
		}
	}
	if sum.Value() <= 0 {
		return nil, errors.New("the domain has no <memory>")
	}
	return sum, nil
}

// pageSizes are the sizes of huge pages of each architecture, the most usual one first.
var pageSizes = map[string][]string{"amd64": {"2Mi", "1Gi"}, "arm64": {"2Mi", "64Ki", "32Mi", "512Mi", "1Gi", "16Gi"}, "s390x": {"1Mi"}}

// pageSize returns the size of huge pages. If the domain leaves it to the host, or has a size that no host has, it returns the usual size.
func (r *reader) pageSize(pages []libvirtxml.DomainMemoryHugepage) string {
	for _, page := range pages {
		if size, err := quantityOf(page.Size, page.Unit); err == nil && slices.Contains(pageSizes[r.arch], size.String()) {
			return size.String()
		}
	}
	return pageSizes[r.arch][0]
}

// mostCPUs is more than QEMU can give a guest, so that no product of a topology overflows.
const mostCPUs = 1 << 16

// readCPU reads number, topology, model and features of the CPUs. Without a topology, libvirt makes each vCPU a socket.
func (r *reader) readCPU() error {
	all := uint(1)
	if r.dom.VCPU != nil && r.dom.VCPU.Value > 0 {
		all = r.dom.VCPU.Value
	}
	if all > mostCPUs {
		return fmt.Errorf("<vcpu>: %d CPUs are more than a guest can have", all)
	}
	cpu := &v1.CPU{Cores: 1, Threads: 1}
	given := r.dom.CPU
	if given != nil && given.Topology != nil {
		cpu.Cores, cpu.Threads = countOf(given.Topology.Cores), countOf(given.Topology.Threads)
	}
	perSocket := uint(cpu.Cores) * uint(cpu.Threads)
	cpu.MaxSockets = uint32(max(all/perSocket, 1)) // a topology with dies or clusters has more sockets here
	cpu.Sockets = cpu.MaxSockets
	if now := r.dom.VCPU; now != nil && now.Current > 0 && now.Current < all {
		cpu.Sockets = uint32(max(now.Current/perSocket, 1))
	}
	r.readModel(cpu, given)
	r.spec.Domain.CPU = cpu
	return nil
}

// countOf returns a part of a topology, 1 for one that is absent or no such number.
func countOf(n int) uint32 { return uint32(min(max(n, 1), 1<<8)) }

// defaultModels are QEMU's own CPU models of the machine types, for domains that name none.
var defaultModels = map[string]string{"amd64": "qemu64", "arm64": "cortex-a15", "s390x": "qemu"}

// readModel reads model and features.
func (r *reader) readModel(cpu *v1.CPU, given *libvirtxml.DomainCPU) {
	switch {
	case given == nil || given.Mode == "" && given.Model == nil:
		cpu.Model = defaultModels[r.arch]
		given = cmp.Or(given, &libvirtxml.DomainCPU{})
		given.Mode, given.Model = "custom", &libvirtxml.DomainCPUModel{Value: cpu.Model} // as libvirt writes it when it defines the domain
		r.dom.CPU = given
		return
	case given.Mode == v1.CPUModeHostModel || given.Mode == v1.CPUModeHostPassthrough:
		cpu.Model = given.Mode
	case given.Mode == "maximum":
		cpu.Model = v1.CPUModeHostPassthrough
		r.addNote("cpu", "mode 'maximum' becomes 'host-passthrough'")
	case given.Model != nil && given.Model.Value != "":
		cpu.Model = given.Model.Value
	default:
		cpu.Model = defaultModels[r.arch]
	}
	for _, feature := range given.Features {
		if feature.Name != "" {
			cpu.Features = append(cpu.Features, v1.CPUFeature{Name: feature.Name, Policy: feature.Policy})
		}
	}
}

// readFirmware reads UUID, serial, chassis and bootloader.
func (r *reader) readFirmware() {
	firmware := &v1.Firmware{UUID: types.UID(r.dom.UUID)}
	loader, os := r.dom.OS.Loader, r.dom.OS
	switch {
	case os.Firmware == "efi" || loader != nil && (loader.Type == "pflash" || loader.Type == "rom") || r.arch == "arm64":
		efi := &v1.EFI{SecureBoot: ptr.To(hasSecureBoot(os)), Persistent: ptr.To(os.NVRam != nil || loader != nil && loader.Type == "pflash")}
		firmware.Bootloader = &v1.Bootloader{EFI: efi}
		if *efi.Persistent {
			r.addNote("os", "the guest begins with new EFI variables: its firmware finds the boot loaders of the disks anew, and keys that its owner enrolled are gone")
		}
		if *efi.SecureBoot && !hasKeys(os) {
			r.Notes = append(r.Notes, Note{Element: "os", Noticed: true, Text: "the EFI variables seem to have no keys, so that Secure Boot was not enforced. " +
				"It will be: the guest starts only a signed boot loader. Set spec.template.spec.domain.firmware.bootloader.efi.secureBoot to false to leave it off"})
		}
		if os.Firmware != "efi" && loader == nil {
			r.addNote("os", "architecture 'arm64' boots through EFI only")
		}
	case os.BIOS != nil && os.BIOS.UseSerial == "yes":
		firmware.Bootloader = &v1.Bootloader{BIOS: &v1.BIOS{UseSerial: ptr.To(true)}}
	}
	if os.Kernel != "" || os.Initrd != "" || os.DTB != "" {
		r.addNote("os", "a kernel from the host cannot be booted: the firmware boots a disk, or put the kernel into an image for "+
			"spec.template.spec.domain.firmware.kernelBoot")
	}
	for _, info := range r.dom.SysInfo {
		if info.SMBIOS != nil {
			r.readSystemStrings(firmware, info.SMBIOS)
		}
	}
	r.spec.Domain.Firmware = firmware
}

// hasSecureBoot reports whether Secure Boot is on.
func hasSecureBoot(os *libvirtxml.DomainOS) bool {
	if os.Loader != nil && os.Loader.Secure == "yes" {
		return true
	}
	if os.FirmwareInfo != nil {
		for _, feature := range os.FirmwareInfo.Features {
			if feature.Name == "secure-boot" && feature.Enabled == "yes" {
				return true
			}
		}
	}
	return false
}

// hasKeys reports whether the EFI variables of a domain contain the keys that enforce Secure Boot. It reads libvirt's feature enrolled-keys. Without the
// feature, it reads the file name of the template, or of the build if the domain has no template. Debian's names contain .ms. or .snakeoil., Fedora's templates
// .secboot., and SUSE's names -ms-, -suse- or -opensuse-.
func hasKeys(os *libvirtxml.DomainOS) bool {
	if os.FirmwareInfo != nil {
		for _, feature := range os.FirmwareInfo.Features {
			if feature.Name == "enrolled-keys" {
				return feature.Enabled == "yes"
			}
		}
	}
	words, name := []string{".ms.", ".snakeoil.", "-ms-", "-suse-", "-opensuse-", "enrolled"}, ""
	switch {
	case os.NVRam != nil && os.NVRam.Template != "":
		name = path.Base(os.NVRam.Template)
		words = append(words, ".secboot.")
	case os.Loader != nil && os.Loader.Path != "":
		name = path.Base(os.Loader.Path) // .secboot. is a build that can enforce Secure Boot, whatever its variables have
	default:
		return true // libvirt prefers a build with keys
	}
	return slices.ContainsFunc(words, func(part string) bool { return strings.Contains(name, part) })
}

// readSystemStrings reads the strings of the DMI table that have a field. The record keeps the other strings of the system.
func (r *reader) readSystemStrings(firmware *v1.Firmware, smbios *libvirtxml.DomainSysInfoSMBIOS) {
	if smbios.System != nil {
		for _, entry := range smbios.System.Entry {
			if entry.Name == "serial" {
				firmware.Serial = entry.Value
			}
		}
	}
	if smbios.Chassis == nil || len(smbios.Chassis.Entry) == 0 {
		return
	}
	chassis := &v1.Chassis{}
	for _, entry := range smbios.Chassis.Entry {
		field := map[string]*string{"manufacturer": &chassis.Manufacturer, "version": &chassis.Version, "serial": &chassis.Serial,
			"asset": &chassis.Asset, "sku": &chassis.Sku}[entry.Name]
		if field != nil {
			*field = entry.Value
		}
	}
	r.spec.Domain.Chassis = chassis
}

// readClock reads the offset of the clock and the timers.
func (r *reader) readClock() {
	given := r.dom.Clock
	if given == nil {
		return
	}
	clock := &v1.Clock{ClockOffset: v1.ClockOffset{UTC: &v1.ClockOffsetUTC{}}}
	switch given.Offset {
	case "timezone":
		clock.UTC, clock.Timezone = nil, ptr.To(v1.ClockOffsetTimezone(given.TimeZone))
	case "variable":
		if seconds, err := strconv.Atoi(given.Adjustment); err == nil && given.Basis != "localtime" {
			clock.UTC.OffsetSeconds = &seconds
		}
	case "localtime":
		r.addNote("clock", "the clock was in the time zone of the host, and will be in UTC: set spec.template.spec.domain.clock.timezone if the guest's system "+
			"needs local time, as Windows does")
	}
	if len(given.Timer) > 0 {
		clock.Timer = &v1.Timer{}
	}
	for _, timer := range given.Timer {
		present := ptr.To(timer.Present != "no")
		switch timer.Name {
		case "rtc":
			clock.Timer.RTC = &v1.RTCTimer{TickPolicy: v1.RTCTickPolicy(timer.TickPolicy), Track: v1.RTCTimerTrack(timer.Track), Enabled: present}
		case "pit":
			clock.Timer.PIT = &v1.PITTimer{TickPolicy: v1.PITTickPolicy(timer.TickPolicy), Enabled: present}
		case "hpet":
			clock.Timer.HPET = &v1.HPETTimer{TickPolicy: v1.HPETTickPolicy(timer.TickPolicy), Enabled: present}
		case "kvmclock":
			clock.Timer.KVM = &v1.KVMTimer{Enabled: present}
		case "hypervclock":
			clock.Timer.Hyperv = &v1.HypervTimer{Enabled: present}
		}
	}
	r.spec.Domain.Clock = clock
}
