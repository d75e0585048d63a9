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

// claimedVMI returns an explicit VMI without disks that node "here" has claimed.
func claimedVMI(t *testing.T, name string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := explicit.Plain(t, name)
	vmi.Finalizers = []string{v1.VirtualMachineInstanceFinalizer}
	vmi.Status.NodeName, vmi.Status.Phase = "here", v1.Scheduled
	return vmi
}

// hardwareFor returns the GuestHardware that the controller has assigned to a claimed VMI.
func hardwareFor(vmi client.Object) *v1alpha1.GuestHardware {
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Name: vmi.GetName(), Namespace: vmi.GetNamespace(), UID: "gh"}}
	hardware.Status.Guest = &v1alpha1.HardwareUser{UID: vmi.GetUID(), NodeName: "here"}
	return hardware
}

// hardwareRecord returns the hardware record of the named VMI.
func hardwareRecord(t *testing.T, cluster client.Reader, name string) *v1alpha1.HardwareRecord {
	t.Helper()
	found := &v1alpha1.GuestHardware{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, found); err != nil {
		t.Fatal(err)
	}
	return found.Spec.Hardware
}

// newClusterWithHardware returns a cluster with the objects, and with a GuestHardware for each VMI among them.
func newClusterWithHardware(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	for _, object := range objects {
		if _, guest := object.(*v1.VirtualMachineInstance); guest {
			objects = append(objects, hardwareFor(object))
		}
	}
	return newCluster(t, objects...)
}

// newCluster returns a cluster with the objects only.
func newCluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(&v1.VirtualMachineInstance{}, &v1alpha1.GuestHardware{}).Build()
}

// startLibvirt starts a libvirt for the test, and returns a connection to it.
func startLibvirt(t *testing.T) *hypervisor.Libvirt {
	t.Helper()
	return connectLibvirt(t, libvirt.Start(t))
}

func connectLibvirt(t *testing.T, daemon *libvirt.Daemon) *hypervisor.Libvirt {
	t.Helper()
	l := hypervisor.New(daemon.Socket)
	t.Cleanup(l.Close)
	return l
}

// newNode returns a node with a real libvirt. cached is the node's cache, and live the API server.
func newNode(t *testing.T, daemon *hypervisor.Libvirt, cached, live client.Client) *Node {
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
	n.learnedFacts.Store(&facts)
	return n
}

// reconcileRepeatedly reconciles as often as a start needs, and returns the VMI afterwards.
func reconcileRepeatedly(t *testing.T, n *Node, vmi *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
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
	vmi := claimedVMI(t, "starts")
	profile := &v1alpha1.HostProfile{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
	profile.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}}
	profile.Spec.Lifecycle = &v1alpha1.LifecyclePolicy{OnCrash: "Preserve"}
	cluster := newClusterWithHardware(t, vmi, profile)
	n := newNode(t, startLibvirt(t), cluster, cluster)
	n.learnedFacts.Load().Labels = map[string]string{"rack": "1"}
	after := reconcileRepeatedly(t, n, vmi)
	if hardware := hardwareRecord(t, cluster, "starts"); after.Status.Phase != v1.Running || hardware == nil || hardware.Digest == "" {
		t.Errorf("phase is '%s' (%v), recorded %+v", after.Status.Phase, after.Status.Conditions, hardware)
	}
	if status, err := n.Hypervisor.State(t.Context(), n.owner(vmi)); err != nil || status.State != hypervisor.Running {
		t.Errorf("status is %+v, %v", status, err)
	}
	if runs := guestHardware(t, cluster, vmi).Status.Running; runs == nil || runs.Digest != hardwareRecord(t, cluster, "starts").Digest {
		t.Errorf("libvirt runs %+v, and the record is %+v", runs, hardwareRecord(t, cluster, "starts"))
	}
	if active := activeDomain(t, n, "default_starts"); active.OnCrash != "preserve" {
		t.Errorf("on_crash is '%s', the profile of this host says 'preserve'", active.OnCrash)
	}
}

