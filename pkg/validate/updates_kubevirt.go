package validate

import (
	"maps"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a VM's template that KubeVirt changes in a VMI that runs.
// KubeVirt v1.9: syncRestartRequired and the handlers of its VM controller (pkg/virt-controller/watch/vm), ValidateLiveUpdateMemory (pkg/liveupdate/memory),
// pkg/storage/hotplug, and pkg/network/vmliveupdate. Volumes and interfaces are plugged with either rollout strategy. The others need LiveUpdate, and wait
// when anything else in the template waits.

// Rollout is when the guest of a VM that KubeVirt runs gets the changes of the VM's template. Each list has the JSON names of fields.
type Rollout struct {
	// Live are those that KubeVirt makes while the guest runs.
	Live []string `json:"live,omitempty"`
	// Migrating are the changes that KubeVirt makes while the guest runs, if the VMI can be migrated: a condition of the VMI says whether it can.
	Migrating []string `json:"migrating,omitempty"`
	// Open are the changes of which it is not known when the guest gets them.
	Open []string `json:"open,omitempty"`
	// Restart are the changes that the guest gets when the VM is restarted.
	Restart []string `json:"restart,omitempty"`
}

// placement are the fields that KubeVirt's controller copies into a VMI that runs. They count when the VMI is placed again.
var placement = []string{"nodeSelector", "affinity", "tolerations"}

// devices are the fields that are compared by their elements: one element that waits makes the field wait.
var devices = map[string]func(now, was *v1.VirtualMachineInstanceSpec) bool{
	"volumes":                   plugsVolumes,
	"domain.devices.disks":      plugsDisks,
	"domain.devices.interfaces": plugsInterfaces,
	"networks":                  plugsNetworks,
}

// ByKubeVirt returns when the guest gets the changes of a VM's template with its instancetype applied. strategy is updateVolumesStrategy of the VM.
func ByKubeVirt(now, was *v1.VirtualMachineInstanceSpec, strategy *v1.UpdateVolumesStrategy, limits config.Limits) (r Rollout) {
	migrates := strategy != nil && *strategy == v1.UpdateVolumesStrategyMigration
	plugs := limits.Gates.Enabled("DeclarativeHotplugVolumes") && !limits.Gates.Enabled("HotplugVolumes") && !migrates
	var rolled Rollout // what LiveUpdate rolls out
	for _, name := range ChangedFields(*now, *was) {
		volumes := name == "volumes" || name == "domain.devices.disks"
		switch {
		case name == "volumes" && migrates && limits.LiveUpdate != nil:
			r.Open = append(r.Open, name) // KubeVirt migrates what is on the claims, if it can
		case devices[name] != nil && devices[name](now, was) && (plugs || !volumes):
			r.Live = append(r.Live, name)
		case limits.LiveUpdate == nil:
			r.Restart = append(r.Restart, name)
		case slices.Contains(placement, name):
			rolled.Live = append(rolled.Live, name)
		case name == "domain.cpu" && plugsCPUs(now, was, limits.LiveUpdate), name == "domain.memory" && plugsMemory(now, was, limits.LiveUpdate):
			rolled.Migrating = append(rolled.Migrating, name)
		default:
			r.Restart = append(r.Restart, name)
		}
	}
	ofDevices := func(name string) bool { return devices[name] != nil }
	switch held := slices.Concat(rolled.Live, rolled.Migrating); {
	case len(r.Restart) == 0:
	case slices.ContainsFunc(r.Restart, func(name string) bool { return !ofDevices(name) }):
		r.Restart = append(r.Restart, held...)
		return r
	default: // KubeVirt neither plugs some devices nor says that they wait, such as an interface with a binding that cannot be plugged
		r.Open = append(r.Open, held...)
		return r
	}
	r.Live, r.Migrating = append(r.Live, rolled.Live...), rolled.Migrating
	return r
}

// plugsCPUs reports whether the number of sockets grows, and nothing else of the CPUs changes. KubeVirt's webhook sets maxSockets in the VMI alone.
func plugsCPUs(now, was *v1.VirtualMachineInstanceSpec, live *config.LiveUpdate) bool {
	wants, has := now.Domain.CPU, was.Domain.CPU
	if wants == nil || has == nil || now.Architecture == arm64 {
		return false
	}
	more := has.DeepCopy()
	more.Sockets = wants.Sockets
	sockets, ceiling := max(has.Sockets, 1), has.MaxSockets
	if ceiling == 0 && live.MaxCPUSockets != nil {
		ceiling = *live.MaxCPUSockets
	} else if ceiling == 0 {
		ceiling = sockets * live.MaxHotplugRatio
	}
	return wants.Sockets >= sockets && wants.Sockets <= ceiling && equality.Semantic.DeepEqual(more, wants)
}

// plugsMemory reports whether guest grows, and nothing else of the memory changes.
func plugsMemory(now, was *v1.VirtualMachineInstanceSpec, live *config.LiveUpdate) bool {
	wants, has := now.Domain.Memory, was.Domain.Memory
	if wants == nil || has == nil || wants.Guest == nil || has.Guest == nil || wants.Guest.Cmp(*has.Guest) != 1 {
		return false
	}
	more := has.DeepCopy()
	more.Guest = wants.Guest
	ceiling := has.MaxGuest
	if ceiling == nil {
		ceiling = live.MaxGuest
	}
	if ceiling == nil {
		ceiling = resource.NewQuantity(has.Guest.Value()*int64(live.MaxHotplugRatio), resource.BinarySI)
	}
	// What the VMI had at its start decides whether it has maxGuest; what it is to have must fit as well.
	return wants.Guest.Cmp(*ceiling) <= 0 && vm.CanGrow(was, *ceiling) && vm.CanGrow(now, *ceiling) &&
		equality.Semantic.DeepEqual(more, wants)
}

// allLive calls live for each element that two lists do not have alike, with nil where a list has none of the name. It reports whether all are live.
func allLive[T any](now, was []T, name func(*T) string, live func(now, was *T) bool) bool {
	before := map[string]*T{}
	for i := range was {
		before[name(&was[i])] = &was[i]
	}
	for i := range now {
		old := before[name(&now[i])]
		delete(before, name(&now[i]))
		if (old == nil || !equality.Semantic.DeepEqual(old, &now[i])) && !live(&now[i], old) {
			return false
		}
	}
	for old := range maps.Values(before) {
		if !live(nil, old) {
			return false
		}
	}
	return true
}

func plugsVolumes(now, was *v1.VirtualMachineInstanceSpec) bool {
	return allLive(now.Volumes, was.Volumes, func(v *v1.Volume) string { return v.Name }, func(now, was *v1.Volume) bool {
		return (now == nil || vm.Hotpluggable(now)) && (was == nil || vm.Hotpluggable(was))
	})
}

// plugsDisks reports whether disks come and go with volumes that are hotpluggable. A disk that stays keeps what it was, and a CD-ROM drive stays.
func plugsDisks(now, was *v1.VirtualMachineInstanceSpec) bool {
	return allLive(now.Domain.Devices.Disks, was.Domain.Devices.Disks, func(d *v1.Disk) string { return d.Name }, func(disk, old *v1.Disk) bool {
		switch {
		case disk == nil:
			volume := volumeOf(was, old.Name)
			return old.CDRom == nil && volume != nil && vm.Hotpluggable(volume) && volumeOf(now, old.Name) == nil
		case old == nil:
			volume := volumeOf(now, disk.Name)
			return volume != nil && vm.Hotpluggable(volume) && volumeOf(was, disk.Name) == nil
		}
		return false
	})
}

// plugsInterfaces reports whether links are set, interfaces unplugged by state 'absent', or plugged in with a binding that can be. One that has left the list
// without that state waits.
func plugsInterfaces(now, was *v1.VirtualMachineInstanceSpec) bool {
	name := func(nic *v1.Interface) string { return nic.Name }
	return allLive(now.Domain.Devices.Interfaces, was.Domain.Devices.Interfaces, name, func(nic, old *v1.Interface) bool {
		switch {
		case nic == nil:
			return old.State == v1.InterfaceStateAbsent
		case old == nil:
			return nic.State != v1.InterfaceStateAbsent && (nic.Bridge != nil || nic.SRIOV != nil)
		}
		same := nic.DeepCopy()
		same.State = old.State
		return old.State != v1.InterfaceStateAbsent && equality.Semantic.DeepEqual(same, old)
	})
}

// plugsNetworks reports whether networks come and go with their interfaces, or get another NetworkAttachmentDefinition. The pod network waits.
func plugsNetworks(now, was *v1.VirtualMachineInstanceSpec) bool {
	return plugsInterfaces(now, was) && allLive(now.Networks, was.Networks, func(n *v1.Network) string { return n.Name }, func(network, old *v1.Network) bool {
		switch {
		case network == nil:
			return true // its interface is gone, too
		case old == nil:
			return network.Pod == nil
		}
		same := network.DeepCopy()
		if same.Multus == nil || old.Multus == nil {
			return false
		}
		same.Multus.NetworkName = old.Multus.NetworkName
		return equality.Semantic.DeepEqual(same, old)
	})
}
