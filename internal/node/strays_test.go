package node

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/kilnvm/kiln/internal/hypervisor"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestStrayAction: a domain is ended only if the API server itself reports that its VMI is gone or on another node.
func TestStrayAction(t *testing.T) {
	t.Parallel()
	vmi := claimedVMI(t, "guest")
	other := vmi.DeepCopy()
	other.UID = "99999999-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	moved := vmi.DeepCopy()
	moved.Status.NodeName = "there"
	unclaimed := vmi.DeepCopy()
	unclaimed.Status.NodeName = ""
	resource := schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachineinstances"}
	fails := func(err error) client.Client {
		return interceptor.NewClient(newClusterWithHardware(t).(client.WithWatch), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return err
			}})
	}
	for _, c := range []struct {
		why  string
		live client.Client
		node string
		of   types.UID // the cluster
		want strayAction
	}{
		{"it is here", newClusterWithHardware(t, vmi), "here", "ours", keepStray},
		{"it is gone", newClusterWithHardware(t), "here", "ours", shutDownStray},
		{"another has its name", newClusterWithHardware(t, other), "here", "ours", shutDownStray},
		{"another node has claimed it", newClusterWithHardware(t, moved), "here", "ours", removeStray},
		{"nobody has claimed it", newClusterWithHardware(t, unclaimed), "here", "ours", keepStray},
		{"a launcher of another name has made it", newClusterWithHardware(t), "there", "ours", keepStray},
		{"a launcher of another cluster has made it", newClusterWithHardware(t), "here", "theirs", keepStray},
		{"somebody has marked it by hand", newClusterWithHardware(t), "here", "", keepStray},
		{"no answer", fails(errors.New("connection refused")), "here", "ours", keepStray},
		{"no right", fails(apierrors.NewForbidden(resource, "guest", errors.New("no"))), "here", "ours", keepStray},
		{"too busy", fails(apierrors.NewTooManyRequests("later", 1)), "here", "ours", keepStray},
		{"the kind itself is not served, as while a cluster starts",
			fails(apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "guest", "404 page not found", 0, true)), "here", "ours", keepStray},
	} {
		n := &Node{Name: "here", Cluster: "ours", Live: c.live}
		owner := n.owner(vmi)
		owner.Node, owner.Cluster = c.node, c.of
		if got, err := n.strayAction(t.Context(), owner); got != c.want || err != nil && got != keepStray {
			t.Errorf("%s: action %d, %v; want %d", c.why, got, err, c.want)
		}
	}
}

// TestStrayOfAnotherNode: the domain of a VMI that another node has claimed is removed at once, with its files. The domain of a VMI that cannot be looked up is
// kept.
func TestStrayOfAnotherNode(t *testing.T) {
	t.Parallel()
	l := startLibvirt(t)
	stray, stays := claimedVMI(t, "stray"), claimedVMI(t, "stays")
	stays.UID, stays.Spec.Domain.Firmware.UUID = "99999999-6d2a-4c7b-9a43-8f3e1d2c7b6a", "99999999-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	api := newClusterWithHardware(t, stray, stays)
	n := newNode(t, l, api, api)
	for _, vmi := range []*v1.VirtualMachineInstance{stray, stays} {
		if after := reconcileRepeatedly(t, n, vmi); after.Status.Phase != v1.Running {
			t.Fatalf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
		}
	}
	moved := stray.DeepCopy()
	moved.Status.NodeName = "there"
	n.Live = interceptor.NewClient(newClusterWithHardware(t, moved).(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if key.Name == "stays" {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, object, options...)
		}})
	n.endStrays(t.Context())
	for vmi, want := range map[*v1.VirtualMachineInstance]hypervisor.State{stray: hypervisor.Undefined, stays: hypervisor.Running} {
		if status, err := l.State(t.Context(), n.owner(vmi)); err != nil || status.State != want {
			t.Errorf("'%s' is %+v, %v; want %d", vmi.Name, status, err, want)
		}
	}
}
