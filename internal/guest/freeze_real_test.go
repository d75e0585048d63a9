package guest_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/poll"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

var wroteLine = regexp.MustCompile(`(?m)^KILN-WROTE (\d+)\r?$`)

// filesWritten returns the number of files that the guest has reported as written to its disk.
func (l *launcher) filesWritten() int {
	all := wroteLine.FindAllStringSubmatch(l.consoleText(), -1)
	if len(all) == 0 {
		return 0
	}
	last, _ := strconv.Atoi(all[len(all)-1][1])
	return last
}

// waitForMoreFiles waits until the guest has written more than a number of files.
func (l *launcher) waitForMoreFiles(t *testing.T, n int) {
	t.Helper()
	if !poll.Until(longLimit, func() bool { return l.filesWritten() > n }) {
		t.Fatalf("the guest has written %d files, want more than %d:\n%s", l.filesWritten(), n, l.out.String())
	}
}

// vmiWithAgent returns a VMI whose guest runs QEMU's own agent, if its volumes are mounted by mountAgent.
func vmiWithAgent(t *testing.T) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := withGracePeriod(vmiWithStorage(t), 300)
	memory := resource.MustParse("384Mi")
	vmi.Spec.Domain.Memory.Guest, vmi.Spec.Domain.Memory.MaxGuest = &memory, &memory
	vmi.Spec.Domain.Firmware.KernelBoot.KernelArgs = guest.Cmdline + " kiln.agent=vda"
	return vmi
}

func mountAgent(t *testing.T) func(root string) {
	return func(root string) {
		mountVolumes(t)(root)
		if err := guest.AddAgent(filepath.Join(root, pod.Kernel, "boot/initrd")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFreezesARealGuest: QEMU's own agent runs in a guest with a filesystem. A frozen filesystem takes no write until it is thawed; freezing and thawing twice
// are no errors; the agent reports the filesystem.
func TestFreezesARealGuest(t *testing.T) {
	t.Parallel()
	vmi := vmiWithAgent(t)
	c := serveVMI(t, vmi)
	l := startLauncher(t, c, mountAgent(t))
	c.waitForReport(t, l, "an agent that answers", hasAgent)
	l.waitForMoreFiles(t, 2)
	if strings.Contains(l.consoleText(), "KILN-AGENT") {
		t.Fatalf("the guest's console:\n%s", l.out.String())
	}
	libvirt := hypervisor.NewSession(filepath.Join(l.root, pod.Private, "run", "libvirt", "libvirt-sock"))
	t.Cleanup(libvirt.Close)
	at, _ := c.currentPod()
	owner := hypervisor.Owner{Cluster: at.Spec.ClusterUID, Namespace: vmi.Namespace, Name: vmi.Name, UID: vmi.UID, Node: at.Spec.NodeName}
	answers, err := libvirt.Agent(t.Context(), owner)
	kept := slices.ContainsFunc(answers.Filesystems, func(f hypervisor.AgentFilesystem) bool { return f.MountPoint == "/kept" && f.Type == "ext4" })
	if err != nil || answers.Facts.OS.KernelRelease == "" || !kept {
		t.Errorf("the agent says %+v, %v", answers, err)
	}
	for range 2 {
		if err := libvirt.Freeze(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // the guest may report a file later that it wrote before the freeze
	frozen := l.filesWritten()
	time.Sleep(2 * time.Second) // the guest writes several files in this time unless it is frozen; a frozen guest gives no sign to wait for
	if now := l.filesWritten(); now != frozen {
		t.Errorf("a frozen guest has written %d files, and then %d", frozen, now)
	}
	for range 2 {
		if err := libvirt.Thaw(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	l.waitForMoreFiles(t, frozen+1)
	l.sendTERM(t)
	if status := l.waitForExit(t); status != 0 {
		t.Errorf("the launcher ends with status %d", status)
	}
}
