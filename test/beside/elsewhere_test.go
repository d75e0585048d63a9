package beside

import (
	"os"
	"testing"

	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	v1 "kubevirt.io/api/core/v1"
)

// TestElsewhere: KubeVirt in another namespace than 'kubevirt', with accounts of that namespace, writes statuses, plugs in and migrates. Kiln's
// controller finds by itself that KubeVirt makes VMIs (--guests=auto, which is the default). Component beside-kubevirt/plugin is added there.
func TestElsewhere(t *testing.T) {
	nightly.Only(t) // it starts a second KubeVirt; internal/admission has the hook's pods, and TestInOtherNamespaces of test/e2e the namespace
	t.Parallel()
	dir, err := cluster.Dir("kiln-elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	on, err := start(t.Context(), dir, cluster.Options{KubeVirt: "cnv", Hook: hookImage, HookProtocol: virtcontroller.HookPlugin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(on.Logs())
		}
		if err := on.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := on.AddKiln(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newSpaceOn(t, on)
	l := s.starts("elsewhere", "")
	s.eventually("virt-controller has written the VM's status", func() (bool, any) {
		status := s.machine("elsewhere").Status
		return status.Ready && status.PrintableStatus == v1.VirtualMachineStatusRunning, status
	})
	s.patch("elsewhere", `{"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}`)
	l.plugged("a socket", func(vmi *v1.VirtualMachineInstance) bool {
		return vmi.Spec.Domain.CPU.Sockets == 2 && vmi.Status.CurrentCPUTopology != nil && vmi.Status.CurrentCPUTopology.Sockets == 2
	})
	l.migrates()
	s.must("stop", "elsewhere")
	s.gone("elsewhere")
	s.plugin()
	s.needsHookRights()
	if refused := on.Refused(); len(refused) > 0 {
		t.Errorf("nodes' components were refused: %v", refused)
	}
}
