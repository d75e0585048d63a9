package vmipod

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resize answers like the subresource resize of pods.
func (c *cluster) resize(ctx context.Context, object client.Object, patch client.Patch) error {
	if c.refuse != nil {
		if err := c.refuse(object); err != nil {
			return err
		}
	}
	return c.WithWatch.Patch(ctx, object, patch)
}

// growing is a VMI of one CPU and 1 GiB that may have 4 and 4 GiB.
func growing() *v1.VirtualMachineInstance {
	vmi := explicitVMI()
	one, four := resource.MustParse("1Gi"), resource.MustParse("4Gi")
	vmi.Spec.Domain.CPU.MaxSockets = 4
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &one, MaxGuest: &four}
	return vmi
}

// editSpec changes the spec of a VMI whose guest runs, as internal/lifecycle does.
func (c *cluster) editSpec(change func(*v1.VirtualMachineInstanceSpec)) {
	c.Helper()
	vmi := c.vmi()
	change(&vmi.Spec)
	vmi.Generation++
	c.must(c.Update(c.Context(), vmi))
}

func grow(spec *v1.VirtualMachineInstanceSpec) {
	two := resource.MustParse("2Gi")
	spec.Domain.CPU.Sockets, spec.Domain.Memory.Guest = 2, &two
}

// resizePod does what kubelet does to a pod that was resized.
func (c *cluster) resizePod() {
	c.Helper()
	c.writePodStatus(func(s *corev1.PodStatus) {
		s.Conditions = slices.DeleteFunc(s.Conditions, func(p corev1.PodCondition) bool { return p.Type == corev1.PodResizePending })
		s.ContainerStatuses[0].Resources = c.pod().Spec.Containers[0].Resources.DeepCopy()
	})
}

func (c *cluster) liveSpec() *v1alpha1.GuestPodLive {
	c.Helper()
	return c.guestPod().Spec.Live
}

// pendingChange returns status, reason and message of a condition of the VMI.
func (c *cluster) pendingChange(kind v1.VirtualMachineInstanceConditionType) string {
	c.Helper()
	status, why := c.readCondition(kind)
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", status, why.Reason, why.Message))
}

// TestGrowsInPlace: a guest gets CPUs and memory when its pod has them. Until then the VMI says why it waits, in kubelet's words.
func TestGrowsInPlace(t *testing.T) {
	c := newCluster(t, growing())
	c.runGuest()
	c.reportRunning(func(*v1alpha1.LiveHardware) {})
	c.reconcileAll()
	recorded, before := c.hardware().Spec.Hardware.Digest, c.pod().Spec.Containers[0].Resources
	if c.liveSpec() != nil {
		t.Fatalf("before an edit the launcher is told %+v", c.liveSpec())
	}
	c.editSpec(grow)
	c.reconcileAll()
	after := c.pod().Spec.Containers[0].Resources
	more := after.Requests.Memory().DeepCopy()
	more.Sub(*before.Requests.Memory())
	if cpus := after.Requests.Cpu().MilliValue(); cpus != 200 || more.Value() < 1<<30 || len(after.Limits) != len(before.Limits) {
		t.Errorf("the pod has %+v, had %+v", after, before)
	}
	if got := c.liveSpec(); got == nil || got.VCPUs != 1 || got.MemoryKiB != 1<<20 || got.VMIGeneration != 0 {
		t.Errorf("before kubelet has resized the pod, the launcher is told %+v", got)
	}
	c.writePodStatus(func(s *corev1.PodStatus) {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred,
			Message: "Node didn't have enough resource: memory"})
	})
	c.now = c.now.Add(time.Minute)
	c.reconcileAll()
	for _, kind := range []v1.VirtualMachineInstanceConditionType{v1.VirtualMachineInstanceVCPUChange, v1.VirtualMachineInstanceMemoryChange} {
		if got := c.pendingChange(kind); got != "True PodResizePending Deferred Node didn't have enough resource: memory" {
			t.Errorf("%s is '%s'", kind, got)
		}
	}
	c.resizePod()
	c.now = c.now.Add(time.Minute)
	c.reconcileAll()
	want := v1alpha1.GuestPodLive{LiveHardware: v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 2 << 20}, VMIGeneration: c.vmi().Generation}
	if diff := cmp.Diff(&want, c.liveSpec()); diff != "" {
		t.Errorf("the launcher is told (-want +got)\n%s", diff)
	}
	c.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) { s.Running.Hindrance = "2 vCPUs: no\n" })
	c.now = c.now.Add(time.Minute)
	if c.reconcileAll(); c.pendingChange(v1.VirtualMachineInstanceVCPUChange) != "True GuestAsked 2 vCPUs: no" {
		t.Errorf("HotVCPUChange is '%s'", c.pendingChange(v1.VirtualMachineInstanceVCPUChange))
	}
	c.reportRunning(func(*v1alpha1.LiveHardware) {})
	c.now = c.now.Add(time.Minute)
	c.reconcileAll()
	if cpu, memory := c.pendingChange(v1.VirtualMachineInstanceVCPUChange), c.pendingChange(v1.VirtualMachineInstanceMemoryChange); cpu+memory != "" {
		t.Errorf("when it is done, HotVCPUChange is '%s', HotMemoryChange '%s'", cpu, memory)
	}
	if running := c.hardware().Status.Running; running.VCPUs != 2 || running.Cause != "vCPUs from 1 to 2; memory from 1024 to 2048 MiB" {
		t.Errorf("%+v runs", running)
	}
	if got := c.hardware().Spec.Hardware.Digest; got != recorded {
		t.Errorf("the record has moved from %s to %s", recorded, got)
	}
	c.must(c.WithWatch.Delete(t.Context(), c.guestPod()))
	c.reconcileAll()
	c.reportFacts("pc-q35-10.0")
	if c.reconcileAll(); c.guestPod().Spec.Hardware == nil || c.hardware().Spec.Hardware.Digest != recorded {
		t.Errorf("a GuestPod that is made anew moves the record")
	}
}

