package validate

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// Fields that Kiln's controller changes in a VMI whose guest runs (rollout strategy LiveUpdate): domain.cpu.sockets, domain.memory.guest, both with their
// requests and limits, domain.devices.interfaces[].state, and the volumes and disks that are ejected, inserted or removed.
// KubeVirt: pkg/liveupdate, and the VM controller's syncs of CPU, memory, interfaces and volumes, v1.9.

// memoryStep is the least that memory grows by, in bytes: Linux takes memory in blocks of this size on amd64.
const memoryStep = 128 << 20

// LiveSpec returns the spec of a running VMI with the changes of the next VMI that can be made while it runs. All other changes wait for a restart. least is
// the hardware that libvirt runs: a growth that waits for the pod can be taken back as far as least.
func LiveSpec(runs, next *v1.VirtualMachineInstance, least v1alpha1.LiveHardware) v1.VirtualMachineInstanceSpec {
	live := runs.DeepCopy()
	liveCPU(live, next, least.VCPUs)
	liveMemory(live, next, least.MemoryKiB)
	for _, change := range []func(live, next *v1.VirtualMachineInstance){liveInterfaces, liveMedia, liveDisks} {
		change(live, next)
	}
	return live.Spec
}

// Waits reports whether the guest of a VMI lacks CPUs or memory that the VMI requests, because the pod lacks them. kind is KubeVirt's HotVCPUChange or
// HotMemoryChange.
func Waits(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) bool {
	return slices.ContainsFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue && (c.Reason == v1alpha1.ReasonPodResizePending || c.Reason == v1alpha1.ReasonFailedResize)
	})
}

// liveCPU lets the number of sockets grow up to maxSockets, and shrink while the growth waits for the pod. CPUs are not taken from a guest that has them, nor
// are dedicated ones added: kubelet gives a container those that it has for good.
func liveCPU(live, next *v1.VirtualMachineInstance, least int32) {
	has, wants := live.Spec.Domain.CPU, next.Spec.Domain.CPU
	if has == nil || wants == nil || has.DedicatedCPUPlacement || live.Spec.Architecture != "amd64" || has.Sockets == 0 || wants.Sockets == 0 ||
		wants.Sockets > has.MaxSockets || wants.Cores != has.Cores || wants.Threads != has.Threads {
		return
	}
	grows := cmp.Compare(wants.Sockets, has.Sockets)
	if grows == 0 || grows == -1 && (vm.VCPUs(wants) < int64(least) || !Waits(live, v1.VirtualMachineInstanceVCPUChange)) {
		return
	}
	if liveResource(live, next, growing{corev1.ResourceCPU, grows}) {
		has.Sockets = wants.Sockets
	}
}

// liveMemory lets the memory grow up to maxGuest, and shrink while the growth waits for the pod. Huge pages are not added to a pod that runs, and several NUMA
// nodes would have to share what is added.
func liveMemory(live, next *v1.VirtualMachineInstance, leastKiB int64) {
	has, wants := live.Spec.Domain.Memory, next.Spec.Domain.Memory
	if has == nil || wants == nil || has.Guest == nil || wants.Guest == nil || has.MaxGuest == nil || has.Hugepages != nil || wants.Hugepages != nil ||
		wants.Guest.Cmp(*has.MaxGuest) > 0 || (wants.Guest.Value()-has.Guest.Value())%memoryStep != 0 ||
		!vm.CanGrow(&live.Spec, *has.MaxGuest) || live.Annotations[v1alpha1.AnnotationNUMACells] != "" || dedicated(&live.Spec) {
		return
	}
	grows := wants.Guest.Cmp(*has.Guest)
	if grows == 0 || grows == -1 && (wants.Guest.Value()>>10 < leastKiB || !Waits(live, v1.VirtualMachineInstanceMemoryChange)) {
		return
	}
	if liveResource(live, next, growing{corev1.ResourceMemory, grows}) {
		more := wants.Guest.DeepCopy()
		has.Guest = &more
	}
}

// growing is a resource that grows (1) or shrinks (-1).
type growing struct {
	name  corev1.ResourceName
	grows int
}

// liveResource takes request and limit of a resource along. It reports false, and changes nothing, where one of them goes the other way, is new or gone: the
// last two would change the quality of service of the pod, which Kubernetes does not allow.
func liveResource(live, next *v1.VirtualMachineInstance, of growing) bool {
	has, wants, name := &live.Spec.Domain.Resources, next.Spec.Domain.Resources, of.name
	for _, list := range []struct{ has, wants corev1.ResourceList }{{has.Requests, wants.Requests}, {has.Limits, wants.Limits}} {
		was, had := list.has[name]
		is, remains := list.wants[name]
		if had != remains || had && is.Cmp(was) == -of.grows {
			return false
		}
	}
	if more, found := wants.Requests[name]; found {
		has.Requests[name] = more.DeepCopy()
	}
	if more, found := wants.Limits[name]; found {
		has.Limits[name] = more.DeepCopy()
	}
	return true
}

