package validate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// MaxWarning is the length in bytes of a warning. Kubernetes recommends at most 120 characters, because longer ones may be cut.
const MaxWarning = 120

// versioned machine types end in a version: pc-q35-9.2, virt-9.2, pc-q35-rhel9.6.0.
var versioned = regexp.MustCompile(`[0-9]+\.[0-9]+(\.[0-9]+)?$`)

// Warning is a sentence about fields that are legal.
type Warning struct {
	Text string
	// Fields are the paths in the VMI of what the sentence is about.
	Fields []string
}

// warned are warnings, as they are found.
type warned []Warning

// addWarning adds a warning about fields of the spec.
func (w *warned) addWarning(fields []string, format string, args ...any) {
	for i := range fields {
		fields[i] = "spec." + fields[i]
	}
	*w = append(*w, Warning{fmt.Sprintf(format, args...), fields})
}

// Warnings returns sentences of at most MaxWarning bytes about fields of an explicit VMI that are legal but have no effect, or whose effect
// may change at the next start. KubeVirt warns only about deprecated fields.
func Warnings(vmi *v1.VirtualMachineInstance, limits config.Limits) []Warning {
	var found warned
	spec := &vmi.Spec
	// Without the annotation an alias is resolved once, at the first start, and frozen.
	if m := spec.Domain.Machine; m != nil && vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest && !versioned.MatchString(m.Type) {
		found.addWarning([]string{"domain.machine.type"}, "machine type '%s' is an alias: with hardware 'latest' a restart may change the machine", short(m.Type))
	}
	// A request above the limit is refused.
	request, limit := spec.Domain.Resources.Requests[corev1.ResourceMemory], spec.Domain.Resources.Limits[corev1.ResourceMemory]
	if memory := spec.Domain.Memory; memory != nil && memory.Guest != nil && !limit.IsZero() && request.Cmp(limit) <= 0 && memory.Guest.Cmp(limit) > 0 {
		found.addWarning([]string{"domain.memory.guest", "domain.resources.limits.memory"},
			"memory.guest '%s' is greater than limits.memory '%s': the guest may be killed", memory.Guest.String(), limit.String())
	}
	found.ofCPU(spec)
	found.ofMemory(spec)
	// A pod with CPUs of its own is Guaranteed: its limit is the request. Huge pages are requested in full.
	if memory := spec.Domain.Memory; dedicated(spec) && memory != nil && memory.Guest != nil && memory.Hugepages == nil {
		if request.Sign() > 0 && request.Cmp(*memory.Guest) < 0 {
			found.addWarning([]string{"domain.resources.requests.memory", "domain.memory.guest"},
				"requests.memory '%s' is the limit with dedicated CPUs, and less than memory.guest '%s': the guest may be killed",
				request.String(), memory.Guest.String())
		}
	}
	for _, device := range slices.Concat(gpuList(spec, nil), hostDeviceList(spec, nil)) {
		at := []string{device.at.Child("deviceName").String()}
		switch {
		case device.deviceName == "": // it is of a claim
		case limits.PermittedHostDevices == nil && (limits.Assumed || limits.KubeVirtGuests): // KubeVirt permits what nobody lists
		case limits.PermittedHostDevices == nil:
			found.addWarning(at, "device '%s': permittedHostDevices is not set: a node runs the VMI only if a plugin offers '%s'",
				short(device.name), short(device.deviceName))
		case !isPermitted(limits.PermittedHostDevices, device.deviceName):
			found.addWarning(at, "device '%s': '%s' is not among the cluster's permittedHostDevices: the VMI gets no pod", short(device.name), short(device.deviceName))
		}
	}
	for i := range spec.Volumes {
		if disk := spec.Volumes[i].EmptyDisk; disk != nil && unitMissing(disk.Capacity) {
			found.addWarning([]string{fmt.Sprintf("volumes[%d].emptyDisk.capacity", i)},
				"emptyDisk.capacity '%s' of volume '%s' is less than 1M: is the unit missing?", disk.Capacity.String(), short(spec.Volumes[i].Name))
		}
	}
	index := networkIndex(spec)
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		n := index[nic.Name]
		if len(nic.Ports)+len(nic.PortRanges) == 0 || n == nil || n.Pod != nil {
			continue // of an interface without a network, the name is refused
		}
		if first, _ := networkTypes(n); first != "" {
			list := "portRanges"
			if len(nic.Ports) > 0 {
				list = "ports"
			}
			found.addWarning([]string{fmt.Sprintf("domain.devices.interfaces[%d].%s", i, list)},
				"ports of interface '%s' have no effect: its network is not the pod network", short(nic.Name))
		}
	}
	found.ofDisks(spec)
	found.ofCards(spec)
	if threads, policy := spec.Domain.IOThreads, spec.Domain.IOThreadsPolicy; threads != nil && threads.SupplementalPoolThreadCount != nil &&
		(policy == nil || *policy != v1.IOThreadsPolicySupplementalPool) {
		found.addWarning([]string{"domain.ioThreads.supplementalPoolThreadCount", "domain.ioThreadsPolicy"},
			"ioThreads.supplementalPoolThreadCount has no effect: ioThreadsPolicy is not 'supplementalPool'")
	}
	if features := spec.Domain.Features; features != nil && features.Hyperv != nil && spec.Architecture == arm64 {
		found.addWarning([]string{"domain.features.hyperv"}, "features.hyperv has no effect on architecture 'arm64'")
	}
	found = append(found, unknownKeyWarnings(vmi.Annotations)...)
	if !limits.KubeVirtGuests && !limits.Assumed {
		found = append(found, kubeVirtKeyWarnings(vmi.Annotations)...)
	}
	// Ignition reads JSON only, and stops the boot otherwise. The usual mistake is the YAML from which Butane makes that JSON.
	if data := vmi.Annotations[v1.IgnitionAnnotation]; data != "" && !json.Valid([]byte(data)) {
		found = append(found, ofAnnotation(v1.IgnitionAnnotation, "annotation '%s' is not JSON: Ignition will refuse it", v1.IgnitionAnnotation))
	}
	return found
}

