package validate

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.clock.
// A clock has one offset, and its time zone is one of the IANA database.
// The architecture has the timer, and QEMU's timer of that kind supports the tick policy (what becomes of ticks that the guest missed).
// KubeVirt has no such rules: it accepts any word and any timer, and libvirt refuses the domain when the VMI starts.

var clockRules = []guestRule{
	{clockOffset, []Rule{
		{Name: "clock/offsets", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "clock/timezone", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
	}},
	{timers, []Rule{
		{Name: "clock/word", KubeVirt: KubeVirtAdmits},
		{Name: "clock/timer", KubeVirt: KubeVirtAdmits, NamesArchitecture: true},
	}},
}

// clockOffset has no counterpart in KubeVirt, which drops timezone beside utc in silence. libvirt refuses an empty time zone; a name that does not exist
// is UTC for QEMU, so that the guest's clock is wrong without an error.
func clockOffset(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	if spec.Domain.Clock == nil || spec.Domain.Clock.Timezone == nil {
		return nil
	}
	at, zone := path.Child("domain", "clock", "timezone"), string(*spec.Domain.Clock.Timezone)
	switch {
	case spec.Domain.Clock.UTC != nil:
		return field.ErrorList{field.Forbidden(at, "cannot be combined with utc: a clock has one offset").WithOrigin("clock/offsets")}
	case zone == "":
		return field.ErrorList{field.Required(at, "name a time zone such as 'Europe/Vienna', or remove the field").WithOrigin("clock/timezone")}
	case !isTimezone(zone):
		hint := "such as 'Europe/Vienna'"
		if name := nearest.Name(zone, timezoneNames()); name != "" {
			hint = "did you mean '" + name + "'?"
		}
		return field.ErrorList{field.Invalid(at, zone, "must be a name of the IANA time zone database: "+hint).WithOrigin("clock/timezone")}
	}
	return nil
}

// timers allows for each timer the words that KubeVirt's API declares as constants for it. Timers of a PC do not exist on the other
// architectures.
func timers(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Domain.Clock == nil || spec.Domain.Clock.Timer == nil {
		return nil
	}
	t := spec.Domain.Clock.Timer
	if t.RTC != nil {
		errs = append(errs, tick(path, [...]string{"rtc", "tickPolicy"}, t.RTC.TickPolicy, v1.RTCTickPolicyCatchup, v1.RTCTickPolicyDelay)...)
		errs = append(errs, tick(path, [...]string{"rtc", "track"}, t.RTC.Track, v1.TrackGuest, v1.TrackWall)...)
	}
	if t.PIT != nil {
		errs = append(errs, tick(path, [...]string{"pit", "tickPolicy"}, t.PIT.TickPolicy,
			v1.PITTickPolicyCatchup, v1.PITTickPolicyDelay, v1.PITTickPolicyDiscard)...)
	}
	if t.HPET != nil {
		errs = append(errs, tick(path, [...]string{"hpet", "tickPolicy"}, t.HPET.TickPolicy,
			v1.HPETTickPolicyCatchup, v1.HPETTickPolicyDelay, v1.HPETTickPolicyDiscard, v1.HPETTickPolicyMerge)...)
	}
	if spec.Architecture == arm64 || spec.Architecture == s390x {
		errs = append(errs, timersOfPCs(spec.Architecture, t, path.Child("domain", "clock", "timer"))...)
	}
	return errs
}

// tick judges an optional word of a timer, in the field names: if it is empty, libvirt chooses.
func tick[T ~string](spec *field.Path, names [2]string, value T, allowed ...T) field.ErrorList {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return supported(spec.Child("domain", "clock", "timer", names[0], names[1]), value, allowed...).WithOrigin("clock/word")
}

// timersOfPCs refuses x86 timers on other architectures. A timer with present: false is legal everywhere.
func timersOfPCs(architecture string, t *v1.Timer, path *field.Path) (errs field.ErrorList) {
	forbid := func(name string, present *bool) {
		if ptr.Deref(present, true) {
			errs = append(errs, field.Forbidden(path.Child(name), "architecture '"+architecture+"' has no such timer: remove it").WithOrigin("clock/timer"))
		}
	}
	if t.HPET != nil {
		forbid("hpet", t.HPET.Enabled)
	}
	if t.KVM != nil {
		forbid("kvm", t.KVM.Enabled)
	}
	if t.Hyperv != nil {
		forbid("hyperv", t.Hyperv.Enabled)
	}
	return errs
}
