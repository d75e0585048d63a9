package node

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// claimed is an explicit guest without disks that a node has claimed.
func claimed(t *testing.T, name string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := explicit.Plain(t, name)
	vmi.Finalizers = []string{v1.VirtualMachineInstanceFinalizer}
	vmi.Status.NodeName, vmi.Status.Phase = "here", v1.Scheduled
	return vmi
}

// prepared is the GuestHardware of a claimed guest, to which the controller has given it.
func prepared(vmi client.Object) *v1alpha1.GuestHardware {
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Name: vmi.GetName(), Namespace: vmi.GetNamespace(), UID: "gh"}}
	hardware.Status.Guest = &v1alpha1.HardwareUser{UID: vmi.GetUID(), NodeName: "here"}
	return hardware
}

// recorded is what the guest found at its last boot.
func recorded(t *testing.T, cluster client.Reader, name string) *v1alpha1.HardwareRecord {
	t.Helper()
	found := &v1alpha1.GuestHardware{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, found); err != nil {
		t.Fatal(err)
	}
	return found.Spec.Hardware
}

// holding has the hardware of each guest besides it.
func holding(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	for _, object := range objects {
		if _, guest := object.(*v1.VirtualMachineInstance); guest {
			objects = append(objects, prepared(object))
		}
	}
	return holdingOnly(t, objects...)
}

func holdingOnly(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(&v1.VirtualMachineInstance{}, &v1alpha1.GuestHardware{}).Build()
}

// daemon is a connection to a libvirt of the test's own.
func daemon(t *testing.T) *hypervisor.Libvirt {
	t.Helper()
	return connected(t, libvirt.Start(t))
}

func connected(t *testing.T, daemon *libvirt.Daemon) *hypervisor.Libvirt {
	t.Helper()
	l := hypervisor.New(daemon.Socket)
	t.Cleanup(l.Close)
	return l
}

// node runs guests. cached is what it has read, live what the API server has.
func node(t *testing.T, daemon *hypervisor.Libvirt, cached, live client.Client) *Node {
	t.Helper()
	facts, err := daemon.Capabilities(t.Context(), "here", hypervisor.KVMNever)
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.MkdirTemp("", "kiln-launch-") // sockets want a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	n := &Node{Client: cached, Live: live, Events: events.NewFakeRecorder(100), Name: "here", Hypervisor: daemon, Configuration: &clusterconfig.Watcher{},
		Machine: &hostresources.BareMachine{State: state}}
	n.learned.Store(&facts)
	return n
}

// run reconciles until nothing asks to be called at once.
func run(t *testing.T, n *Node, vmi *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	t.Helper()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)}
	for range 3 { // the finalizer, the record and the start are one call each
		if _, err := n.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	after := &v1.VirtualMachineInstance{}
	if err := n.Get(t.Context(), request.NamespacedName, after); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return after
}

func TestGuestStarts(t *testing.T) {
	t.Parallel()
	vmi := claimed(t, "starts")
	profile := &v1alpha1.HostProfile{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
	profile.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}}
	profile.Spec.Lifecycle = &v1alpha1.LifecyclePolicy{OnCrash: "Preserve"}
	cluster := holding(t, vmi, profile)
	n := node(t, daemon(t), cluster, cluster)
	n.learned.Load().Labels = map[string]string{"rack": "1"}
	after := run(t, n, vmi)
	if hardware := recorded(t, cluster, "starts"); after.Status.Phase != v1.Running || hardware == nil || hardware.Digest == "" {
		t.Errorf("phase is '%s' (%v), recorded %+v", after.Status.Phase, after.Status.Conditions, hardware)
	}
	if status, err := n.Hypervisor.State(t.Context(), n.owner(vmi)); err != nil || status.State != hypervisor.Running {
		t.Errorf("status is %+v, %v", status, err)
	}
	if runs := hardwareObject(t, cluster, vmi).Status.Running; runs == nil || runs.Digest != recorded(t, cluster, "starts").Digest {
		t.Errorf("libvirt runs %+v, and the record is %+v", runs, recorded(t, cluster, "starts"))
	}
	if active := active(t, n, "default_starts"); active.OnCrash != "preserve" {
		t.Errorf("on_crash is '%s', the profile of this host says 'preserve'", active.OnCrash)
	}
}