// ofDisks warns of serial numbers that the guest sees in part, and of a VM that boots nothing: firmware boots a CD-ROM only if it has a bootOrder.
func (w *warned) ofDisks(spec *v1.VirtualMachineInstanceSpec) {
	cdrom := -1
	bootable := kernelBoots(spec)
	disks := spec.Domain.Devices.Disks
	at := func(i int, field string) []string {
		return []string{fmt.Sprintf("domain.devices.disks[%d].%s", i, field)}
	}
	for i := range disks {
		disk := &disks[i]
		if shown := shownSerial(disk); shown != disk.Serial {
			w.addWarning(at(i, "serial"), "the guest sees the first %d bytes of the serial of disk '%s'", len(shown), short(disk.Name))
		}
		bootable = bootable || disk.CDRom == nil || disk.BootOrder != nil
		if disk.CDRom != nil && cdrom < 0 {
			cdrom = i
		}
	}
	for i := range spec.Domain.Devices.Interfaces {
		bootable = bootable || spec.Domain.Devices.Interfaces[i].BootOrder != nil
	}
	if cdrom >= 0 && !bootable {
		w.addWarning(at(cdrom, "bootOrder"), "the firmware boots no CD-ROM without bootOrder: set 'bootOrder: 1' of disk '%s'", short(disks[cdrom].Name))
	}
	if i := bootDisk(spec); i >= 0 && disks[i].BlockSize != nil && bootsByBIOS(spec) {
		switch custom, matched := disks[i].BlockSize.Custom, disks[i].BlockSize.MatchVolume; {
		case custom != nil && custom.Logical > biosBlock:
			w.addWarning(at(i, "blockSize.custom.logical"), "the BIOS boots no disk with blocks of %d bytes such as '%s': use EFI, or blocks of %d bytes",
				custom.Logical, short(disks[i].Name), biosBlock)
		case custom == nil && isEnabled(matched):
			w.addWarning(at(i, "blockSize.matchVolume"),
				"the BIOS boots disk '%s' only if the storage of its volume has blocks of %d bytes: use EFI, or remove blockSize", short(disks[i].Name), biosBlock)
		}
	}
}

// biosBlock is the size in bytes of the blocks from which SeaBIOS boots. It skips disks with others.
const biosBlock = 512

