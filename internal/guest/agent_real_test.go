package guest_test

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

//go:embed testdata/agent.sh
var agentScript []byte

// addAgentScript makes the script the first process of the guest: the kernel unpacks the archives of its initramfs one after another.
func addAgentScript(t *testing.T, initramfs string) {
	t.Helper()
	out, err := os.OpenFile(initramfs, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	archive := cpio.NewWriter(out)
	err = archive.WriteHeader(&cpio.Header{Name: "init", Mode: cpio.TypeReg | 0o755, Size: int64(len(agentScript)), Links: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write(agentScript); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAgentOfAGuest: libvirt passes on an agent's answers. An agent that hangs does not prevent its guest's power-off.
func TestAgentOfAGuest(t *testing.T) {
	t.Parallel()
	vmi := withGracePeriod(vmiWithStorage(t), 300)
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default", Model: "virtio", MacAddress: cardMAC,
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	vmi.Spec.Networks = []v1.Network{{Name: "default", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}}
	c := serveVMI(t, vmi)
	l := startLauncher(t, c, func(root string) {
		mountVolumes(t)(root)
		addAgentScript(t, filepath.Join(root, pod.Kernel, "boot/initrd"))
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the guest's console:\n%s", l.out.String())
		}
	})
	got := c.waitForReport(t, l, "an agent that answers", hasAgent).Agent
	want := &v1alpha1.GuestAgent{OS: &v1alpha1.GuestOS{ID: "tiny", Name: "Tiny Linux", PrettyName: "Tiny Linux 1", KernelRelease: got.OS.KernelRelease},
		Interfaces: []v1alpha1.GuestInterface{{Name: "eth0", MAC: cardMAC, IPs: []string{"10.0.2.15", "fe80::1"}}}}
	if diff := cmp.Diff(want, got); diff != "" || got.OS.KernelRelease == "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
	begun := time.Now()
	l.sendTERM(t)
	if status := l.waitForExit(t); status != 0 || time.Since(begun) > 30*time.Second {
		t.Errorf("the launcher ends with status %d after %s", status, time.Since(begun))
	}
	if last := c.waitForReport(t, l, "a guest that has powered off", inState(v1alpha1.GuestPoweredOff)); hasAgent(last) {
		t.Errorf("the last status has an agent: %+v", last.Agent)
	}
}