// active is what libvirt runs.
func active(t *testing.T, n *Node, name string) (running libvirtxml.Domain) {
	t.Helper()
	document, err := n.Hypervisor.(*hypervisor.Libvirt).ActiveDomain(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return *document
}

// TestDedicatedCPUs: two guests never have one CPU, and the third waits until one is free.
func TestDedicatedCPUs(t *testing.T) {
	t.Parallel()
	var guests []client.Object
	for _, name := range []string{"first", "second", "third"} {
		vmi := claimed(t, name)
		vmi.Spec.Domain.CPU.DedicatedCPUPlacement = true
		vmi.Spec.Domain.Firmware.UUID = types.UID("5d307ca9-b3ef-428c-8861-06e72d69f22" + fmt.Sprint(len(guests)))
		vmi.UID = vmi.Spec.Domain.Firmware.UUID
		guests = append(guests, vmi)
	}
	cluster := holding(t, guests...)
	n := node(t, daemon(t), cluster, cluster)
	var two []backend.CPU
	for _, node := range n.learned.Load().NUMA {
		two = append(two, node.CPUs...)
	}
	if len(two) < 2 {
		t.Skip("two guests cannot have CPUs of their own on a machine with one")
	}
	n.learned.Load().NUMA = []backend.NUMANode{{CPUs: two[:2]}}
	taken := cpuset.New()
	for i, guest := range guests {
		after := run(t, n, guest.(*v1.VirtualMachineInstance))
		if i == 2 {
			if len(after.Status.Conditions) == 0 || !strings.Contains(after.Status.Conditions[0].Message, "has 0 for it") {
				t.Errorf("the third guest's conditions are %v", after.Status.Conditions)
			}
			continue
		}
		if after.Status.Phase != v1.Running {
			t.Fatalf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
		}
		own := hypervisor.Pins(active(t, n, "default_"+guest.GetName()).CPUTune)
		if own.Size() != 1 || !own.Intersection(taken).IsEmpty() {
			t.Errorf("guest %d runs on '%s', others on '%s'", i, own, taken)
		}
		taken = taken.Union(own)
	}
	if err := n.Hypervisor.Remove(t.Context(), n.owner(guests[0].(*v1.VirtualMachineInstance))); err != nil {
		t.Fatal(err)
	}
	if after := run(t, n, guests[2].(*v1.VirtualMachineInstance)); after.Status.Phase != v1.Running {
		t.Errorf("the third guest is '%s' though a CPU is free: %v", after.Status.Phase, after.Status.Conditions)
	}
}

// TestDeletedGuestIsNotStarted: neither one that the cache knows to be deleted, nor one that the API server alone knows of, nor
// one that is gone, or gone to another machine.
func TestDeletedGuestIsNotStarted(t *testing.T) {
	t.Parallel()
	deleted := claimed(t, "deleted")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	moved := claimed(t, "deleted")
	moved.Status.NodeName = "there"
	again := claimed(t, "deleted")
	shared := daemon(t)
	again.UID = "00000000-0000-4000-8000-000000000000"
	for why, c := range map[string]struct{ cached, live client.Client }{
		"the cache knows":                   {holding(t, deleted), holding(t, deleted)},
		"the API server alone knows":        {holding(t, claimed(t, "deleted")), holding(t, deleted)},
		"it is gone":                        {holding(t, claimed(t, "deleted")), holdingOnly(t, prepared(claimed(t, "deleted")))},
		"another has its name":              {holding(t, claimed(t, "deleted")), holdingOnly(t, again, prepared(claimed(t, "deleted")))},
		"another machine has claimed it":    {holding(t, claimed(t, "deleted")), holding(t, moved)},
		"another machine, and it is cached": {holding(t, moved), holding(t, moved)},
	} {
		t.Run(why, func(t *testing.T) {
			n := node(t, shared, c.cached, c.live)
			after := run(t, n, claimed(t, "deleted"))
			if status, err := n.Hypervisor.State(t.Context(), n.owner(claimed(t, "deleted"))); err != nil || status.State != hypervisor.Undefined {
				t.Errorf("status is %+v, %v; libvirt must not know it", status, err)
			}
			if after.DeletionTimestamp.IsZero() && len(after.Status.Conditions) > 0 {
				t.Errorf("conditions are %v", after.Status.Conditions)
			}
		})
	}
}
