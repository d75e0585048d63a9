package vmlock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/test/fakecluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var key = types.NamespacedName{Namespace: "team", Name: "web"}

// lockedVM returns a VM that a snapshot and a restore have locked; the names are nil if they have not. It has the finalizer.
func lockedVM(snapshot, restore *string) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "vm-1", Finalizers: []string{Finalizer}}}
	vm.Status.SnapshotInProgress, vm.Status.RestoreInProgress = snapshot, restore
	return vm
}

func isUnlocked(vm *v1.VirtualMachine) bool {
	return vm.Status.SnapshotInProgress == nil && vm.Status.RestoreInProgress == nil && len(vm.Finalizers) == 0
}

// thaws is a guest agent that counts how often it is asked to thaw.
type thaws int

func (*thaws) Freeze(context.Context, types.NamespacedName, time.Duration) error {
	return errors.New("an orphan is not frozen")
}

func (t *thaws) Thaw(context.Context, types.NamespacedName) error {
	*t++
	return nil
}

func newOrphanReconciler(cluster *operation.Cluster, agent quiesce.Agent) *OrphanReconciler {
	quiescer := &quiesce.Quiescer{Cluster: cluster, Agent: agent, Requests: quiesce.NewRequests()}
	quiescer.Requests.Go = func(work func()) { work() }
	locker := &Locker{Cluster: cluster, Hardware: hardware.Writer{Cluster: cluster}}
	return &OrphanReconciler{Locker: locker, Cache: cluster.Live, Quiescer: quiescer}
}

// TestOrphansAreUnlocked: a VM is unlocked if its snapshot or restore does not exist or is about another VM, and stays locked otherwise.
func TestOrphansAreUnlocked(t *testing.T) {
	snapshotOf := func(vm string) client.Object {
		return &api.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"}, Spec: api.VirtualMachineSnapshotSpec{
			Source: corev1.TypedLocalObjectReference{Kind: "VirtualMachine", Name: vm}}}
	}
	restoreOf := func(vm string) client.Object {
		return &api.VirtualMachineRestore{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r"}, Spec: api.VirtualMachineRestoreSpec{
			Target: corev1.TypedLocalObjectReference{Kind: "VirtualMachine", Name: vm}}}
	}
	for why, test := range map[string]struct {
		snapshot, restore *string
		exist             []client.Object
		unlocked          bool
	}{
		"both are gone":                       {ptr.To("s"), ptr.To("r"), nil, true},
		"the finalizer of an earlier release": {nil, nil, nil, true},
		"a snapshot of another VM":            {ptr.To("s"), nil, []client.Object{snapshotOf("other")}, true},
		"a restore of another VM":             {nil, ptr.To("r"), []client.Object{restoreOf("other")}, true},
		"the snapshot is in progress":         {ptr.To("s"), nil, []client.Object{snapshotOf("web")}, false},
		"the restore is in progress":          {ptr.To("s"), ptr.To("r"), []client.Object{restoreOf("web"), snapshotOf("web")}, false},
	} {
		vm := lockedVM(test.snapshot, test.restore)
		if !IsLocked(vm) {
			t.Errorf("%s: the VM is not reconciled", why)
		}
		cluster, _ := fakecluster.New(t, append(test.exist, vm)...)
		r := newOrphanReconciler(cluster, nil)
		for range 2 {
			if _, err := r.Reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		now := &v1.VirtualMachine{}
		if err := cluster.Live.Get(t.Context(), key, now); err != nil || isUnlocked(now) != test.unlocked {
			t.Errorf("%s: %+v %v, %v", why, now.Status, now.Finalizers, err)
		}
	}
}

// TestAnOrphanIsThawedFirst: a VM whose guest could not be asked to thaw stays locked, and the next reconcile asks again. An unlocked VM is not reconciled
// any more, so that its guest would stay frozen.
func TestAnOrphanIsThawedFirst(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	vmi.Status.Phase = v1.Running
	vmi.Status.Conditions = []v1.VirtualMachineInstanceCondition{{Type: v1.VirtualMachineInstanceAgentConnected, Status: corev1.ConditionTrue}}
	cluster, _ := fakecluster.New(t, lockedVM(ptr.To("s"), nil), vmi)
	stored, asked := cluster.Live, thaws(0)
	r := newOrphanReconciler(cluster, &asked)
	unreachable := errors.New("the API server is away for a moment")
	cluster.Live = interceptor.NewClient(stored.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, at client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, guest := object.(*v1.VirtualMachineInstance); guest {
				return unreachable
			}
			return to.Get(ctx, at, object, options...)
		},
	})
	vm := &v1.VirtualMachine{}
	if _, err := r.Reconcile(t.Context(), key); !errors.Is(err, unreachable) {
		t.Errorf("got %v, want the error about the guest", err)
	}
	if err := stored.Get(t.Context(), key, vm); err != nil || vm.Status.SnapshotInProgress == nil || !slices.Equal(vm.Finalizers, []string{Finalizer}) {
		t.Fatalf("the VM is unlocked, and its guest was not asked to thaw: %+v %v, %v", vm.Status, vm.Finalizers, err)
	}
	cluster.Live = stored
	if _, err := r.Reconcile(t.Context(), key); err != nil || asked != 1 {
		t.Fatalf("the guest was asked to thaw %d times, %v", asked, err)
	}
	if err := stored.Get(t.Context(), key, vm); err != nil || !isUnlocked(vm) {
		t.Errorf("the VM stays locked: %+v %v, %v", vm.Status, vm.Finalizers, err)
	}
}
