package beside

import (
	"context"
	"os"
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// live is a VM's guest before something is plugged in, and what must hold afterwards.
type live struct {
	space
	name string
	was  *v1.VirtualMachineInstance
}

// starts makes a VM, and waits until its guest runs.
func (s space) starts(name, fields string) live {
	s.Helper()
	s.vm(name, v1.RunStrategyAlways, fields)
	return live{s, name, s.runs(name)}
}

// plugged waits until the guest has what was plugged in, without a restart.
func (l live) plugged(what string, has func(*v1.VirtualMachineInstance) bool) {
	l.Helper()
	l.eventually(what+" is plugged in", func() (bool, any) {
		is := l.guest(l.name)
		if is.UID != l.was.UID {
			l.Fatal("the guest has been restarted")
		}
		return has(is), is
	})
	for _, condition := range l.machine(l.name).Status.Conditions {
		if condition.Type == v1.VirtualMachineRestartRequired && condition.Status == corev1.ConditionTrue {
			l.Errorf("the VM must be restarted: %s", condition.Message)
		}
	}
	l.noFight()
}

// TestHotplugCPU: an edit of the VM's sockets reaches the guest while it runs, by a migration.
func TestHotplugCPU(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	l := s.starts("cpu", "")
	if l.was.Spec.Domain.CPU == nil || l.was.Spec.Domain.CPU.MaxSockets < 2 {
		t.Fatalf("no CPU can be plugged in: %+v", l.was.Spec.Domain.CPU)
	}
	s.patch("cpu", `{"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}`)
	l.plugged("a socket", func(vmi *v1.VirtualMachineInstance) bool {
		return vmi.Spec.Domain.CPU.Sockets == 2 && vmi.Status.CurrentCPUTopology != nil && vmi.Status.CurrentCPUTopology.Sockets == 2
	})
}

// TestHotplugMemory: an edit of the VM's memory reaches the guest in the same way.
func TestHotplugMemory(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	l := s.starts("memory", "")
	s.patch("memory", `{"spec": {"template": {"spec": {"domain": {"memory": {"guest": "2Gi"}}}}}}`)
	l.plugged("memory", func(vmi *v1.VirtualMachineInstance) bool {
		return vmi.Spec.Domain.Memory.Guest.String() == "2Gi" && vmi.Status.Memory.GuestCurrent != nil && vmi.Status.Memory.GuestCurrent.String() == "2Gi"
	})
}

// claim is a PVC that is bound.
func (s space) claim(name string) {
	s.Helper()
	s.create("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: " + name + "}, spec: {accessModes: [ReadWriteMany], volumeMode: Block, " +
		"volumeName: pv-" + name + ", storageClassName: '', resources: {requests: {storage: 1Gi}}}}")
	const bound = `{"status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}}}`
	s.ok(s.on.MergePatch(s.Context(), s.in("pvc"), name, bound, "status"))
}

// virtctl runs a command of virtctl in the test's namespace.
func (s space) virtctl(args ...string) (string, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, s.on.Program("virtctl"), append([]string{"--namespace", s.name}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.on.Kubeconfig)
	out, err := command.CombinedOutput()
	return string(out), err
}

// must runs a command of virtctl that succeeds.
func (s space) must(args ...string) {
	s.Helper()
	if out, err := s.virtctl(args...); err != nil {
		s.Fatalf("virtctl %v: %v: %s", args, err, out)
	}
}

// TestHotplugVolume: virtctl plugs a volume into a guest, and takes it away again; the VM has it, too.
func TestHotplugVolume(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	s.claim("data")
	l := s.starts("volume", "")
	s.must("addvolume", "volume", "--volume-name=data", "--persist")
	ready := func(vmi *v1.VirtualMachineInstance) bool {
		for _, status := range vmi.Status.VolumeStatus {
			if status.Name == "data" {
				return status.Phase == v1.VolumeReady && len(vmi.Spec.Volumes) == 2 && len(vmi.Spec.Domain.Devices.Disks) == 2
			}
		}
		return false
	}
	l.plugged("a volume", ready)
	if volumes := s.machine("volume").Spec.Template.Spec.Volumes; len(volumes) != 2 {
		t.Errorf("the VM's volumes: %+v", volumes)
	}
	s.must("removevolume", "volume", "--volume-name=data", "--persist")
	l.plugged("no volume", func(vmi *v1.VirtualMachineInstance) bool {
		return len(vmi.Spec.Volumes) == 1 && len(vmi.Status.VolumeStatus) <= 1
	})
}

// TestHotplugNIC: an interface that is added to the VM is plugged into its guest.
func TestHotplugNIC(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	s.create("{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: lan}, spec: {config: '{}'}}")
	l := s.starts("nic", "")
	s.patch("nic", `{"spec": {"template": {"spec": {"domain": {"devices": {"interfaces": [{"name": "default", "masquerade": {}}, {"name": "lan", "bridge": {}}]}},
		"networks": [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}]}}}}`)
	l.plugged("an interface", func(vmi *v1.VirtualMachineInstance) bool {
		return len(vmi.Spec.Domain.Devices.Interfaces) == 2 && len(vmi.Spec.Networks) == 2
	})
}
