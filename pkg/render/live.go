package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"libvirt.org/go/libvirtxml"
)

// A guest's hardware may change while it runs: vCPUs and memory grow, links go up and down, CD-ROM drives lose and get media, devices are unplugged. All other
// hardware is as in the frontend that the guest was started with. LiveHardware has the differences to this frontend.

// Seen is the hardware of a running guest as libvirt reports it.
type Seen struct {
	VCPUs     uint
	MemoryKiB uint64
	// Aliases are the aliases of all disks and interfaces, Down of the interfaces whose links are down, Empty of the CD-ROM drives without a medium.
	Aliases, Down, Empty []string
}

// RunningHardware returns the current hardware of a domain that was started from a frontend. It leaves out devices that the frontend does not have, such as
// manually plugged ones.
func RunningHardware(front *libvirtxml.Domain, seen Seen) v1alpha1.LiveHardware {
	live := v1alpha1.LiveHardware{
		VCPUs: int32(min(seen.VCPUs, v1alpha1.MostLiveVCPUs)), MemoryKiB: int64(min(seen.MemoryKiB, mostMemory)), //nolint:gosec // bounded
	}
	// libvirt rounds what cannot grow.
	if front.MaximumMemory == nil {
		live.MemoryKiB = int64(front.Memory.Value) //nolint:gosec // far below
	}
	for _, device := range pluggableDevices(front) {
		alias := (*device.Alias).Name
		switch {
		case !slices.Contains(seen.Aliases, alias):
			live.Absent = append(live.Absent, device.Key())
		case slices.Contains(seen.Down, alias):
			live.LinksDown = append(live.LinksDown, device.Name)
		case slices.Contains(seen.Empty, alias):
			live.Ejected = append(live.Ejected, device.Name)
		}
	}
	return sortLists(live)
}

// mostMemory is 4 PiB in KiB: more than a host has.
const mostMemory = 1 << 42

func sortLists(live v1alpha1.LiveHardware) v1alpha1.LiveHardware {
	for _, list := range [][]string{live.Absent, live.LinksDown, live.Ejected} {
		slices.Sort(list)
	}
	return live
}

// pluggableDevices lists the disks and interfaces of a frontend.
func pluggableDevices(front *libvirtxml.Domain) []abi.Device {
	return slices.DeleteFunc(abi.Devices(front), func(d abi.Device) bool {
		return d.Disk == nil && d.Interface == nil || d.Alias == nil || *d.Alias == nil
	})
}

// CheckLive returns an error if a guest that was started from the frontend cannot have this hardware. A tenant may have written it.
func CheckLive(front *libvirtxml.Domain, live v1alpha1.LiveHardware) error {
	least, most := int64(front.Memory.Value), int64(front.Memory.Value) //nolint:gosec // far below
	if front.MaximumMemory != nil {
		most = int64(front.MaximumMemory.Value) //nolint:gosec // far below
	}
	if live.VCPUs < 1 || uint(live.VCPUs) > front.VCPU.Value {
		return fmt.Errorf("vcpus: %d must be from 1 to %d", live.VCPUs, front.VCPU.Value)
	}
	if live.MemoryKiB < least || live.MemoryKiB > most {
		return fmt.Errorf("memoryKiB: %d must be from %d to %d", live.MemoryKiB, least, most)
	}
	keys, nics, drives := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, device := range pluggableDevices(front) {
		keys[device.Key()] = true
		nics[device.Name] = nics[device.Name] || device.Interface != nil
		drives[device.Name] = drives[device.Name] || device.Disk != nil && device.Disk.Device == "cdrom"
	}
	for _, list := range []struct {
		name  string
		names []string
		known map[string]bool
	}{{"absent", live.Absent, keys}, {"linksDown", live.LinksDown, nics}, {"ejected", live.Ejected, drives}} {
		for i, name := range list.names {
			if !list.known[name] {
				return fmt.Errorf("%s: the guest has no '%.128s'", list.name, name)
			}
			if i > 0 && list.names[i-1] >= name {
				return fmt.Errorf("%s: '%.128s' must stand once, and in order", list.name, name)
			}
		}
	}
	return nil
}

// WithLive returns a frontend with which a guest would get the hardware that it has now. Its digest is the digest of the running hardware. front is not
// changed.
func WithLive(front *libvirtxml.Domain, live v1alpha1.LiveHardware) *libvirtxml.Domain {
	now := *front
	vcpu, memory := *front.VCPU, *front.Memory
	if vcpu.Current = uint(live.VCPUs); vcpu.Current == vcpu.Value { //nolint:gosec // CheckLive has judged it
		vcpu.Current = 0
	}
	memory.Value = uint(live.MemoryKiB) //nolint:gosec // CheckLive has judged it
	now.VCPU, now.Memory, now.VCPUs, now.CPU = &vcpu, &memory, enabledVCPUs(front.VCPUs, live), grownCPU(front, live)
	devices := *front.Devices
	devices.Disks = slices.DeleteFunc(slices.Clone(front.Devices.Disks), func(d libvirtxml.DomainDisk) bool {
		return slices.Contains(live.Absent, record.Key("disk", abi.Name("disk", d.Alias)))
	})
	devices.Interfaces = slices.DeleteFunc(slices.Clone(front.Devices.Interfaces), func(n libvirtxml.DomainInterface) bool {
		return slices.Contains(live.Absent, record.Key("interface", abi.Name("interface", n.Alias)))
	})
	for i := range devices.Interfaces {
		nic := &devices.Interfaces[i]
		switch down := slices.Contains(live.LinksDown, abi.Name("interface", nic.Alias)); {
		case down:
			nic.Link = &libvirtxml.DomainInterfaceLink{State: "down"}
		case nic.Link != nil && nic.Link.State == "down":
			nic.Link = nil
		}
	}
	now.Devices = &devices
	return &now
}

