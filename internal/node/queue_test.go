package node

import (
	"testing"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestEventsQueueVMIs: an event queues only the VMI of its domain; a new stream of events queues all VMIs of this node.
func TestEventsQueueVMIs(t *testing.T) {
	t.Parallel()
	here, there := claimedVMI(t, "here"), claimedVMI(t, "there")
	there.Status.NodeName = "there"
	n, libvirt := newFakeNode(t, newClusterWithHardware(t, here, there))
	n.connected = make(chan struct{}, 1)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	if err := n.queueChanges(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ domain, want string }{
		{"shop_web", "shop/web"}, {"", "default/here"}, {"an-administrators", ""}, {"of_an_administrator", ""}, {"shop_db", "shop/db"},
	} {
		libvirt.events <- hypervisor.Event{Domain: c.domain}
		if c.want == "" {
			continue // the next one would not be the first in the queue
		}
		request, _ := queue.Get()
		queue.Done(request)
		if request.String() != c.want || queue.Len() > 0 {
			t.Errorf("domain '%s' queues '%s' and %d others, want '%s'", c.domain, request, queue.Len(), c.want)
		}
	}
	if len(n.connected) != 1 {
		t.Error("the machine's capabilities are not read again")
	}
}
