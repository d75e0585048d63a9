package virtlauncher

import (
	"fmt"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
)

// TestHotplugByMigration: a VM gets more sockets, and then more memory, while its guest runs. virt-controller writes them into the VMI, because
// vmRolloutStrategy is LiveUpdate by default. It creates a migration for each, because workloadUpdateMethods of the KubeVirt object has LiveMigrate: the pod of
// the guest has no room for more. virt-handler of the other node plugs them in there. The guest itself reports what came, in the same boot, and the VM need not
// be restarted. It is the same beside Kiln.
func TestHotplugByMigration(t *testing.T) {
	require(t)
	nightly.Only(t)
	both(t, func(g space) {
		secondNode(g.T)
		// KubeVirt plugs memory only into guests with at least 1 GiB.
		l := g.plugsInto(strings.Replace(machine, "memory: {guest: 256Mi}", "cpu: {sockets: 1}\n        memory: {guest: 1Gi}", 1))
		source := l.vmi("demo").Status.NodeName
		l.edit(`[{"op": "replace", "path": "/spec/template/spec/domain/cpu/sockets", "value": 2}]`)
		report := l.sees("the second CPU", func(r guest.Report) bool { return len(r.CPUs) == 2 })
		l.moved("demo", source)
		if sockets, _, _, err := report.Topology(); err != nil || sockets != 2 {
			l.Errorf("the guest has %d sockets, want 2: %v", sockets, err)
		}
		l.settled("2 sockets", func(s v1.VirtualMachineInstanceStatus) bool {
			return s.CurrentCPUTopology != nil && s.CurrentCPUTopology.Sockets == 2
		})

		source = l.vmi("demo").Status.NodeName
		l.edit(`[{"op": "replace", "path": "/spec/template/spec/domain/memory/guest", "value": "1536Mi"}]`)
		report = l.sees("the memory", func(r guest.Report) bool { return r.MemoryKiB-l.report.MemoryKiB >= 512<<10 })
		l.moved("demo", source)
		if more := report.MemoryKiB - l.report.MemoryKiB; more != 512<<10 || len(report.CPUs) != 2 {
			l.Errorf("the guest has %d KiB more and %d CPUs, want 512 MiB more and 2 CPUs", more, len(report.CPUs))
		}
		l.settled("1536 MiB", func(s v1.VirtualMachineInstanceStatus) bool {
			return s.Memory != nil && s.Memory.GuestCurrent != nil && s.Memory.GuestCurrent.Value() == 1536<<20
		})
		if m := compare(seenBy(l.report), seenBy(report)); m.devices == 0 || m.moved > 0 {
			l.Errorf("devices of the guest are elsewhere: %s", strings.Join(m.list, "; "))
		}
		l.goesOn()
	})
}

// settled waits until the status of the VMI has what was plugged in, and no condition says that something is still to be.
func (l live) settled(what string, has func(v1.VirtualMachineInstanceStatus) bool) {
	l.Helper()
	l.eventually("the VMI has "+what+" in its status", func() (bool, any) {
		vmi := l.vmi("demo")
		for _, c := range vmi.Status.Conditions {
			if c.Type == v1.VirtualMachineInstanceVCPUChange || c.Type == v1.VirtualMachineInstanceMemoryChange {
				return false, fmt.Sprintf("%+v", c)
			}
		}
		return has(vmi.Status), fmt.Sprintf("%+v", vmi.Status)
	})
}
