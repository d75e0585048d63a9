package snapshots

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// TestRunningHardware: a snapshot of a guest that has grown holds what it ran beside its record; a restore brings the record, byte for byte. What another guest
// has reported is not held.
func TestRunningHardware(t *testing.T) {
	for uid, want := range map[types.UID]bool{"vmi-1": true, "vmi-0": false} {
		c := newCluster(t, nil, append(everything(), guest())...)
		hardware := c.hardware("web")
		live := v1alpha1.LiveHardware{VCPUs: 4, MemoryKiB: 2 << 20, Absent: []string{"interface.lan"}}
		hardware.Status.Running = &v1alpha1.HardwareRunning{LiveHardware: live, UID: uid, Digest: "sha256:" + strings.Repeat("4", 64), Cause: "it grew"}
		c.must(c.Status().Update(t.Context(), hardware))
		before := c.vm("web")
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.step()
		content := read(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
		kept, err := snapshot.Read(content)
		c.must(err)
		kept, err = kept.WithRecord(read(c, kept.Revision, &appsv1.ControllerRevision{}).Data.Raw)
		c.must(err)
		if (kept.Live != nil) != want || want && (!cmp.Equal(kept.Live.LiveHardware, live) || kept.Live.Digest != hardware.Status.Running.Digest) ||
			!cmp.Equal(recorded().Spec, *kept.Hardware) {
			t.Errorf("%s: %+v", uid, kept.Live)
		}
		c.must(c.WithWatch.Delete(t.Context(), guest()))
		c.edit()
		c.must(c.Create(t.Context(), restoreOf("r", "web")))
		c.step()
		c.restored(before)
	}
}
