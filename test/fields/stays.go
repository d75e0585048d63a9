package fields

import (
	"fmt"
	"path"
	"strings"
)

// kept says what keeps an element of the domain over the boots of a guest.
type kept string

const (
	// recorded elements are in the hardware record.
	recorded kept = "recorded"
	// derived elements follow from the pinned spec by Kiln's rules, so that each boot renders them again.
	derived kept = "derived"
	// ofHost elements are the business of one start: the guest does not see them, or sees the host.
	ofHost kept = "the host's"
)

// elementRow is a row of the page "What stays, and what does not".
type elementRow struct {
	// paths are elements and attributes of the domain, as outcome.elements has them, with all that is below them. '*' is any one element. An element belongs to
	// the row with the longest of the paths that match.
	paths string
	kept  kept
	// why says what keeps it and when it changes.
	why string
}

const (
	bySpec    = "the spec and its pins; changes with an edit of the VM or a repin"
	byBoard   = "one value for each architecture, and the spec; no default changes it"
	byStart   = "each start; the guest does not see it"
	byPorts   = "`devices`; a new device gets a free place, and a device that is removed leaves its place free"
	byMachine = "`machine`; changes with a versioned machine type in the spec, or with `kilnvm.io/hardware: latest`"
)

// elementRows are sorted as the page has them.
var elementRows = []elementRow{
	{"uuid", recorded, "`uuid`, unless `firmware.uuid` is set; it comes from the VM's identity, which clones do not inherit"},
	{"sysinfo/system", recorded, "`smbios`, `serial` and `uuid`; KubeVirt's `smbios` and FrontendProfiles count at the first boot only"},
	{"sysinfo/bios", recorded, "`bios`: the strings of the first boot of a guest that boots by BIOS. EFI firmware writes its own strings. The BIOS also " +
		"writes its own strings if the record of the guest has none, because an earlier version of Kiln or another program made it"},
	{"sysinfo", derived, "`chassis` and the Ignition annotation; " + bySpec + ". QEMU's own strings of chassis, base board and processor come with `machine`"},
	{"genid", recorded, "`generationID` says whether the guest has the device; the ID itself changes with each restore and clone, as guests expect"},
	{"os/type", recorded, byMachine + "; the architecture is the spec's"},
	{"os/boot devices/disk/boot", recorded, "`bootDisk` if no device has `bootOrder`, else the spec; a guest without a disk boots the first disk that it gets"},
	{"devices/interface/boot devices/interface/rom devices/hostdev/rom", derived, "`bootOrder`; " + bySpec},
	{"os/loader", recorded, "`firmware` is the file name of the EFI build. If the host lacks this build, the guest starts with another build. The " +
		"record then contains the other build, and an event names the change. A new version of a build with the same name is not noticed"},
	{"os/loader@secure os/loader@stateless", derived, "`firmware.bootloader.efi` and `launchSecurity`; " + bySpec},
	{"os/nvram", ofHost, "the file of the guest's EFI variables; its format follows the build of the first start with variables, and another format is refused"},
	{"os os/acpi/table@type", derived, "`firmware`, `startStrategy`; " + bySpec},
	{"os/kernel os/initrd os/acpi/table", ofHost, "files of the image or the Secret; a user who changes their content changes what the guest finds"},
	{"memory maxMemory vcpu vcpus cpu/topology", derived, "`memory` and `cpu`; " + bySpec + "; `topology` of the recorded CPU is for comparisons"},
	{"vcpu@placement", ofHost, byStart},
	{"cpu", recorded, "`cpu`, with `host-model`: model, vendor and all features of the first boot. A named model is the spec's, and its content is libvirt's. " +
		"With `host-passthrough`, which arm64 always has, the CPU is the host's, and the record says what the last boot saw"},
	{"cpu/maxphysaddr", recorded, "`cpu.physicalBits`; grows only if the memory needs more"},
	{"cpu/numa", recorded, "`numa`, with `guestMappingPassthrough`; else " + bySpec},
	{"clock", derived, "`clock`; " + bySpec},
	{"clock/timer@frequency", recorded, "`tsc`; an invariant TSC has this frequency on each host"},
	{"features", derived, "`features` with Hyper-V's vendor ID, `cpu.realtime`, `dedicatedCpuPlacement`; " + bySpec +
		". A feature that is not written is QEMU's default for `machine`. `hypervPassthrough` shows the features of each host"},
	{"features/gic features/vmport", derived, byBoard},
	{"launchSecurity", derived, bySpec + ". The owner's attestation has the policy; the firmware is measured, see os/loader"},
	{"devices/*/address", recorded, byPorts},
	{"devices/controller", recorded, "`devices` (index and address), `freePorts`; " + byMachine},
	{"devices/controller@model", recorded, "`usb` for USB controllers; else one model for each kind of controller and architecture"},
	{"devices/controller/driver devices/*/driver@iommu", derived, "`launchSecurity`: memory that is encrypted is reached through the IOMMU"},
	{"devices/*/alias", derived, "the name in the spec"},
	{"devices/*@model", derived, "the spec and its pins. `useVirtioTransitional` is in the spec or the pinned preference, and means non-transitional " +
		"if it is absent"},
	{"devices/disk", derived, bySpec},
	{"devices/disk/target", recorded, "`devices`: the target name; the bus is the spec's, which admission fills in by the pinned layers"},
	{"devices/disk/blockio", recorded, "`blockSizes`, with `matchVolume`; else the spec"},
	{"devices/disk/driver devices/disk/source devices/disk/backingStore devices/disk@type", ofHost, "each start: files, caches, IO modes and threads"},
	{"devices/disk/driver@queues devices/interface/driver@queues", derived, "`blockMultiQueue`, `networkInterfaceMultiqueue` and the number of CPUs at boot"},
	{"devices/interface", derived, bySpec},
	{"devices/interface/mac", recorded, "`macs`, unless `macAddress` is set"},
	{"devices/interface/source devices/interface/target devices/interface/driver devices/interface/mtu devices/interface@type", ofHost,
		"each start: the network that the interface is connected to. The MTU may differ between hosts"},
	{"devices/video devices/video@model", recorded, "`video`, unless `video.type` is set; its memory is a fixed number for each model"},
	{"devices/vsock devices/vsock@model", recorded, "`vsock`, unless `status.VSOCKCID` is set"},
	{"devices/memballoon", derived, "`autoattachMemBalloon`, huge pages, dedicated CPUs; " + bySpec},
	{"devices/memballoon@autodeflate", recorded, "`deflateOnOOM`"},
	{"devices/memballoon/stats", ofHost, byStart},
	{"devices/hostdev", derived, bySpec + ". What the device shows beside its address is the host's"},
	{"devices/hostdev/source devices/hostdev@managed", ofHost, "each start: the device that the node assigned"},
	{"devices/input devices/sound devices/panic devices/watchdog devices/tpm devices/redirdev devices/rng devices/iommu", derived, byBoard},
	{"devices/tpm/backend", ofHost, "each start: the state is kept with the VM; the TPM measures the firmware build, see os/loader"},
	{"devices/rng/backend devices/redirdev@type", ofHost, byStart},
	{"devices/filesystem devices/channel devices/serial devices/console devices/graphics", derived, bySpec},
	{"devices/filesystem/source devices/filesystem/driver@queue devices/channel/source devices/channel@type devices/serial/source devices/serial@type " +
		"devices/console/source devices/console@type devices/graphics/listen devices/graphics@socket devices/emulator", ofHost, byStart},
	{"name @type cputune numatune iothreads iothreadids memoryBacking on_crash on_poweroff on_reboot memtune blkiotune resource seclabel", ofHost,
		byStart + "; HostProfiles may set more of the kind"},
}

