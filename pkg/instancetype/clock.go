package instancetype

import v1 "kubevirt.io/api/core/v1"

// Fields of a preference: clock.preferredClockOffset, preferredTimer.

func preferClock(p *Preference, vmi *v1.VirtualMachineInstance) {
	want := p.Spec.Clock.DeepCopy()
	if want == nil {
		return
	}
	if vmi.Spec.Domain.Clock == nil {
		vmi.Spec.Domain.Clock = &v1.Clock{}
	}
	clock := vmi.Spec.Domain.Clock
	if want.PreferredClockOffset != nil && clock.ClockOffset == (v1.ClockOffset{}) {
		clock.ClockOffset = *want.PreferredClockOffset
	}
	fill(&clock.Timer, want.PreferredTimer)
}
