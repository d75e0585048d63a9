package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.clock.timer. A timer that is mentioned is on.
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

// enable fills a switch that is unset. Each gets a value of its own: a shared one would be written through by the next owner.
func enable(set **bool) {
	if *set == nil {
		*set = new(true)
	}
}
