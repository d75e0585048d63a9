package vmipod

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What changes while a guest runs or ends: the clients that its launcher serves, and how long it may take to power off.

// adapt brings the GuestPod and the end of the pod up to date.
func (c *Controller) adapt(ctx context.Context, s seen) error {
	if s.vmi.DeletionTimestamp != nil && s.pod != nil && s.pod.DeletionTimestamp != nil && s.facts().podBelongsToVMI() {
		if given := s.pod.DeletionGracePeriodSeconds; given != nil && *given > pod.Grace(s.vmi.Spec.TerminationGracePeriodSeconds) {
			return c.stop(ctx, s) // the VMI's owner has shortened it
		}
		return nil
	}
	wanted := c.Clients.Now()
	if !s.facts().guestPodNamesPod || equality.Semantic.DeepEqual(s.guest.Spec.Clients, wanted) {
		return nil
	}
	told := s.guest.DeepCopy()
	told.Spec.Clients = wanted
	err := objects.Patch(ctx, c.Live, told, s.guest)
	if err == nil {
		c.guests.Note(told, c.Now())
	}
	return client.IgnoreNotFound(err)
}

// stop deletes the pod of a VMI. Its grace period is that of the VMI now, which may have become shorter since the pod was made; kubelet takes no longer one.
func (c *Controller) stop(ctx context.Context, s seen) error {
	uid, grace := s.pod.UID, client.GracePeriodSeconds(pod.Grace(s.vmi.Spec.TerminationGracePeriodSeconds))
	if err := client.IgnoreNotFound(c.Live.Delete(ctx, s.pod, client.Preconditions{UID: &uid}, grace)); err != nil {
		return fmt.Errorf("deleting Pod '%s': %w", s.pod.Name, err)
	}
	return nil
}
