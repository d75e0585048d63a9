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
	"k8s.io/apimachinery/pkg/api/resource"
)

var wroteLine = regexp.MustCompile(`(?m)^KILN-WROTE (\d+)\r?$`)

// wrote returns the number of the last file that the guest has on its disk; 0 before the first.
func (l *launcher) wrote() int {
	all := wroteLine.FindAllStringSubmatch(l.console(), -1)
	if len(all) == 0 {
		return 0
	}
	last, _ := strconv.Atoi(all[len(all)-1][1])
	return last
}

// writesAfter waits until the guest has written more than a number of files.
func (l *launcher) writesAfter(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(generous); l.wrote() <= n; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) || t.Context().Err() != nil {
			t.Fatalf("the guest has written %d files, want more than %d:\n%s", l.wrote(), n, l.out.String())
		}
	}
}

// TestFreezesARealGuest: QEMU's own agent in a guest with a filesystem. What is frozen takes no write until it is thawed; freezing and thawing twice is no
// error; the agent names the filesystem.
func TestFreezesARealGuest(t *testing.T) {
	t.Parallel()
	vmi := vmiOf(storage(t), 300)
	memory := resource.MustParse("384Mi")
	vmi.Spec.Domain.Memory.Guest, vmi.Spec.Domain.Memory.MaxGuest = &memory, &memory
	vmi.Spec.Domain.Firmware.KernelBoot.KernelArgs = guest.Cmdline + " kiln.agent=vda"
	c := serve(t, vmi)
	l := launch(t, c, func(root string) {
		mounts(t)(root)
		if err := guest.AddAgent(filepath.Join(root, pod.Kernel, "boot/initrd")); err != nil {
			t.Fatal(err)
		}
	})
	c.reports(t, l, "an agent that answers", connected)
	l.writesAfter(t, 2)
	if strings.Contains(l.console(), "KILN-AGENT") {
		t.Fatalf("the guest's console:\n%s", l.out.String())
	}
	libvirt := hypervisor.NewSession(filepath.Join(l.root, pod.Private, "run", "libvirt", "libvirt-sock"))
	t.Cleanup(libvirt.Close)
	at, _ := c.now()
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
	time.Sleep(time.Second) // a file that is on the disk may not be said yet
	frozen := l.wrote()
	time.Sleep(2 * time.Second)
	if now := l.wrote(); now != frozen {
		t.Errorf("a frozen guest has written %d files, and then %d", frozen, now)
	}
	for range 2 {
		if err := libvirt.Thaw(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	l.writesAfter(t, frozen+1)
	l.term(t)
	if status := l.exits(t); status != 0 {
		t.Errorf("the launcher ends with status %d", status)
	}
}
