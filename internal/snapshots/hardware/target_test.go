package hardware

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"github.com/kilnvm/kiln/test/fakecluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func testVM() *v1.VirtualMachine {
	return &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "vm-1",
		Annotations: map[string]string{v1alpha1.AnnotationIdentity: "seed"}}}
}

// hardwareOf returns the GuestHardware of the test VM with a machine type, which a guest had if assigned is true.
func hardwareOf(machine string, assigned bool) *v1alpha1.GuestHardware {
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "hw-1"},
		Spec: v1alpha1.GuestHardwareSpec{Identity: "seed", Hardware: &v1alpha1.HardwareRecord{Defaults: "v1", Machine: machine}}}
	if assigned {
		hardware.Status.VirtualMachineUID = "vm-1"
	}
	return hardware
}

// storeRecord stores the hardware of a snapshot, and returns the name of its revision.
func storeRecord(t *testing.T, cluster *operation.Cluster, hardware *v1alpha1.GuestHardware) string {
	t.Helper()
	record, err := snapshot.Moment{VM: testVM(), Hardware: &hardware.Spec}.Record()
	if err != nil {
		t.Fatal(err)
	}
	name, err := StoreRecord(t.Context(), cluster.Live, "team", record)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestApply: a VM gets the hardware of a revision, whatever it had, and a second call changes nothing.
func TestApply(t *testing.T) {
	for why, before := range map[string][]client.Object{
		"it has none":     nil,
		"it has the same": {hardwareOf("pc-q35-9.2", true)},
		"it has another":  {hardwareOf("pc-q35-7.2", true)},
		"it has a stale one": {func() client.Object {
			h := hardwareOf("pc-q35-7.2", true)
			h.Spec.Identity, h.Status.VirtualMachineUID = "x", "x"
			return h
		}()},
	} {
		cluster, _ := fakecluster.New(t, before...)
		revision := storeRecord(t, cluster, hardwareOf("pc-q35-9.2", false))
		writer := Writer{Cluster: cluster}
		_, mistakes, err := writer.ApplyRevision(t.Context(), testVM(), revision)
		if err != nil || len(mistakes) > 0 {
			t.Errorf("%s: %v %v", why, mistakes, err)
		}
		now, err := ownership.ReadHardware(t.Context(), cluster.Live, client.ObjectKeyFromObject(testVM()))
		if err != nil || now == nil || !cmp.Equal(now.Spec, hardwareOf("pc-q35-9.2", false).Spec) {
			t.Errorf("%s: %+v %v", why, now, err)
		}
		if written, _, err := writer.ApplyRevision(t.Context(), testVM(), revision); written || err != nil {
			t.Errorf("%s: the second call writes %t, %v", why, written, err)
		}
	}
	cluster, _ := fakecluster.New(t)
	if written, mistakes, err := (Writer{Cluster: cluster}).ApplyRevision(t.Context(), testVM(), "gone"); written || len(mistakes) != 1 || err != nil {
		t.Errorf("a revision that is gone: written %t, %v, %v", written, mistakes, err)
	}
}

// TestDeleteUnused: a restore deletes only the GuestHardware that it wrote itself, and that no guest has had.
func TestDeleteUnused(t *testing.T) {
	restore := &api.VirtualMachineRestore{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r", UID: "r-1"},
		Spec: api.VirtualMachineRestoreSpec{Target: corev1.TypedLocalObjectReference{Kind: "VirtualMachine", Name: "web"}}}
	for why, test := range map[string]struct {
		mark     string
		assigned bool
		deleted  bool
	}{
		"its own":                   {snapshot.MarkOf(restore), false, true},
		"its own, which a VM has":   {snapshot.MarkOf(restore), true, false},
		"another restore's":         {"other-r-2", false, false},
		"not written by a restore":  {"", false, false},
		"an earlier VM's, assigned": {"", true, false},
	} {
		hardware := hardwareOf("pc-q35-9.2", test.assigned)
		hardware.Annotations = map[string]string{snapshot.Mark: test.mark}
		cluster, _ := fakecluster.New(t, hardware)
		if err := (Writer{Cluster: cluster}).DeleteUnused(t.Context(), restore); err != nil {
			t.Fatal(err)
		}
		if now, err := ownership.ReadHardware(t.Context(), cluster.Live, client.ObjectKeyFromObject(hardware)); err != nil || (now == nil) != test.deleted {
			t.Errorf("%s: %+v %v", why, now, err)
		}
	}
}
