package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.clock.timer.

// timers switches on each timer that is present and does not say whether it is enabled: SetDefaults_HPETTimer, SetDefaults_KVMTimer,
// SetDefaults_PITTimer, SetDefaults_RTCTimer, SetDefaults_HypervTimer.
func timers(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	clock := vmi.Spec.Domain.Clock
	if clock == nil || clock.Timer == nil {
		return
	}
	t := clock.Timer
	if t.HPET != nil {
		enable(&t.HPET.Enabled)
	}
	if t.KVM != nil {
		enable(&t.KVM.Enabled)
	}
	if t.PIT != nil {
		enable(&t.PIT.Enabled)
	}
	if t.RTC != nil {
		enable(&t.RTC.Enabled)
	}
	if t.Hyperv != nil {
		enable(&t.Hyperv.Enabled)
	}
}

// enable sets a switch that is unset to a new pointer to true. Trap: KubeVirt gives every object the same *bool, so that a write through one pointer changes
// all objects.
func enable(set **bool) {
	if *set == nil {
		*set = new(true)
	}
}