// rowOf returns the index of the row that an element belongs to. It returns an error for an element without a row, and for two rows with equally
// long paths.
func rowOf(element string) (row int, err error) {
	row, longest := -1, 0
	for i := range elementRows {
		for pattern := range strings.FieldsSeq(elementRows[i].paths) {
			length := matchedLength(element, pattern)
			switch {
			case length > 0 && length == longest && row != i:
				err = fmt.Errorf("'%s' is in the rows of '%s' and '%s'", element, elementRows[row].paths, elementRows[i].paths)
			case length > longest:
				row, longest, err = i, length, nil
			}
		}
	}
	if row < 0 {
		return row, fmt.Errorf("'%s' is in no row: does a later default change it?", element)
	}
	return row, err
}

// matchedLength returns how long a path is that matches an element or what it is in, twice the number of its parts, and one less for each '*'. It is 0 if the
// path does not match.
func matchedLength(element, pattern string) int {
	parts, wanted := partsOf(element), partsOf(pattern)
	if len(wanted) > len(parts) {
		return 0
	}
	for i, part := range wanted {
		if same, err := path.Match(part, parts[i]); err != nil || !same {
			return 0
		}
	}
	return 2*len(wanted) - strings.Count(pattern, "*")
}

// partsOf splits a path of an element. An attribute is a part that starts with '@'.
func partsOf(element string) []string {
	return strings.Split(strings.TrimPrefix(strings.ReplaceAll(element, "@", "/@"), "/"), "/")
}
