package hostresources

import (
	"errors"
	"os/exec"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pod"
	"golang.org/x/sys/unix"
	v1 "kubevirt.io/api/core/v1"
)

// TestMTU: the interface has the MTU of the link in the launcher's own network, on a bare machine and in a pod.
func TestMTU(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{}
	vmi.UID = "1d9c2f0e-0000-4000-8000-000000000001"
	vmi.Spec.Networks = []v1.Network{{Name: "lan", NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "lan"}}}}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "lan", InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}}}
	tap := pod.PodInterface("lan")
	found := make(chan map[string]backend.NIC)
	go func() { // its thread ends with it, since it stays locked, and with the thread the network
		runtime.LockOSThread()
		defer close(found)
		if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
			return
		}
		for _, args := range [][]string{{"link", "add", "br0", "mtu", "9000", "type", "bridge"}, {"link", "add", tap, "mtu", "1400", "type", "bridge"}} {
			if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
				t.Errorf("ip %v: %v: %s", args, err, out)
			}
		}
		all := map[string]backend.NIC{}
		for name, link := range map[string]string{"bridge": "br0", "gone": "br1"} {
			host := &BareMachine{Bridges: map[string]string{"lan": link}}
			nic, err := host.hostInterface(vmi.Spec.Domain.Devices.Interfaces[0])
			if err != nil {
				t.Error(err)
			}
			all[name] = nic
		}
		nic, err := (&Pod{Network: pod.Passt}).hostInterface(vmi, vmi.Spec.Domain.Devices.Interfaces[0])
		if err != nil {
			t.Error(err)
		}
		all["tap"] = nic
		found <- all
	}()
	got, able := <-found
	if !able {
		t.Skip("needs root: it makes a network of its own")
	}
	want := map[string]backend.NIC{"bridge": {Kind: "bridge", Device: "br0", MTU: 9000}, "gone": {Kind: "bridge", Device: "br1"},
		"tap": {Kind: "tap", Device: tap, MTU: 1400}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
