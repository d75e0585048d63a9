package observed

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// TestOwners: only a controller of KubeVirt's kind VirtualMachineInstance with the name is a VMI of this name, and only with the UID it is the VMI.
func TestOwners(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	owner := *metav1.NewControllerRef(vmi, v1.VirtualMachineInstanceGroupVersionKind)
	for _, c := range []struct {
		why            string
		change         func(*metav1.OwnerReference)
		byName, byBoth bool
	}{
		{"the VMI", func(*metav1.OwnerReference) {}, true, true},
		{"another version of the API", func(o *metav1.OwnerReference) { o.APIVersion = "kubevirt.io/v1alpha3" }, true, true},
		{"a previous VMI", func(o *metav1.OwnerReference) { o.UID = "0" }, true, false},
		{"another name", func(o *metav1.OwnerReference) { o.Name = "b" }, false, false},
		{"another kind with the UID", func(o *metav1.OwnerReference) { o.Kind = "VirtualMachine" }, false, false},
		{"the kind of another group", func(o *metav1.OwnerReference) { o.APIVersion = "example.org/v1" }, false, false},
		{"an owner that is not the controller", func(o *metav1.OwnerReference) { o.Controller = nil }, false, false},
	} {
		reference := owner
		c.change(&reference)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{reference}}}
		if byName, byBoth := IsOwnedByName(pod, "a"), IsOwnedBy(pod, vmi); byName != c.byName || byBoth != c.byBoth {
			t.Errorf("%s: by name %t, want %t; by name and UID %t, want %t", c.why, byName, c.byName, byBoth, c.byBoth)
		}
	}
}

// TestReportsThatCount: the report of a launcher counts if its GuestPod names the pod and has the hardware.
func TestReportsThatCount(t *testing.T) {
	for _, c := range []struct {
		why      string
		named    types.UID
		hardware *v1alpha1.GuestPodHardware
		state    v1alpha1.GuestDomainState
		domain   bool
		running  bool
	}{
		{"a running guest", "pod", &v1alpha1.GuestPodHardware{}, v1alpha1.GuestRunning, true, true},
		{"a guest that has ended", "pod", &v1alpha1.GuestPodHardware{}, v1alpha1.GuestPoweredOff, true, false},
		{"before the hardware is recorded", "pod", nil, v1alpha1.GuestRunning, false, false},
		{"of another pod", "other", &v1alpha1.GuestPodHardware{}, v1alpha1.GuestRunning, false, false},
	} {
		guest := &v1alpha1.GuestPod{Spec: v1alpha1.GuestPodSpec{PodUID: c.named, Hardware: c.hardware}}
		guest.Status.Domain, guest.Status.Running = &v1alpha1.GuestDomain{State: c.state}, &v1alpha1.ReportedHardware{}
		o := Objects{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}}, GuestPod: guest}
		if domain, running := o.Domain() != nil, o.RunningHardware() != nil; domain != c.domain || running != c.running {
			t.Errorf("%s: domain %t, want %t; running hardware %t, want %t", c.why, domain, c.domain, running, c.running)
		}
	}
}
