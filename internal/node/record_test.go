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

// TestRecordThatDoesNotFit: a guest that cannot be recorded does not start, and says why and what mends it.
func TestRecordThatDoesNotFit(t *testing.T) {
	tooLong := field.ErrorList{field.TooLong(field.NewPath("spec", "hardware"), "", 256<<10)}
	for why, refusal := range map[string]error{
		"more than a record may have":       apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("GuestHardware").GroupKind(), "large", tooLong),
		"a request that is too large":       apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"an object that etcd does not take": apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		t.Run(why, func(t *testing.T) {
			vmi := claimed(t, "large")
			cluster := holding(t, vmi)
			refusing := interceptor.NewClient(cluster.(client.WithWatch), interceptor.Funcs{
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return refusal },
			})
			n := node(t, daemon(t), refusing, cluster)
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
			if !reported || after.Status.Phase != v1.Scheduled || recorded(t, cluster, "large") != nil {
				t.Errorf("phase '%s', conditions %+v", after.Status.Phase, after.Status.Conditions)
			}
		})
	}
}

// TestGuestWaitsForItsHardware: a guest starts once the controller has given it its hardware, and not with that of another.
func TestGuestWaitsForItsHardware(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(*v1alpha1.GuestHardware){
		"without a VMI":           func(h *v1alpha1.GuestHardware) { h.Status.Guest = nil },
		"of a guest before it":    func(h *v1alpha1.GuestHardware) { h.Status.Guest.UID = "before" },
		"of a guest of elsewhere": func(h *v1alpha1.GuestHardware) { h.Status.Guest.NodeName = "there" },
		"of another name":         func(h *v1alpha1.GuestHardware) { h.Name = "other" },
	} {
		t.Run(why, func(t *testing.T) {
			vmi := claimed(t, "waits")
			other := prepared(vmi)
			change(other)
			cluster := holdingOnly(t, vmi, other)
			n, libvirt := faked(t, cluster)
			after := run(t, n, vmi)
			if len(libvirt.calls) > 0 || recorded(t, cluster, other.Name) != nil {
				t.Errorf("the guest was started or recorded: %q", libvirt.calls)
			}
			// It was claimed longer than retryInterval ago.
			if len(after.Status.Conditions) == 0 || after.Status.Conditions[0].Reason != v1alpha1.ReasonHardwareAwaited {
				t.Errorf("conditions %+v", after.Status.Conditions)
			}
		})
	}
}

// TestRecordedHardwareIsFound: a guest finds what is on record, unless its owner wants the latest; and it starts with no record that no boot can have
// written.
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
			vmi := claimed(t, "again")
			vmi.Annotations = map[string]string{v1alpha1.AnnotationHardware: c.hardware}
			hardware := prepared(vmi)
			hardware.Spec.Hardware = &c.record
			cluster := holdingOnly(t, vmi, hardware)
			n, libvirt := faked(t, cluster)
			after := run(t, n, vmi)
			if c.reason != "" {
				if len(libvirt.calls) > 0 || len(after.Status.Conditions) == 0 || after.Status.Conditions[0].Reason != c.reason {
					t.Errorf("phase '%s', conditions %+v", after.Status.Phase, after.Status.Conditions)
				}
				return
			}
			if now := recorded(t, cluster, "again"); len(libvirt.calls) != 1 || now.Video != c.video || now.Digest == "" {
				t.Errorf("after %q recorded %+v; conditions %v", libvirt.calls, now, after.Status.Conditions)
			}
		})
	}
}

// TestConditionsAreBounded: whatever an error says, the status can be written.
func TestConditionsAreBounded(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{}
	condition.SetSynchronized(vmi, "False", condition.Cause{Reason: v1alpha1.ReasonNotBindable, Message: strings.Repeat("ü", 1<<20)})
	if got := vmi.Status.Conditions[0].Message; len(got) > 4<<10 || !strings.HasSuffix(got, " bytes more") {
		t.Errorf("a message of %d bytes", len(got))
	}
}
