package startcheck

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

const (
	reasonNodeLost    = "node-lost"
	reasonDomainWaits = "domain-awaited"
	reasonDomainSlow  = "domain-slow"
)

// findDomain finds whether the domain of libvirt was started. Condition Synchronized has the error of KubeVirt's virt-handler, or of Kiln's launcher.
func findDomain(o Objects) finding {
	vmi := o.VMI.Object
	f := finding{state: Done, object: object{"VirtualMachineInstance", o.Name}}
	switch {
	case vmi == nil:
		f.state, f.detail = Unknown, o.VMI.Denied
		return f
	case vmi.Status.Phase == v1.Running:
		return f
	case vmi.Status.Phase == v1.Unknown:
		return f.withState(Failed, reasonNodeLost, o.endOfGuest())
	}
	if refused, is := o.podRefusal(f); is {
		return refused
	}
	if c := o.falseCondition(v1.VirtualMachineInstanceReady); c != nil && !slices.Contains(reasonsOfStart, c.Reason) {
		return f.withState(Failed, c.Reason, c.Message)
	}
	if o.LauncherPod() == nil && !o.launcherBegan() { // nobody knows whether the containers were started
		f.state, f.detail = Unknown, o.Pods.Denied
		return f
	}
	if o.LauncherPod() != nil && o.olderThan(podStart(o), 5*patience) {
		return f.withState(Failed, reasonDomainSlow, "its pod runs, and the domain was not started within 5 minutes")
	}
	return f.withState(Waiting, reasonDomainWaits, "the launcher starts the domain")
}

// reasonsOfStart are reasons of condition Ready of a VMI whose guest is only being started.
var reasonsOfStart = []string{v1.GuestNotRunningReason, v1.PodNotExistsReason, v1.PodConditionMissingReason, v1alpha1.ReasonPodNotReady,
	"ContainersNotReady", ""}