// enabledVCPUs returns the list of vCPUs with as many enabled as the guest has; nil if the frontend lists none, because all its vCPUs run.
func enabledVCPUs(list *libvirtxml.DomainVCPUs, live v1alpha1.LiveHardware) *libvirtxml.DomainVCPUs {
	if list == nil || int(live.VCPUs) == len(list.VCPU) {
		return nil
	}
	out := &libvirtxml.DomainVCPUs{VCPU: slices.Clone(list.VCPU)}
	for i := range out.VCPU {
		if out.VCPU[i].Enabled = "no"; i < int(live.VCPUs) {
			out.VCPU[i].Enabled = "yes"
		}
	}
	return out
}

// grownCPU returns the CPU with the plugged-in memory in its only NUMA node. The memory of several nodes does not grow.
func grownCPU(front *libvirtxml.Domain, live v1alpha1.LiveHardware) *libvirtxml.DomainCPU {
	if front.CPU == nil || front.CPU.Numa == nil || len(front.CPU.Numa.Cell) != 1 {
		return front.CPU
	}
	cpu, numa := *front.CPU, *front.CPU.Numa
	numa.Cell = slices.Clone(numa.Cell)
	numa.Cell[0].Memory = uint(live.MemoryKiB) //nolint:gosec // CheckLive has judged it
	cpu.Numa = &numa
	return &cpu
}

// LiveChanges describes how the current hardware of a guest differs from its earlier hardware; empty if they are equal.
func LiveChanges(before, after v1alpha1.LiveHardware) string {
	var texts []string
	if before.VCPUs != after.VCPUs {
		texts = append(texts, fmt.Sprintf("vCPUs from %d to %d", before.VCPUs, after.VCPUs))
	}
	if before.MemoryKiB != after.MemoryKiB {
		texts = append(texts, fmt.Sprintf("memory from %d to %d MiB", before.MemoryKiB>>10, after.MemoryKiB>>10))
	}
	for _, list := range []struct {
		before, after []string
		gained, lost  string
	}{
		{describeKeys(before.Absent), describeKeys(after.Absent), "%s is unplugged", "%s is plugged in"},
		{before.LinksDown, after.LinksDown, "the link of interface '%s' is down", "the link of interface '%s' is up"},
		{before.Ejected, after.Ejected, "CD-ROM '%s' has no medium", "CD-ROM '%s' has a medium"},
	} {
		for _, name := range list.after {
			if !slices.Contains(list.before, name) {
				texts = append(texts, fmt.Sprintf(list.gained, name))
			}
		}
		for _, name := range list.before {
			if !slices.Contains(list.after, name) {
				texts = append(texts, fmt.Sprintf(list.lost, name))
			}
		}
	}
	return strings.Join(texts, "; ")
}

// CauseStarted is the cause of the hardware that a guest was started with.
const CauseStarted = "the guest was started"

// ObservedHardware returns state 4 of a guest: what libvirt runs, with digest, cause and time. was is the state that was observed before, or nil. Cause and
// time are copied from was if it is of the same VMI and has the same hardware. The cause may be longer than the API allows.
func ObservedHardware(
	was *v1alpha1.HardwareRunning, front *libvirtxml.Domain, reported v1alpha1.ReportedHardware, vmi types.UID, now metav1.Time,
) v1alpha1.HardwareRunning {
	live := reported.LiveHardware
	running := v1alpha1.HardwareRunning{LiveHardware: live, UID: vmi, Digest: abi.Digest(WithLive(front, live)), CPU: reported.CPU, Cause: CauseStarted, Time: now}
	if running.CPU == nil && was != nil && was.UID == vmi { // it does not change, and is not read again
		running.CPU = was.CPU
	}
	switch {
	case was == nil || was.UID != vmi:
	case was.Digest == running.Digest && equality.Semantic.DeepEqual(was.LiveHardware, live):
		running.Cause, running.Time = was.Cause, was.Time
	default:
		running.Cause = LiveChanges(was.LiveHardware, live)
	}
	return running
}

// describeKeys returns keys of devices as messages write them: interface 'blue'.
func describeKeys(keys []string) []string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		kind, name := record.SplitKey(key)
		texts[i] = fmt.Sprintf("%s '%s'", kind, name)
	}
	return texts
}

// Aliases are libvirt's names of the disks and interfaces of a frontend, by their keys in the hardware record.
func Aliases(front *libvirtxml.Domain) map[string]string {
	names := map[string]string{}
	for _, device := range pluggableDevices(front) {
		names[device.Key()] = (*device.Alias).Name
	}
	return names
}

// Front is the frontend that FromFacts makes and ReadFrontend reads.
type Front = *libvirtxml.Domain