// liveInterfaces sets links, and unplugs interfaces. One that was unplugged comes back with the next start.
func liveInterfaces(live, next *v1.VirtualMachineInstance) {
	for i := range live.Spec.Domain.Devices.Interfaces {
		nic := &live.Spec.Domain.Devices.Interfaces[i]
		j := slices.IndexFunc(next.Spec.Domain.Devices.Interfaces, func(n v1.Interface) bool { return n.Name == nic.Name })
		if j >= 0 && nic.SRIOV == nil && nic.State != v1.InterfaceStateAbsent {
			nic.State = next.Spec.Domain.Devices.Interfaces[j].State
		}
	}
}

// liveMedia takes the volume of a CD-ROM drive out, and puts one back that was taken out: the pod has it. What was taken out is in an annotation of the VMI.
func liveMedia(live, next *v1.VirtualMachineInstance) {
	ejected := ejectedVolumes(live)
	for i := range live.Spec.Domain.Devices.Disks {
		name := live.Spec.Domain.Devices.Disks[i].Name
		if live.Spec.Domain.Devices.Disks[i].CDRom == nil || !hasDisk(&next.Spec, name) {
			continue
		}
		had, wanted := volumeOf(&live.Spec, name), volumeOf(&next.Spec, name)
		switch {
		case had != nil && wanted == nil:
			live.Spec.Volumes = withoutVolume(live.Spec.Volumes, name)
		case had == nil && wanted != nil && slices.ContainsFunc(ejected, func(v v1.Volume) bool { return equality.Semantic.DeepEqual(v, *wanted) }):
			live.Spec.Volumes = insertVolume(live.Spec.Volumes, next.Spec.Volumes, *wanted)
		}
	}
}

// insertVolume puts a volume where the other list has it, as far as the lists are alike.
func insertVolume(list, like []v1.Volume, volume v1.Volume) []v1.Volume {
	at := slices.IndexFunc(like, func(v v1.Volume) bool { return v.Name == volume.Name })
	return slices.Insert(slices.Clone(list), min(at, len(list)), volume)
}

// liveDisks removes disks whose volumes are hotpluggable, with their volumes.
func liveDisks(live, next *v1.VirtualMachineInstance) {
	devices := &live.Spec.Domain.Devices
	devices.Disks = slices.DeleteFunc(slices.Clone(devices.Disks), func(disk v1.Disk) bool {
		volume := volumeOf(&live.Spec, disk.Name)
		if volume == nil || !vm.Hotpluggable(volume) || !canUnplug(disk) || hasDisk(&next.Spec, disk.Name) || volumeOf(&next.Spec, disk.Name) != nil {
			return false
		}
		live.Spec.Volumes = withoutVolume(live.Spec.Volumes, disk.Name)
		return true
	})
}

// canUnplug reports whether the bus of a disk lets it go.
func canUnplug(disk v1.Disk) bool {
	return disk.Disk != nil && hardware.Bus(disk.Disk.Bus).Hotplug
}

func hasDisk(spec *v1.VirtualMachineInstanceSpec, name string) bool {
	return slices.ContainsFunc(spec.Domain.Devices.Disks, func(d v1.Disk) bool { return d.Name == name })
}

func volumeOf(spec *v1.VirtualMachineInstanceSpec, name string) *v1.Volume {
	i := slices.IndexFunc(spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &spec.Volumes[i]
}

func withoutVolume(list []v1.Volume, name string) []v1.Volume {
	return slices.DeleteFunc(slices.Clone(list), func(v v1.Volume) bool { return v.Name == name })
}

// ejectedVolumes reads annotation kilnvm.io/ejected of a VMI. One that cannot be read has none.
func ejectedVolumes(vmi *v1.VirtualMachineInstance) (list []v1.Volume) {
	if err := json.Unmarshal([]byte(vmi.Annotations[v1alpha1.AnnotationEjected]), &list); err != nil {
		return nil
	}
	return list
}

// Ejected returns annotation kilnvm.io/ejected of a VMI that gets the spec of live: the volumes that its pod has and its spec has not. It is empty if there
// are no such volumes.
func Ejected(runs, live *v1.VirtualMachineInstance) string {
	list := ejectedVolumes(runs)
	for i := range runs.Spec.Volumes {
		if volume := runs.Spec.Volumes[i]; volumeOf(&live.Spec, volume.Name) == nil && hasDisk(&live.Spec, volume.Name) {
			list = append(withoutVolume(list, volume.Name), volume)
		}
	}
	list = slices.DeleteFunc(list, func(v v1.Volume) bool { return volumeOf(&live.Spec, v.Name) != nil })
	if len(list) == 0 {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	return string(text)
}
