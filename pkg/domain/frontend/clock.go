package frontend

import (
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns domain.clock, and the frequency of the time stamp counter that status.topologyHints promises.
// KubeVirt: converter/compute/clock.go. libvirt: "Time keeping".

// renderClock returns a clock even if the spec has none.
func (g *guest) renderClock() *libvirtxml.DomainClock {
	// libvirt writes offset 'utc' itself if clock is absent. It is written here, because the frontend is compared with what libvirt stores.
	out := &libvirtxml.DomainClock{Offset: "utc"}
	if c := g.spec.Domain.Clock; c != nil {
		switch {
		case c.UTC != nil && c.UTC.OffsetSeconds != nil:
			// KubeVirt writes offset 'utc' with a numeric adjustment, which libvirt stores as 'variable' on basis 'utc'.
			out.Offset, out.Basis, out.Adjustment = "variable", "utc", strconv.Itoa(*c.UTC.OffsetSeconds)
		case c.UTC != nil:
			// Without 'reset', libvirt would turn the clock into a 'variable' one as soon as the guest sets its RTC.
			out.Adjustment = "reset"
		case c.Timezone != nil:
			out.Offset, out.TimeZone = "timezone", string(*c.Timezone)
		}
		out.Timer = g.renderTimers()
	}
	if hz := g.tscFrequency(); hz > 0 {
		out.Timer = append(out.Timer, libvirtxml.DomainTimer{Name: "tsc", Frequency: hz})
	}
	return out
}

// renderTimers lists the timers in KubeVirt's order. Stage 1 has written present, so its absence is an error.
func (g *guest) renderTimers() []libvirtxml.DomainTimer {
	t := g.spec.Domain.Clock.Timer
	if t == nil {
		return nil
	}
	out := make([]libvirtxml.DomainTimer, 0, 4) // as most guests have
	path := timerPath
	add := func(timer libvirtxml.DomainTimer, present *bool, name string) {
		if present == nil {
			g.addError(field.Required(path.Child(name, "present"), ""))
			return
		}
		timer.Present = attr.YesNo(*present)
		out = append(out, timer)
	}
	g.checkTickPolicies(t, path)
	if t.RTC != nil {
		add(libvirtxml.DomainTimer{Name: "rtc", TickPolicy: string(t.RTC.TickPolicy), Track: string(t.RTC.Track)}, t.RTC.Enabled, "rtc")
	}
	if t.PIT != nil {
		add(libvirtxml.DomainTimer{Name: "pit", TickPolicy: string(t.PIT.TickPolicy)}, t.PIT.Enabled, "pit")
	}
	if t.KVM != nil {
		add(libvirtxml.DomainTimer{Name: "kvmclock"}, t.KVM.Enabled, "kvm")
	}
	if t.HPET != nil {
		add(libvirtxml.DomainTimer{Name: "hpet", TickPolicy: string(t.HPET.TickPolicy)}, t.HPET.Enabled, "hpet")
	}
	if t.Hyperv != nil {
		add(libvirtxml.DomainTimer{Name: "hypervclock"}, t.Hyperv.Enabled, "hyperv")
	}
	return out
}

// checkTickPolicies refuses the tick policies that libvirt's QEMU driver refuses for the timer.
func (g *guest) checkTickPolicies(t *v1.Timer, path *field.Path) {
	check := func(value string, words []string, names ...string) {
		if value != "" && !slices.Contains(words, value) {
			g.addError(field.NotSupported(path.Child(names[0], names[1:]...), value, words))
		}
	}
	if t.RTC != nil {
		check(string(t.RTC.TickPolicy), []string{"catchup", "delay"}, "rtc", "tickPolicy")
		check(string(t.RTC.Track), []string{"boot", "guest", "wall"}, "rtc", "track")
	}
	if t.PIT != nil {
		check(string(t.PIT.TickPolicy), []string{"catchup", "delay", "discard"}, "pit", "tickPolicy")
	}
	if t.HPET != nil {
		check(string(t.HPET.TickPolicy), []string{"catchup", "delay", "discard", "merge"}, "hpet", "tickPolicy")
	}
}

// tscFrequency returns the frequency of the time stamp counter in Hz, 0 if none is promised. The recorded one of the first boot wins: a guest with an
// invariant TSC, or with Hyper-V's reenlightenment, keeps time by it. KubeVirt computes it anew at each start
// (virt-controller/watch/topology/tsc.go).
func (g *guest) tscFrequency() uint64 {
	if g.Frozen != nil && g.Frozen.TSC > 0 {
		return g.Frozen.TSC
	}
	if hints := g.VMI.Status.TopologyHints; hints != nil && hints.TSCFrequency != nil && *hints.TSCFrequency > 0 && g.spec.Architecture == "amd64" {
		return uint64(*hints.TSCFrequency)
	}
	return 0
}
