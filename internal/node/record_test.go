package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestRecordThatDoesNotFit: a guest whose record cannot be written does not start, and its condition has the reason.
func TestRecordThatDoesNotFit(t *testing.T) {
	tooLong := field.ErrorList{field.TooLong(field.NewPath("spec", "hardware"), "", 256<<10)}
	for why, refusal := range map[string]error{
		"more than a record may have":       apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("GuestHardware").GroupKind(), "large", tooLong),
		"a request that is too large":       apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"an object that etcd does not take": apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		t.Run(why, func(t *testing.T) {
			vmi := claimedVMI(t, "large")
			cluster := newClusterWithHardware(t, vmi)
			refusing := interceptor.NewClient(cluster.(client.WithWatch), interceptor.Funcs{
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return refusal },
			})
			n := newNode(t, startLibvirt(t), refusing, cluster)
			result, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)})
			if err != nil || result.RequeueAfter != retryInterval {
				t.Errorf("%v, %v: it is not to be tried again at once", result, err)
			}
			after := &v1.VirtualMachineInstance{}
			if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(vmi), after); err != nil {
				t.Fatal(err)
			}
			reported := false
			for _, c := range after.Status.Conditions {
				reported = reported || c.Type == v1.VirtualMachineInstanceSynchronized && c.Status == "False" && c.Reason == v1alpha1.ReasonNotRecordable &&
					strings.Contains(c.Message, "GuestHardware 'large'")
			}
			if !reported || after.Status.Phase != v1.Scheduled || hardwareRecord(t, cluster, "large") != nil {
				t.Errorf("phase '%s', conditions %+v", after.Status.Phase, after.Status.Conditions)
			}
		})
	}
}

// TestGuestWaitsForItsHardware: a guest starts only when the controller has assigned it a GuestHardware, and never with the GuestHardware of another guest.
func TestGuestWaitsForItsHardware(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(*v1alpha1.GuestHardware){
		"without a VMI":           func(h *v1alpha1.GuestHardware) { h.Status.Guest = nil },
		"of a guest before it":    func(h *v1alpha1.GuestHardware) { h.Status.Guest.UID = "before" },
		"of a guest of elsewhere": func(h *v1alpha1.GuestHardware) { h.Status.Guest.NodeName = "there" },
		"of another name":         func(h *v1alpha1.GuestHardware) { h.Name = "other" },
	} {
		t.Run(why, func(t *testing.T) {
			vmi := claimedVMI(t, "waits")
			other := hardwareFor(vmi)
			change(other)
			cluster := newCluster(t, vmi, other)
			n, libvirt := newFakeNode(t, cluster)
			after := reconcileRepeatedly(t, n, vmi)
			if len(libvirt.calls) > 0 || hardwareRecord(t, cluster, other.Name) != nil {
				t.Errorf("the guest was started or recorded: %q", libvirt.calls)
			}
			// It was claimed longer than retryInterval ago.
			if len(after.Status.Conditions) == 0 || after.Status.Conditions[0].Reason != v1alpha1.ReasonHardwareAwaited {
				t.Errorf("conditions %+v", after.Status.Conditions)
			}
		})
	}
}

// TestRecordedHardwareIsFound: a guest boots with its recorded hardware, unless its owner wants the latest. A record that no boot can have written is refused.
func TestRecordedHardwareIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, hardware string
		record        v1alpha1.HardwareRecord
		video, reason string
	}{
		{"recorded", "", v1alpha1.HardwareRecord{Video: "cirrus"}, "cirrus", ""},
		{"latest", "latest", v1alpha1.HardwareRecord{Video: "cirrus"}, "vga", ""},
		{"garbage", "", v1alpha1.HardwareRecord{Video: "no model"}, "", v1alpha1.ReasonNotRenderable},
		{"latest in the place of garbage", "latest", v1alpha1.HardwareRecord{Video: "no model"}, "vga", ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			vmi := claimedVMI(t, "again")
			vmi.Annotations = map[string]string{v1alpha1.AnnotationHardware: c.hardware}
			hardware := hardwareFor(vmi)
			hardware.Spec.Hardware = &c.record
			cluster := newCluster(t, vmi, hardware)
			n, libvirt := newFakeNode(t, cluster)
			after := reconcileRepeatedly(t, n, vmi)
			if c.reason != "" {
				if len(libvirt.calls) > 0 || len(after.Status.Conditions) == 0 || after.Status.Conditions[0].Reason != c.reason {
					t.Errorf("phase '%s', conditions %+v", after.Status.Phase, after.Status.Conditions)
				}
				return
			}
			if now := hardwareRecord(t, cluster, "again"); len(libvirt.calls) != 1 || now.Video != c.video || now.Digest == "" {
				t.Errorf("after %q recorded %+v; conditions %v", libvirt.calls, now, after.Status.Conditions)
			}
		})
	}
}

// TestConditionsAreBounded: the message of a condition is cut, so that the status can be written whatever the error.
func TestConditionsAreBounded(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{}
	condition.SetSynchronized(vmi, "False", condition.Cause{Reason: v1alpha1.ReasonNotBindable, Message: strings.Repeat("ü", 1<<20)})
	if got := vmi.Status.Conditions[0].Message; len(got) > 4<<10 || !strings.HasSuffix(got, " bytes more") {
		t.Errorf("a message of %d bytes", len(got))
	}
}
