package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
)

// TestGuestPowersOff: a real guest that is reset stays Running, and a real guest that powers off is Succeeded.
func TestGuestPowersOff(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connectLibvirt(t, d)
	volumes := t.TempDir()
	if _, _, err := guest.Build(filepath.Join(volumes, "containers/demo.example/guest:1")); err != nil {
		t.Fatal(err)
	}
	vmi := claimedVMI(t, "powers-off")
	memory := resource.MustParse("256Mi")
	vmi.Spec.Domain.Memory.Guest, vmi.Spec.Domain.Memory.MaxGuest = &memory, &memory
	vmi.Spec.Domain.Firmware.KernelBoot = &v1.KernelBoot{KernelArgs: guest.Cmdline,
		Container: &v1.KernelBootContainer{Image: "demo.example/guest:1", KernelPath: "/boot/vmlinuz", InitrdPath: "/boot/initrd"}}
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, l, api, api)
	var err error
	if n.Machine.Volumes, err = hostresources.OpenRoot(volumes); err != nil {
		t.Fatal(err)
	}
	awaitEvents(t, l)
	running := func(boots int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), guest.BootTimeout)
		defer cancel()
		if _, err := guest.WaitReport(ctx, filepath.Join(n.Machine.Folder(vmi), "serial.log"), boots); err != nil {
			t.Fatal(err)
		}
		if after := reconcileRepeatedly(t, n, vmi); after.Status.Phase != v1.Running {
			t.Fatalf("phase is '%s' after %d boots: %v", after.Status.Phase, boots, after.Status.Conditions)
		}
	}
	if first := reconcileRepeatedly(t, n, vmi); first.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", first.Status.Phase, first.Status.Conditions)
	}
	running(1)
	virsh(t, d, "reset", "default_powers-off")
	running(2)
	if err := l.Shutdown(t.Context(), n.owner(vmi)); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the guest has powered off", func() bool {
		status, err := l.State(t.Context(), n.owner(vmi))
		return err == nil && !status.Active()
	})
	after := reconcileRepeatedly(t, n, vmi)
	ready := conditionOf(after, v1.VirtualMachineInstanceReady)
	if after.Status.Phase != v1.Succeeded || ready.Status != "False" || ready.Reason != "PoweredOff" {
		t.Errorf("phase is '%s', Ready %+v", after.Status.Phase, ready)
	}
	if event := <-n.Events.(*events.FakeRecorder).Events; !strings.HasPrefix(event, "Normal PoweredOff ") {
		t.Errorf("the event is '%s'", event)
	}
	if _, err := os.Stat(n.Machine.Folder(vmi)); err != nil {
		t.Errorf("the log of a guest that has ended is there until its VMI is deleted: %v", err)
	}
}
