package vmipod

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}}
}

// explicitVMI returns an explicit VMI of a VM, which only has its first phase.
func explicitVMI() *v1.VirtualMachineInstance {
	owner := metav1.OwnerReference{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "a", UID: "vm", Controller: new(true)}
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "a", UID: "0000-vmi", OwnerReferences: []metav1.OwnerReference{owner}, Finalizers: []string{v1.VirtualMachineInstanceFinalizer},
		Annotations: map[string]string{v1alpha1.AnnotationIdentity: "seed"},
	}}
	memory := resource.MustParse("256Mi")
	vmi.Spec = v1.VirtualMachineInstanceSpec{
		Architecture: "amd64",
		Domain: v1.DomainSpec{
			CPU: &v1.CPU{Cores: 1, Sockets: 1, Threads: 1, Model: "host-model"}, Memory: &v1.Memory{Guest: &memory},
			Machine: &v1.Machine{Type: "q35"},
			Devices: v1.Devices{Interfaces: []v1.Interface{{
				Name: "default", Model: "virtio", InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}},
			Features: &v1.Features{ACPI: v1.FeatureState{Enabled: new(true)}},
			Firmware: &v1.Firmware{UUID: "0e2ff28d-6b9f-4b8f-8f3e-8d3a3f6c9a11"},
		},
		Networks: []v1.Network{{Name: "default", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}},
	}
	vmi.Status.Phase = v1.Pending
	return vmi
}

// bindPod does what the scheduler does.
func (c *cluster) bindPod(name string) {
	c.Helper()
	found := c.pod()
	found.Spec.NodeName = name
	c.must(c.Update(c.Context(), found))
}

// writePodStatus writes the status of the pod.
func (c *cluster) writePodStatus(write func(*corev1.PodStatus)) {
	c.Helper()
	found := c.pod()
	write(&found.Status)
	c.must(c.Status().Update(c.Context(), found))
}

// writeGuestPodStatus writes the status of the GuestPod.
func (c *cluster) writeGuestPodStatus(write func(*v1alpha1.GuestPodStatus)) {
	c.Helper()
	found := c.guestPod()
	write(&found.Status)
	c.must(c.Status().Update(c.Context(), found))
}

func (c *cluster) reportFacts(machine string) {
	c.Helper()
	c.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) { s.Facts = &v1alpha1.GuestFacts{Machine: machine} })
}

func (c *cluster) reportDomain(state v1alpha1.GuestDomainState, reason string) {
	c.Helper()
	c.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) {
		s.Domain = &v1alpha1.GuestDomain{State: state, Reason: reason, Message: "libvirt's words", Machine: "pc-q35-10.0"}
	})
}

// runGuest brings the guest to phase Running.
func (c *cluster) runGuest() {
	c.Helper()
	c.reconcileAll()
	c.bindPod("n1")
	c.writePodStatus(func(s *corev1.PodStatus) {
		s.Phase, s.QOSClass, s.PodIPs = corev1.PodRunning, corev1.PodQOSBurstable, []corev1.PodIP{{IP: "10.1.0.7"}, {IP: "fd00::7"}}
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "compute", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	c.reconcileAll()
	c.reportFacts("pc-q35-10.0")
	c.reconcileAll()
	c.reportDomain(v1alpha1.GuestRunning, "")
	c.reconcileAll()
}
