package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.clock.timer.

// enableTimers switches on each timer that is present and does not say whether it is enabled: SetDefaults_HPETTimer, SetDefaults_KVMTimer,
// SetDefaults_PITTimer, SetDefaults_RTCTimer, SetDefaults_HypervTimer.
func enableTimers(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	clock := vmi.Spec.Domain.Clock
	if clock == nil || clock.Timer == nil {
		return
	}
	t := clock.Timer
	if t.HPET != nil {
		enableSwitch(&t.HPET.Enabled)
	}
	if t.KVM != nil {
		enableSwitch(&t.KVM.Enabled)
	}
	if t.PIT != nil {
		enableSwitch(&t.PIT.Enabled)
	}
	if t.RTC != nil {
		enableSwitch(&t.RTC.Enabled)
	}
	if t.Hyperv != nil {
		enableSwitch(&t.Hyperv.Enabled)
	}
}

// enableSwitch sets a switch that is unset to a new pointer to true. Trap: KubeVirt gives every object the same *bool, so that a write through one pointer
// changes all objects.
func enableSwitch(set **bool) {
	if *set == nil {
		*set = new(true)
	}
}
