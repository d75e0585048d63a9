package vmipod

import (
	"cmp"
	"context"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// runtimeUser is the account of a launcher, which is QEMU's too.
const runtimeUser = 107

// podInterface is the pod's network interface, which CNI calls so.
const podInterface = "eth0"

// report writes the status of a VMI that goes on, if it changes: one write for each change. A launcher that reports other states all the time is followed
// at a bounded rate.
func (c *Controller) report(ctx context.Context, s seen, o *outcome) error {
	reported := s.vmi.DeepCopy()
	if s.startsLate(c.Now()) {
		s.mountFailure = c.lookAtMounts(ctx, s, o)
	}
	s.unbound = c.lookAtClaims(ctx, s, o)
	o.again(s.follow(reported, o.refusal, c.Now()))
	s.followLive(reported, o)
	if equality.Semantic.DeepEqual(s.vmi.Status, reported.Status) {
		return nil
	}
	if wait := c.statusesLimits.wait(s.key, c.Now(), statusesPerSecond, statusBurst); wait > 0 {
		o.again(wait)
		return nil
	}
	if err := c.writeStatus(ctx, s.vmi, reported); err != nil {
		return client.IgnoreNotFound(err)
	}
	if s.vmi.Status.Phase != v1.Running && reported.Status.Phase == v1.Running {
		c.event(s.vmi, corev1.EventTypeNormal, condition.Cause{Reason: string(v1.Started), Message: "the guest runs"})
	}
	if why := newlyRefused(s.vmi, reported); why != nil {
		c.event(s.vmi, corev1.EventTypeWarning, *why)
		if was := condition.Of(s.vmi, v1.VirtualMachineInstanceSynchronized); metav1.GetControllerOf(s.vmi) == nil && (was == nil || was.Reason != why.Reason) {
			condition.Log(ctx, s.vmi, "vmi", *why) // of others the controller of VMs tells
		}
	}
	return nil
}

// writeStatus writes the status of a VMI, unless the VMI has changed since it was read.
func (c *Controller) writeStatus(ctx context.Context, was, is *v1.VirtualMachineInstance) error {
	if err := objects.PatchStatus(ctx, c.Client, is, was); err != nil {
		return err
	}
	c.vmis.Note(is, c.Now())
	return nil
}

// newlyRefused returns why a guest does not start, if the status did not say so before: a refusal that lasts is one event.
func newlyRefused(was, is *v1.VirtualMachineInstance) *condition.Cause {
	before, now := condition.Of(was, v1.VirtualMachineInstanceSynchronized), condition.Of(is, v1.VirtualMachineInstanceSynchronized)
	if now == nil || now.Status != corev1.ConditionFalse || before != nil && before.Reason == now.Reason && before.Message == now.Message {
		return nil
	}
	return &condition.Cause{Reason: now.Reason, Message: now.Message}
}

// describe writes where the guest is and what it has into the status.
func (s seen) describe(vmi *v1.VirtualMachineInstance) {
	if s.pod == nil || len(vmi.Status.ActivePods) > 0 && !recorded(vmi, s.pod.UID) {
		return
	}
	status, node := &vmi.Status, s.pod.Spec.NodeName
	if status.ActivePods == nil || status.ActivePods[s.pod.UID] != node {
		status.ActivePods = map[types.UID]string{s.pod.UID: node}
	}
	status.NodeName = cmp.Or(status.NodeName, node)
	status.RuntimeUser = runtimeUser
	if class := s.pod.Status.QOSClass; class != "" {
		status.QOSClass = &class
	}
	if len(s.pod.Spec.Containers) > 0 { // a pod of the cache has no containers
		status.LauncherContainerImageVersion = s.pod.Spec.Containers[0].Image
	}
	if len(status.Interfaces) > 0 && status.Interfaces[0].PodInterfaceName == podInterface && len(s.pod.Status.PodIPs) > 0 {
		nic := &status.Interfaces[0]
		ips := make([]string, len(s.pod.Status.PodIPs))
		for i, ip := range s.pod.Status.PodIPs {
			ips[i] = ip.IP
		}
		if !slices.Equal(nic.IPs, ips) {
			status.Interfaces = slices.Clone(status.Interfaces)
			status.Interfaces[0].IP, status.Interfaces[0].IPs = ips[0], ips
		}
	}
}

// interfaces returns status.interfaces of a VMI: its cards, with the MAC addresses of the record, else those that stage 2 will give them. The one on the pod
// network is the first, for the columns of 'kubectl get vmi'. By slirp the guest has not the addresses of the pod: nothing reaches it there.
func interfaces(in pod.Input) (cards []v1.VirtualMachineInstanceNetworkInterface) {
	vmi := in.VMI.DeepCopy()
	if in.Record != nil {
		identity.Recall(vmi, in.Record)
	}
	identity.Fill(vmi, cmp.Or(vmi.Annotations[v1alpha1.AnnotationIdentity], string(vmi.UID)))
	for _, nic := range vmi.Spec.Domain.Devices.Interfaces {
		i := slices.IndexFunc(vmi.Spec.Networks, func(n v1.Network) bool { return n.Name == nic.Name })
		if i < 0 || nic.State == v1.InterfaceStateAbsent {
			continue
		}
		network, card := vmi.Spec.Networks[i], v1.VirtualMachineInstanceNetworkInterface{Name: nic.Name, MAC: nic.MacAddress, InfoSource: infoDomain}
		if network.ResourceClaim != nil { // a device of the guest, and no interface of the pod
			cards = append(cards, card)
			continue
		}
		if network.Multus != nil && !network.Multus.Default {
			card.PodInterfaceName = pod.PodInterface(network.Name)
			cards = append(cards, card)
			continue
		}
		if in.Network != pod.Slirp {
			card.PodInterfaceName = podInterface
		}
		cards = slices.Insert(cards, 0, card)
	}
	return cards
}

// volumes returns status.volumeStatus of a VMI: its claims. Without it, the launcher makes a disk as large as the whole file system that the claim is on.
func volumes(in pod.Input) (list []v1.VolumeStatus) {
	for i := range in.VMI.Spec.Volumes {
		volume := &in.VMI.Spec.Volumes[i]
		if claim, found := in.Claims[claimName(volume)]; found {
			list = append(list, v1.VolumeStatus{Name: volume.Name, PersistentVolumeClaimInfo: &claim.Info})
		}
	}
	return list
}