// bootsByBIOS reports whether the firmware of a guest is SeaBIOS, and boots from a disk.
func bootsByBIOS(spec *v1.VirtualMachineInstanceSpec) bool {
	f := spec.Domain.Firmware
	return spec.Architecture == amd64 && !kernelBoots(spec) && (f == nil || f.Bootloader == nil || f.Bootloader.EFI == nil)
}

// bootDisk returns the index of the disk that the firmware tries first: the disk with the lowest bootOrder, else the first that is not a CD-ROM. It is -1 if
// an interface comes first, or without such a disk.
func bootDisk(spec *v1.VirtualMachineInstanceSpec) int {
	first, lowest := -1, uint(0)
	for i := range spec.Domain.Devices.Disks {
		if order := spec.Domain.Devices.Disks[i].BootOrder; order != nil && (first < 0 || *order < lowest) {
			first, lowest = i, *order
		}
	}
	for i := range spec.Domain.Devices.Interfaces {
		if order := spec.Domain.Devices.Interfaces[i].BootOrder; order != nil && (first < 0 || *order < lowest) {
			return -1
		}
	}
	if first >= 0 {
		return first
	}
	return slices.IndexFunc(spec.Domain.Devices.Disks, func(d v1.Disk) bool { return d.CDRom == nil })
}

// ofCPU warns of a model that libvirt does not know, of a ceiling that has no effect, and of a CPU that no record can keep. On arm64 no CPU is plugged in, and
// libvirt has no host-model.
func (w *warned) ofCPU(spec *v1.VirtualMachineInstanceSpec) {
	cpu := spec.Domain.CPU
	if cpu == nil {
		return
	}
	if spec.Architecture == arm64 && cpu.MaxSockets > max(cpu.Sockets, 1) {
		w.addWarning([]string{"domain.cpu.maxSockets"}, "cpu.maxSockets '%d' has no effect on architecture 'arm64', where no CPU is plugged in", cpu.MaxSockets)
	}
	if spec.Architecture == arm64 && cpu.Model == v1.CPUModeHostPassthrough { // rule cpu/model-arm64 refuses other models
		w.addWarning([]string{"architecture", "domain.cpu.model"},
			"the CPU of a guest on 'arm64' is the node's, and no record keeps it: another node may have another CPU")
	}
	if warning := modelWarning(spec.Architecture, "cpu.model", cpu.Model); warning != "" {
		w.addWarning([]string{"domain.cpu.model"}, "%s", warning)
	}
}

// mostOfServers is the most memory that machines of today have: 46 bits of address.
var mostOfServers = resource.MustParse("64Ti")

// ofMemory warns of amounts that are legal and hardly meant: a fraction of a byte ('1000000000001m', '1.3Gi'), and more than any machine has.
func (w *warned) ofMemory(spec *v1.VirtualMachineInstanceSpec) {
	if spec.Domain.Memory == nil || spec.Domain.Memory.Guest == nil {
		return
	}
	guest := *spec.Domain.Memory.Guest
	if guest.Cmp(mostOfServers) > 0 && vm.IsMemory(guest) {
		w.addWarning([]string{"domain.memory.guest"}, "memory.guest '%s' is more than 64Ti, which no machine of today has: is the unit right?", guest.String())
	}
	if guest.CmpInt64(guest.Value()) != 0 && vm.IsMemory(guest) && !unitMissing(guest) {
		w.addWarning([]string{"domain.memory.guest"}, "memory.guest '%s' is no whole number of bytes ('m' is a thousandth): it is rounded up", guest.String())
	}
}

func kernelBoots(spec *v1.VirtualMachineInstanceSpec) bool {
	return spec.Domain.Firmware != nil && spec.Domain.Firmware.KernelBoot != nil
}

// ofCards warns of cards with one MAC address. They are no mistake: the members of a bond may have one.
func (w *warned) ofCards(spec *v1.VirtualMachineInstanceSpec) {
	first := map[string]string{}
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		if nic.MacAddress == "" {
			continue
		}
		address := strings.ToLower(strings.ReplaceAll(nic.MacAddress, "-", ":"))
		if other, found := first[address]; found {
			w.addWarning([]string{fmt.Sprintf("domain.devices.interfaces[%d].macAddress", i)},
				"interfaces '%s' and '%s' have one MAC address", short(other), short(nic.Name))
			continue
		}
		first[address] = nic.Name
	}
}

