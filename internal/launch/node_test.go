package launch

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pipeline"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// claimed is an explicit guest without disks that a node has claimed.
func claimed(t *testing.T, name string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = name, "default", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	vmi.Finalizers = []string{v1.VirtualMachineInstanceFinalizer}
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.CPU = &v1.CPU{Cores: 1, Model: "qemu64"}
	memory := resource.MustParse("64Mi")
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory, MaxGuest: &memory}
	explicit, verdict := pipeline.ExplicitVMI(vmi, pipeline.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	explicit.Spec.Domain.Devices.Interfaces, explicit.Spec.Networks = nil, nil
	explicit.Status.NodeName, explicit.Status.Phase = "here", v1.Scheduled
	return explicit
}

func holding(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(&v1.VirtualMachineInstance{}).Build()
}

// daemon is a connection to a libvirt of the test's own.
func daemon(t *testing.T) *Libvirt {
	t.Helper()
	connection, err := Connect(libvirt.Start(t).Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() }) // the daemon may have ended before
	return connection
}

// node runs guests. cached is what it has read, live what the API server has.
func node(t *testing.T, daemon *Libvirt, cached, live client.Client) *Node {
	t.Helper()
	facts, err := daemon.Capabilities("here", KVMNever)
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.MkdirTemp("", "kiln-launch-") // sockets want a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	return &Node{Client: cached, Live: live, Name: "here", Libvirt: daemon, Configuration: &resolve.Configuration{},
		Host: &Host{Capabilities: facts, State: state}}
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
	cluster := holding(t, vmi)
	n := node(t, daemon(t), cluster, cluster)
	after := run(t, n, vmi)
	if after.Status.Phase != v1.Running || after.Annotations[pipeline.AnnotationFrontend] == "" {
		t.Errorf("phase is '%s' (%v), recorded '%s'", after.Status.Phase, after.Status.Conditions, after.Annotations[pipeline.AnnotationFrontend])
	}
	if state, err := n.Libvirt.State("default_starts"); err != nil || state != Active {
		t.Errorf("state is %d, %v", state, err)
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
		"it is gone":                        {holding(t, claimed(t, "deleted")), holding(t)},
		"another has its name":              {holding(t, claimed(t, "deleted")), holding(t, again)},
		"another machine has claimed it":    {holding(t, claimed(t, "deleted")), holding(t, moved)},
		"another machine, and it is cached": {holding(t, moved), holding(t, moved)},
	} {
		t.Run(why, func(t *testing.T) {
			n := node(t, shared, c.cached, c.live)
			after := run(t, n, claimed(t, "deleted"))
			if state, err := n.Libvirt.State("default_deleted"); err != nil || state != Undefined {
				t.Errorf("state is %d, %v; libvirt must not know it", state, err)
			}
			if len(after.Status.Conditions) > 0 {
				t.Errorf("conditions are %v", after.Status.Conditions)
			}
		})
	}
}
