package frontend

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns domain.clock, and the frequency of the time stamp counter that status.topologyHints promises.

func (g *guest) clock() *libvirtxml.DomainClock {
	// A guest without a clock in its spec runs on UTC; libvirt would write the same.
	out := &libvirtxml.DomainClock{Offset: "utc"}
	if c := g.spec.Domain.Clock; c != nil {
		switch {
		case c.UTC != nil && c.UTC.OffsetSeconds != nil:
			// libvirt's name for a UTC clock with an offset that keeps what the guest changes.
			out.Offset, out.Basis, out.Adjustment = "variable", "utc", strconv.Itoa(*c.UTC.OffsetSeconds)
		case c.UTC != nil:
			out.Adjustment = "reset" // changes by the guest last until its next start
		case c.Timezone != nil:
			out.Offset, out.TimeZone = "timezone", string(*c.Timezone)
		}
		out.Timer = g.timers()
	}
	if hz := g.tsc(); hz > 0 {
		out.Timer = append(out.Timer, libvirtxml.DomainTimer{Name: "tsc", Frequency: hz})
	}
	return out
}

func (g *guest) timers() []libvirtxml.DomainTimer {
	t := g.spec.Domain.Clock.Timer
	if t == nil {
		return nil
	}
	var out []libvirtxml.DomainTimer
	path := g.path.Child("clock", "timer")
	add := func(timer libvirtxml.DomainTimer, present *bool, name string) {
		if present == nil {
			g.fail(field.Required(path.Child(name, "present"), ""))
			return
		}
		timer.Present = yesNo(*present)
		out = append(out, timer)
	}
	g.ticks(t, path)
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

// ticks refuses tick policies that libvirt does not have for the timer.
func (g *guest) ticks(t *v1.Timer, path *field.Path) {
	word := func(value string, words []string, names ...string) {
		if value != "" && !slices.Contains(words, value) {
			g.fail(field.NotSupported(path.Child(names[0], names[1:]...), value, words))
		}
	}
	if t.RTC != nil {
		word(string(t.RTC.TickPolicy), []string{"catchup", "delay"}, "rtc", "tickPolicy")
		word(string(t.RTC.Track), []string{"boot", "guest", "wall"}, "rtc", "track")
	}
	if t.PIT != nil {
		word(string(t.PIT.TickPolicy), []string{"catchup", "delay", "discard"}, "pit", "tickPolicy")
	}
	if t.HPET != nil {
		word(string(t.HPET.TickPolicy), []string{"catchup", "delay", "discard", "merge"}, "hpet", "tickPolicy")
	}
}

// tsc returns the frequency of the time stamp counter in Hz, 0 if none is promised. The recorded one of the first boot wins.
func (g *guest) tsc() uint64 {
	if g.Frozen != nil && g.Frozen.TSC > 0 {
		return g.Frozen.TSC
	}
	if hints := g.VMI.Status.TopologyHints; hints != nil && hints.TSCFrequency != nil && *hints.TSCFrequency > 0 && g.spec.Architecture == "amd64" {
		return uint64(*hints.TSCFrequency)
	}
	return 0
}