// activeDomain returns the XML of a running domain.
func activeDomain(t *testing.T, n *Node, name string) (running libvirtxml.Domain) {
	t.Helper()
	document, err := n.Hypervisor.(*hypervisor.Libvirt).ActiveDomain(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return *document
}

// TestDedicatedCPUs: two guests never share a CPU, and a third guest waits until a CPU is free.
func TestDedicatedCPUs(t *testing.T) {
	t.Parallel()
	var guests []client.Object
	for _, name := range []string{"first", "second", "third"} {
		vmi := claimedVMI(t, name)
		vmi.Spec.Domain.CPU.DedicatedCPUPlacement = true
		vmi.Spec.Domain.Firmware.UUID = types.UID("5d307ca9-b3ef-428c-8861-06e72d69f22" + fmt.Sprint(len(guests)))
		vmi.UID = vmi.Spec.Domain.Firmware.UUID
		guests = append(guests, vmi)
	}
	cluster := newClusterWithHardware(t, guests...)
	n := newNode(t, startLibvirt(t), cluster, cluster)
	var two []backend.CPU
	for _, node := range n.learnedFacts.Load().NUMA {
		two = append(two, node.CPUs...)
	}
	if len(two) < 2 {
		t.Skip("two guests cannot have CPUs of their own on a machine with one")
	}
	n.learnedFacts.Load().NUMA = []backend.NUMANode{{CPUs: two[:2]}}
	taken := cpuset.New()
	for i, guest := range guests {
		after := reconcileRepeatedly(t, n, guest.(*v1.VirtualMachineInstance))
		if i == 2 {
			if len(after.Status.Conditions) == 0 || !strings.Contains(after.Status.Conditions[0].Message, "has 0 for it") {
				t.Errorf("the third guest's conditions are %v", after.Status.Conditions)
			}
			continue
		}
		if after.Status.Phase != v1.Running {
			t.Fatalf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
		}
		own := hypervisor.Pins(activeDomain(t, n, "default_"+guest.GetName()).CPUTune)
		if own.Size() != 1 || !own.Intersection(taken).IsEmpty() {
			t.Errorf("guest %d runs on '%s', others on '%s'", i, own, taken)
		}
		taken = taken.Union(own)
	}
	if err := n.Hypervisor.Remove(t.Context(), n.owner(guests[0].(*v1.VirtualMachineInstance))); err != nil {
		t.Fatal(err)
	}
	if after := reconcileRepeatedly(t, n, guests[2].(*v1.VirtualMachineInstance)); after.Status.Phase != v1.Running {
		t.Errorf("the third guest is '%s' though a CPU is free: %v", after.Status.Phase, after.Status.Conditions)
	}
}

// TestDeletedGuestIsNotStarted: a VMI is not started if it is deleted in the cache or only in the API server, if it is gone, or if another machine has it.
func TestDeletedGuestIsNotStarted(t *testing.T) {
	t.Parallel()
	deleted := claimedVMI(t, "deleted")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	moved := claimedVMI(t, "deleted")
	moved.Status.NodeName = "there"
	again := claimedVMI(t, "deleted")
	shared := startLibvirt(t)
	again.UID = "00000000-0000-4000-8000-000000000000"
	for why, c := range map[string]struct{ cached, live client.Client }{
		"the cache knows":                   {newClusterWithHardware(t, deleted), newClusterWithHardware(t, deleted)},
		"only the API server knows":         {newClusterWithHardware(t, claimedVMI(t, "deleted")), newClusterWithHardware(t, deleted)},
		"it is gone":                        {newClusterWithHardware(t, claimedVMI(t, "deleted")), newCluster(t, hardwareFor(claimedVMI(t, "deleted")))},
		"another has its name":              {newClusterWithHardware(t, claimedVMI(t, "deleted")), newCluster(t, again, hardwareFor(claimedVMI(t, "deleted")))},
		"another machine has claimed it":    {newClusterWithHardware(t, claimedVMI(t, "deleted")), newClusterWithHardware(t, moved)},
		"another machine, and it is cached": {newClusterWithHardware(t, moved), newClusterWithHardware(t, moved)},
	} {
		t.Run(why, func(t *testing.T) {
			n := newNode(t, shared, c.cached, c.live)
			after := reconcileRepeatedly(t, n, claimedVMI(t, "deleted"))
			if status, err := n.Hypervisor.State(t.Context(), n.owner(claimedVMI(t, "deleted"))); err != nil || status.State != hypervisor.Undefined {
				t.Errorf("status is %+v, %v; libvirt must not know it", status, err)
			}
			if after.DeletionTimestamp.IsZero() && len(after.Status.Conditions) > 0 {
				t.Errorf("conditions are %v", after.Status.Conditions)
			}
		})
	}
}
