package node

import (
	"context"
	"errors"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// otherFinalizer is the finalizer of another controller, which waits for the VMI's final phase.
const otherFinalizer = "example.com/hold"

func deleteVMI(t *testing.T, n *Node, vmi *v1.VirtualMachineInstance) {
	t.Helper()
	if err := n.Delete(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
}

// TestNeverStarted: a VMI that was claimed and never started gets a final phase with the reason when it is deleted, because other controllers wait for that
// phase. It also gets the phase if the launcher has not added its own finalizer yet.
func TestNeverStarted(t *testing.T) {
	t.Parallel()
	l := startLibvirt(t)
	for name, finalizers := range map[string][]string{
		"wrong": {v1.VirtualMachineInstanceFinalizer, otherFinalizer}, "early": {otherFinalizer},
	} {
		vmi := claimedVMI(t, name)
		vmi.Finalizers = finalizers
		condition.SetSynchronized(vmi, "False", condition.Cause{Reason: v1alpha1.ReasonNotBindable, Message: "no such image"})
		api := newClusterWithHardware(t, vmi)
		n := newNode(t, l, api, api)
		deleteVMI(t, n, vmi)
		after := reconcileRepeatedly(t, n, vmi)
		if len(after.Finalizers) != 1 || after.Finalizers[0] != otherFinalizer {
			t.Errorf("%s: finalizers are %v", name, after.Finalizers)
		}
		checkEnd(t, n, after, v1.Failed, "NeverStarted")
		if ready := conditionOf(after, v1.VirtualMachineInstanceReady); !strings.Contains(ready.Message, "no such image") {
			t.Errorf("%s: Ready is %+v; want what was wrong", name, ready)
		}
	}
}

// TestStopSurvivesEveryDeath: the phase is written first, and whichever write fails, the next attempt completes the stop.
func TestStopSurvivesEveryDeath(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connectLibvirt(t, d)
	died := errors.New("the launcher has died")
	for _, fails := range []string{"status", "object"} {
		vmi := claimedVMI(t, "dies-"+fails)
		vmi.Finalizers = append(vmi.Finalizers, otherFinalizer)
		zero := int64(0)
		vmi.Spec.TerminationGracePeriodSeconds = &zero
		api := newClusterWithHardware(t, vmi)
		n := newNode(t, l, api, api)
		if first := reconcileRepeatedly(t, n, vmi); first.Status.Phase != v1.Running {
			t.Fatalf("phase is '%s': %v", first.Status.Phase, first.Status.Conditions)
		}
		deleteVMI(t, n, vmi)
		dying := newNode(t, l, interceptor.NewClient(api.(client.WithWatch), interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
				if fails == "status" {
					return died
				}
				return c.SubResource(sub).Update(ctx, object, options...)
			},
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return died },
		}), api)
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)}
		for {
			result, err := dying.Reconcile(t.Context(), request)
			if errors.Is(err, died) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if result.RequeueAfter == 0 {
				t.Fatal("nothing was written")
			}
		}
		now := &v1.VirtualMachineInstance{}
		if err := api.Get(t.Context(), request.NamespacedName, now); err != nil {
			t.Fatal(err)
		}
		if len(now.Finalizers) != 2 || now.IsFinal() != (fails == "object") {
			t.Errorf("%s: finalizers %v, phase '%s'", fails, now.Finalizers, now.Status.Phase)
		}
		after := reconcileRepeatedly(t, n, vmi)
		if len(after.Finalizers) != 1 || after.Status.Phase != v1.Succeeded {
			t.Errorf("%s: finalizers %v, phase '%s', want it stopped", fails, after.Finalizers, after.Status.Phase)
		}
		if _, err := d.State("default_" + vmi.Name); err == nil {
			t.Errorf("%s: the domain stays", fails)
		}
	}
}

// TestGracePeriod: the grace period is measured by the launcher's clock, begins when the launcher sees the deletion, and does not overflow.
func TestGracePeriod(t *testing.T) {
	t.Parallel()
	const longest = math.MaxInt64 / time.Second * time.Second
	for seconds, want := range map[int64]time.Duration{
		0: 0, 30: 30 * time.Second, math.MaxInt64: longest, math.MaxInt64 / int64(time.Second): longest,
		18446744074: longest, // times 1e9 it is 0.3 s past 2^64
	} {
		vmi := &v1.VirtualMachineInstance{}
		vmi.Spec.TerminationGracePeriodSeconds = &seconds
		if got := guest.Grace(vmi); got != want {
			t.Errorf("%d s are %s, want %s", seconds, got, want)
		}
	}
	d := libvirt.Start(t)
	vmi := claimedVMI(t, "late")
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, connectLibvirt(t, d), api, api)
	reconcileRepeatedly(t, n, vmi)
	// For the launcher, whose clock is an hour ahead, the deletion was an hour ago.
	ago := claimedVMI(t, "late")
	ago.Status.Phase, ago.DeletionTimestamp = v1.Running, &metav1.Time{Time: time.Now().Add(-time.Hour)}
	late := newClusterWithHardware(t, ago)
	n.Client, n.Live = late, late
	reconcileRepeatedly(t, n, vmi)
	if state, err := d.State("default_late"); err != nil || state != "running" {
		t.Errorf("the guest is '%s' (%v) at once, want its grace period kept", state, err)
	}
}

