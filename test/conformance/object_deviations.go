package main

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/validate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// objectDeviation is a difference of objects that docs/reference/deviations.md lists under the same name. It looks at both values where
// it can, so that another mistake in the same field stays unexplained.
type objectDeviation struct {
	name     string
	explains func(record, difference) bool
}

var objectDeviations = append([]objectDeviation{
	{"`overcommitPercent`", isImpreciseRequest},
	// Until v1.8 only a missing bootloader gets it.
	{"Secure Boot on arm64", func(c record, d difference) bool {
		return strings.HasSuffix(d.path, "bootloader.efi.secureBoot") && d.want == nil && d.got == false && c.version <= 8
	}},
	// v1.8 sets the annotation whatever the machine type is.
	{"PCI topology of machines without PCIe", func(c record, d difference) bool {
		return strings.HasSuffix(d.path, "annotations."+v1.PciTopologyVersionAnnotation) && d.want == v1.PciTopologyVersionV3 && d.got == nil && c.version == 8
	}},
	// For an unknown topology or level of spreading the reference gives the VMI 1 vCPU, and Kiln falls back on what it knows.
	{impossible, func(c record, d difference) bool {
		return (topologyPath.MatchString(d.path) && d.want == float64(1) || strings.HasSuffix(d.path, ".cpu.maxSockets")) && c.Preference != nil &&
			len(validate.Preference(c.Preference, nil)) > 0
	}},
	{unspreadable, func(c record, d difference) bool {
		return topologyPath.MatchString(d.path) && c.Expect.SpreadCheck != nil && (strings.HasSuffix(d.path, ".sockets") || d.got == float64(1))
	}},
	// The reference adds the input device only for a VM.
	{"`autoattachInputDevice` of a bare VMI", func(c record, d difference) bool {
		attach := c.userSpec().Domain.Devices.AutoattachInputDevice
		return d.path == "spec.domain.devices.inputs" && isEmptyValue(d.want) && attach != nil && *attach
	}},
	// The reference never reads the field. Only GPUs without options may differ.
	{"`preferredVirtualGPUOptions`", func(c record, d difference) bool {
		return gpuOptions.MatchString(d.path) && isEmptyValue(d.want) && c.Preference != nil && c.Preference.Devices != nil &&
			c.Preference.Devices.PreferredVirtualGPUOptions != nil
	}},
	// Here the reference's preference overwrites the user. Kiln's value must be the one that the user wrote.
	{"`preferredAcpi` and `preferredDisableHotplug`", func(c record, d difference) bool {
		own, _ := asUntyped(c.Spec)
		return (d.path == "spec.domain.features.acpi.enabled" || d.path == "spec.domain.devices.disableHotplug") &&
			d.got == lookupPath(map[string]any{"spec": own}, d.path)
	}},
	// The reference prepares up to 512 vCPUs, or what the cluster allows. Kiln's maximum must be smaller, and the reference's beyond what libvirt defines.
	{"The ceiling of CPU hotplug", func(c record, d difference) bool {
		want, _ := d.want.(float64)
		got, _ := d.got.(float64)
		return strings.HasSuffix(d.path, ".cpu.maxSockets") && got < want && want*c.perSocket() > libvirtVCPUs
	}},
	// The reference makes 0 sockets of a limit or request of 0, and overwrites a request of 0 with the limit.
	{noCPUs, func(c record, d difference) bool {
		sockets := strings.HasSuffix(d.path, ".cpu.sockets") && d.got == float64(1)
		return (sockets || strings.HasSuffix(d.path, ".cpu.maxSockets") && isEmptyValue(d.want)) && c.countsNothing() ||
			strings.HasSuffix(d.path, ".resources.requests.cpu") && d.got == "0" && c.requestsNothing()
	}},
	// The reference takes the colon before the port for the colon before a tag.
	{"Images of a registry with a port", func(c record, d difference) bool {
		return pulled.MatchString(d.path) && d.want == "IfNotPresent" && d.got == "Always" && c.imageBehindPort(d.path)
	}},
	// The reference gives the default bus virtio, which its own validation refuses for a CD-ROM drive.
	{"CD-ROMs on arm64 and s390x", func(c record, d difference) bool {
		return strings.HasSuffix(d.path, ".cdrom.bus") && d.want == "virtio" && d.got == "scsi"
	}},
	// The reference's default bus is sata or virtio, on which no LUN can start.
	{"The bus of a LUN", func(_ record, d difference) bool {
		return strings.HasSuffix(d.path, ".lun.bus") && (d.want == "sata" || d.want == "virtio") && d.got == "scsi"
	}},
	// The difference is the whole list of disks, because its length differs. Without the disks of dumps both must be equal.
	{"A memory dump is no disk", func(c record, d difference) bool {
		return d.path == "spec.domain.devices.disks" && sameValue(c.withoutDumps(d.want), d.got)
	}},
	// The reference's default bus is one that no mainframe has.
	{"What a mainframe lacks", func(c record, d difference) bool {
		return inputBus.MatchString(d.path) && d.want == "usb" && d.got == "virtio" && c.recordedArchitecture() == "s390x"
	}},
	// The reference adds the watchdog of the architecture beside the one that the user wrote.
	{"The watchdog of another architecture", func(c record, d difference) bool {
		want, err := recordedVMI(c)
		return watchdogKind.MatchString(d.path) && isEmptyValue(d.got) && err == nil && want.Spec.Domain.Devices.Watchdog.I6300ESB != nil &&
			want.Spec.Domain.Devices.Watchdog.Diag288 != nil
	}},
	// Kiln treats an empty bootloader as none at all, which on arm64 means EFI without Secure Boot.
	{emptyBootloader, func(c record, d difference) bool {
		firmware := c.userSpec().Domain.Firmware
		return strings.HasSuffix(d.path, ".firmware.bootloader.efi.secureBoot") && isEmptyValue(d.want) && d.got == false && c.recordedArchitecture() == "arm64" &&
			firmware != nil && firmware.Bootloader != nil && firmware.Bootloader.EFI == nil && firmware.Bootloader.BIOS == nil
	}},
	// The reference turns any policy of vmx into 'require'. Kiln keeps what the user wrote, and its validation refuses another policy.
	{"evmcs and the CPU feature vmx", func(c record, d difference) bool {
		features := c.userSpec().Domain.Features
		return featurePolicy.MatchString(d.path) && d.want == "require" && features != nil && features.Hyperv != nil && features.Hyperv.EVMCS != nil
	}},
	// The reference gives amd64's configured machine type to every VMI that names none.
	{"The machine type of one architecture", func(c record, d difference) bool {
		return strings.HasSuffix(d.path, ".domain.machine.type") && !c.choosesMachine() && c.recordedArchitecture() != "amd64"
	}},
}, presetDeviations...)

