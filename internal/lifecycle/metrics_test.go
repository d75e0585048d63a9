package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newStore returns a store of objects, such as an informer has.
func newStore(t *testing.T, objects ...client.Object) toolscache.Store {
	t.Helper()
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for i, object := range objects {
		object.SetNamespace("team")
		object.SetName(fmt.Sprint("a", i))
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func vmWithStatus(status v1.VirtualMachinePrintableStatus) *v1.VirtualMachine {
	return &v1.VirtualMachine{Status: v1.VirtualMachineStatus{PrintableStatus: status}}
}

// TestCounts: the labels of the metrics are closed sets, whatever a status contains.
func TestCounts(t *testing.T) {
	old := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "old", CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))}}
	young := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "young", CreationTimestamp: metav1.NewTime(time.Unix(2000, 0))}}
	counts := &Counts{unpinned: &unpinnedVMs{}}
	if n := testutil.CollectAndCount(counts); n != 0 {
		t.Errorf("a replica that does not lead shows %d series", n)
	}
	counts.unpinned.add(young)
	counts.unpinned.add(old)
	marked := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationUnusedSince: "x"}}}
	counts.stores.Store(&informerStores{
		vms: newStore(t, vmWithStatus(""), vmWithStatus(v1.VirtualMachineStatusRunning), vmWithStatus(v1.VirtualMachineStatusRunning),
			vmWithStatus("Evil\n1"), vmWithStatus("Evil2")),
		vmis:    newStore(t, &v1.VirtualMachineInstance{}, &v1.VirtualMachineInstance{Status: v1.VirtualMachineInstanceStatus{Phase: "Evil"}}),
		records: newStore(t, &v1alpha1.GuestHardware{}), revisions: newStore(t, &appsv1.ControllerRevision{}, marked),
	})
	if n := testutil.CollectAndCount(counts); n != len(statuses)+len(phases)+5 {
		t.Errorf("%d series, want one for each label value and no other", n)
	}
	if n, created := counts.unpinned.oldest(); n != 2 || created.Unix() != 1000 {
		t.Errorf("%d VMs wait, the oldest since %s", n, created)
	}
	if byUse := countByValue(counts.stores.Load().revisions, []string{"used", "marked"}, revisionUse); byUse["used"] != 1 || byUse["marked"] != 1 {
		t.Errorf("%v", byUse)
	}
	byStatus := countByValue(counts.stores.Load().vms, statuses, printableStatusOf)
	if byStatus["Stopped"] != 1 || byStatus["Running"] != 2 || byStatus[otherValue] != 2 {
		t.Errorf("%v", byStatus)
	}
	if byPhase := countByValue(counts.stores.Load().vmis, phases, phaseOf); byPhase["Pending"] != 1 || byPhase[otherValue] != 1 {
		t.Errorf("%v", byPhase)
	}
}

// BenchmarkCounts is one scrape of 10,000 VMs. The figure to read is B/op: no object is copied.
func BenchmarkCounts(b *testing.B) {
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for i := range 10_000 {
		vm := vmWithStatus(v1.VirtualMachineStatusRunning)
		vm.Name = fmt.Sprint(i)
		if err := store.Add(vm); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		countByValue(store, statuses, printableStatusOf)
	}
}
