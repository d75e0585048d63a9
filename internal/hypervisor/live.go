package hypervisor

import (
	"context"
	"fmt"
	"slices"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// Changes of a running domain. They do not change its definition, because a domain is defined anew at each start.

// Hardware is the current hardware of a running domain.
type Hardware struct {
	VCPUs     uint
	MemoryKiB uint64
	// Aliases are the aliases of all disks and interfaces. Down are the aliases of interfaces whose link is down, Empty the aliases of CD-ROM drives without a
	// medium.
	Aliases, Down, Empty []string
}

// Hardware reads the current hardware of the owner's domain. It returns the zero value if the domain is not active.
func (l *Libvirt) Hardware(ctx context.Context, owner Owner) (now Hardware, err error) {
	err = l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		_, running, err := runningDomain(rpc, owner)
		if err == nil && running != nil {
			now = hardwareOf(running)
		}
		return err
	})
	return now, err
}

// runningDomain returns the owner's domain and its XML. The XML is nil if the domain is not active.
func runningDomain(rpc *libvirt.Libvirt, owner Owner) (domain libvirt.Domain, running *libvirtxml.Domain, err error) {
	domain, found, err := findDomain(rpc, owner)
	if err != nil || !found {
		return domain, nil, err
	}
	if active, err := rpc.DomainIsActive(domain); err != nil || active == 0 {
		return domain, nil, ignoreErrors(err, libvirt.ErrNoDomain)
	}
	text, err := rpc.DomainGetXMLDesc(domain, 0)
	if err != nil {
		return domain, nil, ignoreErrors(err, libvirt.ErrNoDomain)
	}
	running = &libvirtxml.Domain{}
	if err := running.Unmarshal(text); err != nil {
		return domain, nil, fmt.Errorf("the XML of domain '%s' cannot be read: %w", domain.Name, err)
	}
	return domain, running, nil
}

func hardwareOf(running *libvirtxml.Domain) (now Hardware) {
	if running.VCPU != nil {
		now.VCPUs = running.VCPU.Value
		if running.VCPU.Current > 0 {
			now.VCPUs = running.VCPU.Current
		}
	}
	if running.Memory != nil { // libvirt prints KiB
		now.MemoryKiB = uint64(running.Memory.Value)
	}
	if running.Devices == nil {
		return now
	}
	for i := range running.Devices.Disks {
		disk := &running.Devices.Disks[i]
		name := aliasOf(disk.Alias)
		now.Aliases = append(now.Aliases, name)
		if disk.Device == "cdrom" && !hasMedium(disk) {
			now.Empty = append(now.Empty, name)
		}
	}
	for i := range running.Devices.Interfaces {
		nic := &running.Devices.Interfaces[i]
		now.Aliases = append(now.Aliases, aliasOf(nic.Alias))
		if nic.Link != nil && nic.Link.State == "down" {
			now.Down = append(now.Down, aliasOf(nic.Alias))
		}
	}
	return now
}

func aliasOf(alias *libvirtxml.DomainAlias) string {
	if alias == nil {
		return ""
	}
	return alias.Name
}

// hasMedium reports whether a drive has a source. libvirtxml reads an empty drive as a file without a name.
func hasMedium(disk *libvirtxml.DomainDisk) bool {
	source := disk.Source
	if source == nil {
		return false
	}
	if source.File != nil {
		return source.File.File != ""
	}
	return source.Block != nil || source.Network != nil || source.Volume != nil || source.NVME != nil || source.VHostUser != nil || source.VHostVDPA != nil
}

// ChangeKind is the kind of a Change.
type ChangeKind int

// Kinds of changes.
const (
	// SetVCPUs changes the number of running vCPUs to Amount. A smaller number is a request that the guest may ignore.
	SetVCPUs ChangeKind = iota
	// AddMemory plugs a memory device of Amount KiB into the first NUMA node.
	AddMemory
	// LinkUp and LinkDown set the link of an interface.
	LinkUp
	LinkDown
	// Eject removes the medium of a CD-ROM drive, unless the guest has locked it. Insert inserts the medium that the domain was started with.
	Eject
	Insert
	// Unplug asks the guest to release a disk or interface. It does not wait for the guest.
	Unplug
)

