package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a preference: clock.preferredClockOffset, preferredTimer.

// preferClock is applyClockPreferences. Offset and timer are filled apart: a VMI with timers of its own still gets the offset. An offset of
// utc or timezone is one choice, so that a VMI with either keeps it.
func preferClock(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	want := p.Spec.Clock
	if want == nil {
		return
	}
	if vmi.Spec.Domain.Clock == nil {
		vmi.Spec.Domain.Clock = &v1.Clock{}
	}
	clock := vmi.Spec.Domain.Clock
	if want.PreferredClockOffset != nil && clock.ClockOffset == (v1.ClockOffset{}) {
		clock.ClockOffset = *want.PreferredClockOffset.DeepCopy()
		log.Note(&clock.ClockOffset, want.PreferredClockOffset)
	}
	fillCopy(log, &clock.Timer, want.PreferredTimer)
}