// TestTakenBack: a growth that kubelet has not granted is taken back, in part or whole, and the pod asks for no more than the VMI does. Of one that kubelet has
// granted the pod keeps what it has.
func TestTakenBack(t *testing.T) {
	for _, granted := range []bool{false, true} {
		c := newCluster(t, growing())
		c.runGuest()
		c.reportRunning(func(*v1alpha1.LiveHardware) {})
		c.reconcileAll()
		before := c.pod().Spec.Containers[0].Resources
		c.resizePod() // its status says what the container has
		steps := func(change func(*v1.VirtualMachineInstanceSpec)) corev1.ResourceRequirements {
			t.Helper()
			c.editSpec(change)
			c.now = c.now.Add(time.Minute)
			c.reconcileAll()
			c.reconcileAll()
			return c.pod().Spec.Containers[0].Resources
		}
		grown := steps(grow)
		if granted {
			c.resizePod()
		} else {
			c.writePodStatus(func(s *corev1.PodStatus) {
				s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred})
			})
		}
		some := steps(func(s *v1.VirtualMachineInstanceSpec) { s.Domain.CPU.Sockets = 1 })
		if !granted && (!some.Requests.Cpu().Equal(*before.Requests.Cpu()) ||
			some.Requests.Memory().Cmp(*before.Requests.Memory()) <= 0 || some.Requests.Memory().Cmp(*grown.Requests.Memory()) >= 0) {
			t.Errorf("with the CPUs taken back the pod has %+v", some)
		}
		if waits := c.pendingChange(v1.VirtualMachineInstanceVCPUChange); waits != "" || !granted && c.pendingChange(v1.VirtualMachineInstanceMemoryChange) == "" {
			t.Errorf("granted %t: with the CPUs taken back, they wait for '%s'", granted, waits)
		}
		after := steps(func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Memory.Guest = growing().Spec.Domain.Memory.Guest })
		want := before
		if granted {
			want = grown
		}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("granted %t: the pod has (-want +got)\n%s", granted, diff)
		}
		wanted := &v1alpha1.GuestPodLive{LiveHardware: v1alpha1.LiveHardware{VCPUs: 1, MemoryKiB: 1 << 20}, VMIGeneration: c.vmi().Generation}
		if diff := cmp.Diff(wanted, c.liveSpec()); diff != "" {
			t.Errorf("granted %t: spec.live of the GuestPod (-want +got)\n%s", granted, diff)
		}
		if memory := c.pendingChange(v1.VirtualMachineInstanceMemoryChange); !granted && memory != "" {
			t.Errorf("HotMemoryChange is '%s'", memory)
		}
	}
}

// TestResizeRefused: what the API server refuses is said, and the rest of an edit is done all the same.
func TestResizeRefused(t *testing.T) {
	c := newCluster(t, growing())
	c.runGuest()
	c.reportRunning(func(*v1alpha1.LiveHardware) {})
	c.reconcileAll()
	c.refuse = func(object client.Object) error {
		if _, is := object.(*corev1.Pod); is {
			return apierrors.NewForbidden(corev1.Resource("pods"), podKey.Name, errQuota)
		}
		return nil
	}
	c.editSpec(func(s *v1.VirtualMachineInstanceSpec) {
		grow(s)
		s.Domain.Devices.Interfaces[0].State = v1.InterfaceStateLinkDown
	})
	c.now = c.now.Add(time.Minute)
	c.reconcileAll()
	if got := c.pendingChange(v1.VirtualMachineInstanceVCPUChange); !strings.HasPrefix(got, "True FailedResize") || !strings.Contains(got, errQuota.Error()) {
		t.Errorf("HotVCPUChange is '%s'", got)
	}
	if got := c.liveSpec(); got == nil || got.VCPUs != 1 || !slices.Equal(got.LinksDown, []string{"default"}) {
		t.Errorf("the launcher is told %+v", got)
	}
	if got := c.pendingChange(v1alpha1.ConditionHardwareChange); !strings.Contains(got, "the link of interface 'default' is down") {
		t.Errorf("%s is '%s'", v1alpha1.ConditionHardwareChange, got)
	}
}

// TestGrowthCrashes: a controller that dies after any of its writes leaves what the next one brings to the same end.
func TestGrowthCrashes(t *testing.T) {
	life := func(t *testing.T, dies int) int {
		c := newCluster(t, growing())
		c.runGuest()
		c.reportRunning(func(*v1alpha1.LiveHardware) {})
		c.reconcileAll()
		c.writes, c.fails = nil, dies
		step := func() {
			c.now = c.now.Add(time.Minute)
			c.reconcileAll()
			c.reconcileAll()
		}
		c.editSpec(grow)
		step()
		c.resizePod()
		step()
		c.reportRunning(func(*v1alpha1.LiveHardware) {})
		step()
		running := c.hardware().Status.Running
		got, pending := c.liveSpec(), c.pendingChange(v1.VirtualMachineInstanceVCPUChange)
		if got == nil || got.VCPUs != 2 || got.MemoryKiB != 2<<20 || running.VCPUs != 2 || pending != "" {
			t.Fatalf("dies after write %d: the launcher is told %+v, %+v runs", dies, got, running)
		}
		return len(c.writes)
	}
	writes := life(t, 0)
	if writes < 5 {
		t.Fatalf("a growth has %d writes only", writes)
	}
	for dies := range writes {
		t.Run(fmt.Sprint(dies+1), func(t *testing.T) { life(t, dies+1) })
	}
}
