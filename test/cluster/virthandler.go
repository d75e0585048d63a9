package cluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// vmi does the next step that a virt-handler would do of a VMI: of the node that has the guest, or of the one that it migrates to.
func (n *nodes) vmi(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	node := vmi.Labels[v1.NodeNameLabel]
	if node == "" || vmi.IsFinal() {
		return nil
	}
	switch {
	case vmi.DeletionTimestamp != nil:
		vmi.Status.Phase = v1.Succeeded
	case vmi.Status.Phase == v1.Scheduled:
		boot(vmi)
	case vmi.Status.Phase != v1.Running:
		return nil
	case vmi.Labels[v1.MigrationTargetNodeNameLabel] != "":
		var write bool
		if node, write = migrate(vmi); !write {
			return nil
		}
	case !mounted(vmi):
		return nil
	}
	return n.write(ctx, node, vmi)
}

// boot is what virt-handler writes of a domain that has begun to run.
func boot(vmi *v1.VirtualMachineInstance) {
	vmi.Status.Phase, vmi.Status.SelinuxContext, vmi.Status.RuntimeUser = v1.Running, "none", 107
	vmi.Status.MigrationMethod = v1.LiveMigration
	if vmi.Spec.Domain.Machine != nil {
		vmi.Status.Machine = &v1.Machine{Type: "pc-q35-rhel9.6.0"}
	}
	set(vmi, v1.VirtualMachineInstanceIsMigratable)
	set(vmi, v1.VirtualMachineInstanceIsStorageLiveMigratable)
	plugged(vmi)
	if vmi.Status.Memory != nil {
		vmi.Status.Memory.GuestAtBoot = vmi.Status.Memory.GuestCurrent
	}
}

// plugged is what virt-handler writes of a domain that has the CPUs and the memory of the spec.
func plugged(vmi *v1.VirtualMachineInstance) {
	if cpu := vmi.Spec.Domain.CPU; cpu != nil {
		vmi.Status.CurrentCPUTopology = &v1.CPUTopology{Cores: max(cpu.Cores, 1), Sockets: max(cpu.Sockets, 1), Threads: max(cpu.Threads, 1)}
	}
	if memory := vmi.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		if vmi.Status.Memory == nil {
			vmi.Status.Memory = &v1.MemoryStatus{}
		}
		vmi.Status.Memory.GuestCurrent, vmi.Status.Memory.GuestRequested = memory.Guest, memory.Guest
	}
}

// set sets a condition to true.
func set(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) {
	unset(vmi, kind)
	vmi.Status.Conditions = append(vmi.Status.Conditions, v1.VirtualMachineInstanceCondition{
		Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	})
}

// unset removes conditions.
func unset(vmi *v1.VirtualMachineInstance, kinds ...v1.VirtualMachineInstanceConditionType) {
	vmi.Status.Conditions = slices.DeleteFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool { return slices.Contains(kinds, c.Type) })
}

// mounted acknowledges volumes that are attached to the node, which are mounted into the pod and plugged in, and volumes that the spec no longer has, which are
// unmounted. It reports whether there are any.
func mounted(vmi *v1.VirtualMachineInstance) (any bool) {
	for i := range vmi.Status.VolumeStatus {
		volume := &vmi.Status.VolumeStatus[i]
		switch {
		case volume.HotplugVolume == nil:
		case !slices.ContainsFunc(vmi.Spec.Volumes, func(v v1.Volume) bool { return v.Name == volume.Name }):
			if volume.Phase == v1.VolumeReady || volume.Phase == v1.HotplugVolumeMounted {
				volume.Phase, any = v1.HotplugVolumeUnMounted, true
			}
		case volume.Phase == v1.HotplugVolumeAttachedToNode && volume.HotplugVolume.AttachPodUID != "":
			volume.Phase, any = v1.HotplugVolumeMounted, true
		case volume.Phase == v1.HotplugVolumeMounted:
			volume.Phase, volume.Target, any = v1.VolumeReady, "sda", true
		}
	}
	return any
}

// migrate does the next step of a migration, and returns the node whose virt-handler takes it: the target listens, the source begins, the target has the guest,
// takes it over and ends the migration.
func migrate(vmi *v1.VirtualMachineInstance) (node string, write bool) {
	state, now := vmi.Status.MigrationState, metav1.Now()
	if state == nil || state.TargetNode == "" {
		return "", false
	}
	node = state.TargetNode
	switch {
	case state.Completed || state.Failed:
		delete(vmi.Labels, v1.MigrationTargetNodeNameLabel)
	case state.TargetNodeAddress == "":
		state.TargetNodeAddress, state.TargetDirectMigrationNodePorts = "10.0.0.2", map[string]int{"40001": 0}
	case state.StartTimestamp == nil:
		state.StartTimestamp, node = &now, state.SourceNode
	case !state.TargetNodeDomainDetected:
		state.TargetNodeDomainDetected, state.TargetNodeDomainReadyTimestamp = true, &now
		unset(vmi, v1.VirtualMachineInstanceMigrationRequired)
	case state.EndTimestamp == nil:
		state.EndTimestamp = &now
		vmi.Labels[v1.NodeNameLabel], vmi.Status.NodeName = node, node
	default:
		state.Completed = true
		plugged(vmi)
		unset(vmi, v1.VirtualMachineInstanceVCPUChange, v1.VirtualMachineInstanceMemoryChange)
	}
	return node, true
}