// Change is a change of a running domain. Alias is the alias of the device.
type Change struct {
	Kind   ChangeKind
	Alias  string
	Amount uint64
}

// Change changes the guest's domain. It fails if libvirt refuses the change, or if the domain is not active.
func (l *Libvirt) Change(ctx context.Context, guest Guest, change Change) error {
	return l.runChange(ctx, func(rpc *libvirt.Libvirt) error {
		domain, running, err := runningDomain(rpc, guest.Owner)
		if err != nil {
			return err
		}
		if running == nil || running.Devices == nil {
			return fmt.Errorf("the domain does not run")
		}
		switch change.Kind {
		case SetVCPUs:
			return rpc.DomainSetVcpusFlags(domain, uint32(change.Amount), uint32(libvirt.DomainVCPULive)) //nolint:gosec // at most some thousands
		case AddMemory:
			return attachMemory(rpc, domain, change.Amount)
		case Unplug:
			return rpc.DomainDetachDeviceAlias(domain, change.Alias, uint32(libvirt.DomainAffectLive))
		case LinkUp, LinkDown:
			return setLink(rpc, domain, running, change)
		case Eject, Insert:
			return setMedium(rpc, domain, media{running.Devices.Disks, guest.Documents.Domain.Devices.Disks}, change)
		}
		return fmt.Errorf("there is no change %d", change.Kind)
	})
}

// attachMemory plugs a DIMM, which needs neither a special driver in the guest nor a PCI slot.
func attachMemory(rpc *libvirt.Libvirt, domain libvirt.Domain, kib uint64) error {
	dimm := libvirtxml.DomainMemorydev{Model: "dimm", Target: &libvirtxml.DomainMemorydevTarget{
		Size: &libvirtxml.DomainMemorydevTargetSize{Value: uint(kib), Unit: "KiB"}, Node: &libvirtxml.DomainMemorydevTargetNode{Value: 0}}}
	text, err := dimm.Marshal()
	if err != nil {
		return err
	}
	return rpc.DomainAttachDeviceFlags(domain, text, uint32(libvirt.DomainAffectLive))
}

func setLink(rpc *libvirt.Libvirt, domain libvirt.Domain, running *libvirtxml.Domain, change Change) error {
	nics := running.Devices.Interfaces
	i := slices.IndexFunc(nics, func(n libvirtxml.DomainInterface) bool { return aliasOf(n.Alias) == change.Alias })
	if i < 0 {
		return fmt.Errorf("the domain has no interface '%s'", change.Alias)
	}
	nics[i].Link = &libvirtxml.DomainInterfaceLink{State: map[ChangeKind]string{LinkUp: "up", LinkDown: "down"}[change.Kind]}
	text, err := nics[i].Marshal()
	if err != nil {
		return err
	}
	return rpc.DomainUpdateDeviceFlags(domain, text, libvirt.DomainDeviceModifyLive)
}

// media are the disks of the running domain, and the disks that the domain was started with.
type media struct{ running, started []libvirtxml.DomainDisk }

func setMedium(rpc *libvirt.Libvirt, domain libvirt.Domain, of media, change Change) error {
	named := func(d libvirtxml.DomainDisk) bool { return aliasOf(d.Alias) == change.Alias }
	i, from := slices.IndexFunc(of.running, named), slices.IndexFunc(of.started, named)
	if i < 0 || from < 0 {
		return fmt.Errorf("the domain has no disk '%s'", change.Alias)
	}
	drive := of.running[i]
	if drive.Source = nil; change.Kind == Insert {
		drive.Source, drive.Driver = of.started[from].Source, of.started[from].Driver
	}
	text, err := drive.Marshal()
	if err != nil {
		return err
	}
	return rpc.DomainUpdateDeviceFlags(domain, text, libvirt.DomainDeviceModifyLive)
}