// virsh runs virsh, as an administrator may, and returns its output.
func virsh(t *testing.T, d *libvirt.Daemon, args ...string) string {
	t.Helper()
	out, err := exec.Command("virsh", append([]string{"-c", d.URI}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("virsh %v: %v: %s", args, err, out)
	}
	return string(out)
}

// TestSnapshotsDoNotKeepADomain: a domain is removed together with its administrator's snapshots.
func TestSnapshotsDoNotKeepADomain(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connectLibvirt(t, d)
	vmi := claimedVMI(t, "snapped")
	disk := v1.Disk{Name: "data", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{disk}
	empty := v1.EmptyDiskSource{}
	empty.Capacity.Set(1 << 20)
	vmi.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDisk: &empty}}}
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, l, api, api)
	if first := reconcileRepeatedly(t, n, vmi); first.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", first.Status.Phase, first.Status.Conditions)
	}
	virsh(t, d, "snapshot-create-as", "default_snapped", "before-the-upgrade")
	if err := l.Remove(t.Context(), n.owner(vmi)); err != nil {
		t.Error(err)
	}
	if _, err := d.State("default_snapped"); err == nil {
		t.Error("the domain stays")
	}
}

// TestNotes: the API server accepts the note of an event, whatever a tenant has written into the message.
func TestNotes(t *testing.T) {
	const longestNote = 1024 // bytes, of the API server
	t.Parallel()
	vmi := claimedVMI(t, "long")
	condition.SetSynchronized(vmi, "False", condition.Cause{Reason: v1alpha1.ReasonNotBindable, Message: strings.Repeat("ä%s", 2000)})
	phase, why := finalPhase(vmi, hypervisor.Status{})
	api := newClusterWithHardware(t, vmi)
	n := &Node{Client: api, Live: api, Events: events.NewFakeRecorder(1)}
	if err := n.reportEnd(t.Context(), vmi, phase, why); err != nil {
		t.Fatal(err)
	}
	note := <-n.Events.(*events.FakeRecorder).Events
	if len(note) > longestNote+len("Warning NeverStarted ") || !strings.Contains(note, "never started: ä%s") || strings.ToValidUTF8(note, "") != note {
		t.Errorf("the note has %d bytes: %.200s", len(note), note)
	}
}

// TestReservedCPUs: the CPUs of a guest that is being started are reserved before libvirt reports them.
func TestReservedCPUs(t *testing.T) {
	t.Parallel()
	first, second := claimedVMI(t, "first"), claimedVMI(t, "second")
	second.UID = types.UID("5d307ca9-b3ef-428c-8861-06e72d69f221")
	api := newClusterWithHardware(t, first, second)
	n := newNode(t, startLibvirt(t), api, api)
	reserved := map[types.UID]string{}
	for _, vmi := range []*v1.VirtualMachineInstance{first, second} {
		vmi.Spec.Domain.CPU.DedicatedCPUPlacement = true
		bound, errs := n.Machine.Bind(t.Context(), vmi, nil)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		all, err := n.renderDomain(t.Context(), render.Machine{VMI: vmi, Defaults: config.Default().Frontend, Host: n.hostFacts(), Bindings: bound.Bindings})
		if err != nil {
			t.Fatal(err)
		}
		reserved[vmi.UID] = hypervisor.Pins(all.Documents.Domain.CPUTune).String()
	}
	if reserved[first.UID] == reserved[second.UID] || reserved[first.UID] == "" {
		t.Errorf("two guests that start at the same time get CPUs '%s' and '%s'", reserved[first.UID], reserved[second.UID])
	}
	n.cpuReservations.release(first.UID)
	if free, err := n.freeCPUs(t.Context(), render.Machine{VMI: second, Host: n.hostFacts()}); err != nil || len(free) == 0 {
		t.Errorf("no CPU is free again after a start has ended: %v, %v", free, err)
	}
}
