package lifecycle

import (
	"slices"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestLogOfGuests: a guest that waits or has failed is logged once for each reason, with namespace, VM, reason and message.
func TestLogOfGuests(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	step := func() {
		if _, err := c.controller.Reconcile(ctrl.LoggerInto(t.Context(), log), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		step()
	}
	if len(logged) > 0 {
		t.Errorf("of a guest that starts: %q", logged)
	}
	for _, why := range []condition.Cause{
		{Reason: v1alpha1.ReasonUnschedulable, Message: "0/1 nodes are available"}, {Reason: v1alpha1.ReasonUnschedulable, Message: "0/2 nodes are available"},
		{Reason: v1alpha1.ReasonImagePullBackOff, Message: "back-off"},
	} {
		vmi := c.vmi()
		condition.SetRefused(vmi, why)
		if err := c.Status().Update(t.Context(), vmi); err != nil {
			t.Fatal(err)
		}
		step()
		step()
	}
	line := func(reason, message string) string {
		return `"level"=0 "msg"="guest waits or has failed" "namespace"="team" "vm"="a" "reason"="` + reason + `" "message"="` + message + `"`
	}
	want := []string{line("Unschedulable", "0/1 nodes are available"), line("ImagePullBackOff", "back-off")}
	if !slices.Equal(logged, want) {
		t.Errorf("the log has\n%q, want\n%q", logged, want)
	}
}