var (
	topologyPath  = regexp.MustCompile(`\.domain\.cpu\.(cores|sockets|threads)$`)
	pulled        = regexp.MustCompile(`\.volumes\[(\d+)\]\.containerDisk\.imagePullPolicy$`)
	portAlone     = regexp.MustCompile(`:[^/@]*/[^:@]*$`)
	gpuOptions    = regexp.MustCompile(`\.gpus\[\d+\]\.virtualGPUOptions\b`)
	watchdogKind  = regexp.MustCompile(`\.devices\.watchdog\.(i6300esb|diag288)\b`)
	inputBus      = regexp.MustCompile(`\.devices\.inputs\[\d+\]\.bus$`)
	featurePolicy = regexp.MustCompile(`\.domain\.cpu\.features\[\d+\]\.policy$`)
)

// noCPUs is the deviation of VMIs that request no CPU, or less than none.
const noCPUs = "A CPU limit of nothing"

// libvirtVCPUs is the most that libvirt defines on a machine without an interrupt remapping IOMMU; s390x has fewer.
const libvirtVCPUs = 248

// imageBehindPort reports whether the image of the volume at a path has a registry with a port, and neither tag nor digest.
func (c record) imageBehindPort(path string) bool {
	at, err := strconv.Atoi(pulled.FindStringSubmatch(path)[1])
	volumes := c.userSpec().Volumes
	return err == nil && at < len(volumes) && volumes[at].ContainerDisk != nil && portAlone.MatchString(volumes[at].ContainerDisk.Image)
}

