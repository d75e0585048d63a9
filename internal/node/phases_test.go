package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestClaims: a node claims each unclaimed VMI that it can run, and does not write other VMIs.
func TestClaims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    string
		change func(*v1.VirtualMachineInstance)
		want   string
	}{
		{"nobody has claimed it", func(*v1.VirtualMachineInstance) {}, "here"},
		{"it names this machine", func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "here"}
		}, "here"},
		{"it names another machine", func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "there"}
		}, ""},
		{"this machine has no emulator for it", func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Architecture = "sparc64" }, ""},
		{"another machine has claimed it", func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.NodeName, vmi.Status.Phase = "there", v1.Scheduled
		}, "there"},
		{"it has ended", func(vmi *v1.VirtualMachineInstance) { vmi.Status.Phase = v1.Failed }, ""},
		{"it is being deleted", func(vmi *v1.VirtualMachineInstance) { vmi.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, ""},
	} {
		vmi := claimedVMI(t, "new")
		vmi.Status.NodeName, vmi.Status.Phase = "", v1.Pending
		c.change(vmi)
		n, libvirt := newFakeNode(t, newClusterWithHardware(t, vmi))
		_, after := reconcileOnce(t, n, vmi)
		claims := after.Status.Phase == v1.Scheduled && vmi.Status.Phase != v1.Scheduled
		if after.Status.NodeName != c.want || claims != (c.want == "here") {
			t.Errorf("%s: claimed by '%s' in phase '%s', want '%s'", c.why, after.Status.NodeName, after.Status.Phase, c.want)
		}
		if len(libvirt.calls) > 0 {
			t.Errorf("%s: libvirt calls are %q", c.why, libvirt.calls)
		}
	}
}

// TestPhases: the state of a domain sets the VMI's phase and conditions. Only a guest that powers off has succeeded.
func TestPhases(t *testing.T) {
	t.Parallel()
	for state, want := range map[hypervisor.State]struct {
		phase v1.VirtualMachineInstancePhase
		ready corev1.ConditionStatus
		again time.Duration
	}{
		hypervisor.Running:    {v1.Running, corev1.ConditionTrue, resyncInterval},
		hypervisor.Paused:     {v1.Running, corev1.ConditionFalse, resyncInterval},
		hypervisor.PoweredOff: {v1.Succeeded, corev1.ConditionFalse, 0},
		hypervisor.Destroyed:  {v1.Failed, corev1.ConditionFalse, 0},
		hypervisor.Failed:     {v1.Failed, corev1.ConditionFalse, 0},
		hypervisor.Inactive:   {v1.Failed, corev1.ConditionFalse, 0},
		hypervisor.Undefined:  {v1.Failed, corev1.ConditionFalse, 0},
	} {
		vmi := claimedVMI(t, "guest")
		vmi.Status.Phase = v1.Running
		n, libvirt := newFakeNode(t, newClusterWithHardware(t, vmi))
		libvirt.domains["default_guest"] = hypervisor.Status{State: state, Cause: hypervisor.Cause{Reason: "Why", Message: "for a reason"}}
		result, after := reconcileOnce(t, n, vmi)
		if after.Status.Phase != want.phase || conditionOf(after, v1.VirtualMachineInstanceReady).Status != want.ready || result.RequeueAfter != want.again {
			t.Errorf("state %d: phase '%s', conditions %+v, again after %s", state, after.Status.Phase, after.Status.Conditions, result.RequeueAfter)
		}
		if paused := conditionOf(after, v1.VirtualMachineInstancePaused).Status == corev1.ConditionTrue; paused != (state == hypervisor.Paused) {
			t.Errorf("state %d: Paused is %t", state, paused)
		}
		if len(libvirt.calls) > 0 {
			t.Errorf("state %d: libvirt calls are %q", state, libvirt.calls)
		}
		if ended := after.IsFinal(); ended != (len(n.Events.(*events.FakeRecorder).Events) == 1) {
			t.Errorf("state %d: an event of its end: %t", state, !ended)
		}
	}
}

// TestRecordBeforeStart: whichever write fails, a guest is started once, and never before its record is written.
func TestRecordBeforeStart(t *testing.T) {
	t.Parallel()
	for _, fails := range []string{"record", "status"} {
		vmi := claimedVMI(t, "guest")
		api := newClusterWithHardware(t, vmi)
		died, deaths := errors.New("the launcher has died"), 0
		dying := interceptor.NewClient(api.(client.WithWatch), interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				if fails == "record" && deaths < 2 {
					deaths++
					return died
				}
				return c.Update(ctx, object, options...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
				if fails == "status" && deaths < 2 {
					deaths++
					return died
				}
				return c.SubResource(sub).Update(ctx, object, options...)
			},
		})
		n, libvirt := newFakeNode(t, dying)
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)}
		for range 5 {
			_, err := n.Reconcile(t.Context(), request)
			if err != nil && !errors.Is(err, died) {
				t.Fatal(err)
			}
			if len(libvirt.calls) > 0 && hardwareRecord(t, api, "guest") == nil {
				t.Errorf("%s: started without a record", fails)
			}
		}
		_, after := reconcileOnce(t, n, vmi)
		if after.Status.Phase != v1.Running || !slices.Equal(libvirt.calls, []string{"start"}) || deaths != 2 {
			t.Errorf("%s: phase '%s' after %q and %d deaths", fails, after.Status.Phase, libvirt.calls, deaths)
		}
	}
}