// isPermitted reports whether the configuration lists a resource of device plugins, or nothing: then all are permitted.
func isPermitted(all *v1.PermittedHostDevices, resource string) bool {
	return all == nil ||
		slices.ContainsFunc(all.PciHostDevices, func(d v1.PciHostDevice) bool { return d.ResourceName == resource }) ||
		slices.ContainsFunc(all.MediatedDevices, func(d v1.MediatedHostDevice) bool { return d.ResourceName == resource }) ||
		slices.ContainsFunc(all.USB, func(d v1.USBHostDevice) bool { return d.ResourceName == resource })
}

// InstancetypeWarnings returns warnings about an instancetype: unknown annotations with Kiln's prefix, an unknown CPU model, and overcommitted memory because
// of which the guest may be killed.
func InstancetypeWarnings(spec *v1beta1.VirtualMachineInstancetypeSpec) (warnings []string) {
	warnings = textsOf(unknownKeyWarnings(spec.Annotations))
	if model := spec.CPU.Model; model != nil {
		if _, mainframe := modelHint(s390x, *model); !mainframe {
			if warning := modelWarning("amd64", "spec.cpu.model", *model); warning != "" {
				warnings = append(warnings, warning)
			}
		}
	}
	if ptr.Deref(spec.CPU.DedicatedCPUPlacement, false) && spec.Memory.OvercommitPercent > 0 && spec.Memory.Hugepages == nil {
		warnings = append(warnings, "spec.memory.overcommitPercent with dedicated CPUs: the pod's limit is less than the guest, which may be killed")
	}
	return warnings
}

// PreferenceWarnings returns a warning for each unknown annotation with Kiln's prefix, and for each deprecated field and value of a preference, with its
// replacement. KubeVirt warns only about the values (checkForDeprecatedPreferredCPUTopology).
func PreferenceWarnings(spec *v1beta1.VirtualMachinePreferenceSpec) (warnings []string) {
	warnings = textsOf(unknownKeyWarnings(spec.Annotations))
	if cpu := spec.CPU; cpu != nil && cpu.PreferredCPUTopology != nil {
		if now, old := renamed[*cpu.PreferredCPUTopology]; old {
			warnings = append(warnings, fmt.Sprintf("spec.cpu.preferredCPUTopology '%s' is deprecated: use '%s'", *cpu.PreferredCPUTopology, now))
		}
	}
	firmware := spec.Firmware
	if firmware != nil && firmware.DeprecatedPreferredUseEfi != nil {
		warnings = append(warnings, "spec.firmware.preferredUseEfi is deprecated: use preferredEfi")
	}
	if firmware != nil && firmware.DeprecatedPreferredUseSecureBoot != nil {
		warnings = append(warnings, "spec.firmware.preferredUseSecureBoot is deprecated: use preferredEfi.secureBoot")
	}
	return warnings
}

// renamed topologies, with the names that took their place.
var renamed = map[v1beta1.PreferredCPUTopology]v1beta1.PreferredCPUTopology{
	v1beta1.DeprecatedPreferAny:     v1beta1.Any,
	v1beta1.DeprecatedPreferCores:   v1beta1.Cores,
	v1beta1.DeprecatedPreferSockets: v1beta1.Sockets,
	v1beta1.DeprecatedPreferSpread:  v1beta1.Spread,
	v1beta1.DeprecatedPreferThreads: v1beta1.Threads,
}

// PresetWarnings returns the warning that every preset has: KubeVirt deprecated the kind in v0.57.
func PresetWarnings() []string {
	return []string{"presets are deprecated: use an instancetype and a preference"}
}

// short cuts a value of the user's, so that it does not fill a warning.
func short(text string) string {
	if runes := []rune(text); len(runes) > maxShort {
		return strings.TrimSpace(string(runes[:maxShort])) + "…"
	}
	return text
}

// maxShort is how many characters of a value short leaves.
const maxShort = 32