// isImpreciseRequest reports whether the reference's memory request is what 32-bit floating point makes of the exact one.
func isImpreciseRequest(c record, d difference) bool {
	if !strings.HasSuffix(d.path, ".resources.requests.memory") || c.Instancetype == nil {
		return false
	}
	guest, percent := c.Instancetype.Memory.Guest.Value(), c.Instancetype.Memory.OvercommitPercent
	// big.Int, because bytes times 100 can exceed 64 bits for a quantity that a user wrote.
	exact := new(big.Int).Mul(big.NewInt(guest), big.NewInt(int64(100-percent)))
	// KubeVirt computes with float32, whose 24 bits of precision are fewer than such a size has.
	return bytesOf(d.want) == int64(float32(guest)*(1-float32(percent)/100)) && bytesOf(d.got) == exact.Div(exact, big.NewInt(100)).Int64()
}

// bytesOf returns a quantity of an untyped object, -1 if the value is not a quantity.
func bytesOf(value any) int64 {
	text, _ := value.(string)
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return -1
	}
	return quantity.Value()
}

// userSpec returns the spec that the user wrote, of a VMI or in the template of a VM.
func (c record) userSpec() v1.VirtualMachineInstanceSpec {
	var vm v1.VirtualMachine
	var vmi v1.VirtualMachineInstance
	switch {
	case c.VM != nil && json.Unmarshal(c.VM, &vm) == nil && vm.Spec.Template != nil:
		return vm.Spec.Template.Spec
	case c.VMI != nil && json.Unmarshal(c.VMI, &vmi) == nil:
		return vmi.Spec
	}
	return c.Spec
}

// recordedArchitecture returns the architecture of the reference's VMI, which may come from its preference.
// It returns nil where neither template nor VMI names one.
func (c record) recordedArchitecture() any {
	var object map[string]any
	if err := json.Unmarshal(c.Expect.Object, &object); err != nil {
		return nil
	}
	if guest := lookupPath(object, "spec.template.spec.architecture"); guest != nil {
		return guest
	}
	return lookupPath(object, "spec.architecture")
}

// choosesMachine reports whether the user names a machine type.
func (c record) choosesMachine() bool {
	machine := c.userSpec().Domain.Machine
	return machine != nil && machine.Type != ""
}

// perSocket is how many vCPUs a socket of the reference's VMI has.
// An absent count of cores or threads is 1, as in the VMI that boots.
func (c record) perSocket() float64 {
	cpu := v1.CPU{}
	if want, err := recordedVMI(c); err == nil && want.Spec.Domain.CPU != nil {
		cpu = *want.Spec.Domain.CPU
	}
	return float64(max(cpu.Cores, 1) * max(cpu.Threads, 1))
}

// countsNothing reports whether the CPU limit, or else the request, of a VMI without a topology is no number of CPUs.
func (c record) countsNothing() bool {
	resources := c.userSpec().Domain.Resources
	count, found := resources.Limits[corev1.ResourceCPU]
	if !found {
		count, found = resources.Requests[corev1.ResourceCPU]
	}
	return found && count.Sign() <= 0
}

// requestsNothing reports whether the user wrote a CPU request of zero.
func (c record) requestsNothing() bool {
	request, found := c.userSpec().Domain.Resources.Requests[corev1.ResourceCPU]
	return found && request.IsZero()
}

// withoutDumps returns the disks of a VMI without the disks that the reference made of volumes that take a memory dump.
func (c record) withoutDumps(disks any) any {
	dumps := map[any]bool{}
	for _, volume := range c.userSpec().Volumes {
		dumps[volume.Name] = volume.MemoryDump != nil
	}
	for _, disk := range c.userSpec().Domain.Devices.Disks {
		dumps[disk.Name] = false
	}
	list, _ := disks.([]any)
	return slices.DeleteFunc(slices.Clone(list), func(disk any) bool {
		named, _ := disk.(map[string]any)
		return dumps[named["name"]]
	})
}