// TestStop: a guest is asked to power off until its grace period is over. Then the domain is destroyed and removed, and at last the VMI's finalizer.
func TestStop(t *testing.T) {
	t.Parallel()
	vmi := claimedVMI(t, "guest")
	vmi.Status.Phase = v1.Running
	grace := int64(30)
	vmi.Spec.TerminationGracePeriodSeconds = &grace
	api := newClusterWithHardware(t, vmi)
	n, libvirt := newFakeNode(t, api)
	libvirt.domains["default_guest"] = hypervisor.Status{State: hypervisor.Running}
	if err := api.Delete(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if result, after := reconcileOnce(t, n, vmi); after.IsFinal() || result.RequeueAfter != time.Second {
			t.Errorf("phase '%s', again after %s", after.Status.Phase, result.RequeueAfter)
		}
	}
	n.stopTimes.seenAt[vmi.UID] = time.Now().Add(-time.Minute)
	if _, after := reconcileOnce(t, n, vmi); after.UID != "" {
		t.Errorf("the VMI stays: phase '%s', finalizers %v", after.Status.Phase, after.Finalizers)
	}
	if want := []string{"shutdown", "shutdown", "destroy", "remove"}; !slices.Equal(libvirt.calls, want) {
		t.Errorf("libvirt calls are %q, want %q", libvirt.calls, want)
	}
	if event := <-n.Events.(*events.FakeRecorder).Events; !strings.HasPrefix(event, "Warning Stopped ") {
		t.Errorf("the event is '%s'", event)
	}
}

// TestNothingWithoutAnswers: a node that cannot reach libvirt, lost a race or lost its Lease changes neither phase nor domain.
func TestNothingWithoutAnswers(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachineinstances"}, "guest", errors.New("changed"))
	for _, c := range []struct {
		why    string
		change func(*Node, *fakeHypervisor)
		fails  bool
	}{
		{"libvirt does not answer", func(_ *Node, f *fakeHypervisor) { f.err = errors.New("no answer") }, true},
		{"somebody was faster", func(n *Node, _ *fakeHypervisor) {
			n.Client = interceptor.NewClient(n.Client.(client.WithWatch), interceptor.Funcs{
				SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
					return conflict
				},
			})
		}, false},
		{"the Lease is not held", func(n *Node, _ *fakeHypervisor) { n.Lease = &Lease{} }, false},
	} {
		vmi := claimedVMI(t, "guest")
		vmi.Status.Phase = v1.Running
		api := newClusterWithHardware(t, vmi)
		n, libvirt := newFakeNode(t, api)
		libvirt.domains["default_guest"] = hypervisor.Status{State: hypervisor.Failed}
		c.change(n, libvirt)
		result, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)})
		if (err != nil) != c.fails || err == nil && result.RequeueAfter != time.Second {
			t.Errorf("%s: %+v, %v; want it tried again", c.why, result, err)
		}
		after := &v1.VirtualMachineInstance{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(vmi), after); err != nil {
			t.Fatal(err)
		}
		if after.Status.Phase != v1.Running || len(libvirt.calls) > 0 {
			t.Errorf("%s: phase '%s', libvirt calls are %q", c.why, after.Status.Phase, libvirt.calls)
		}
	}
}

// TestRefused: a VMI that this machine cannot start stays claimed, has condition Synchronized with the reason, and is tried again.
func TestRefused(t *testing.T) {
	t.Parallel()
	vmi := claimedVMI(t, "guest")
	vmi.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{HostDisk: &v1.HostDisk{Path: "/etc/shadow", Type: v1.HostDiskExists}}}}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}}
	n, libvirt := newFakeNode(t, newClusterWithHardware(t, vmi))
	result, after := reconcileOnce(t, n, vmi)
	refused := conditionOf(after, v1.VirtualMachineInstanceSynchronized)
	if refused.Reason != v1alpha1.ReasonNotBindable || !strings.Contains(refused.Message, "spec.volumes[0]") || after.Status.Phase != v1.Scheduled {
		t.Errorf("phase '%s', Synchronized is %+v", after.Status.Phase, refused)
	}
	if result.RequeueAfter != retryInterval || len(libvirt.calls) > 0 {
		t.Errorf("again after %s, libvirt calls are %q", result.RequeueAfter, libvirt.calls)
	}
}
