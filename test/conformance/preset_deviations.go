package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// presetDeviations are the deviations of VMIs that presets fill.
var presetDeviations = []objectDeviation{
	// The reference merges the requests of presets all or nothing, and Kiln key by key. Only what a preset's request fills may differ: the request, the memory
	// and sockets taken from it, and the annotation that names the preset.
	{"Requests of presets", func(c record, d difference) bool {
		return (isEmptyValue(d.want) || strings.HasPrefix(d.path, "spec.domain.memory.") && c.requestsNoMemory() ||
			strings.HasPrefix(d.path, "spec.domain.cpu.") && c.requestsNoCPU()) &&
			c.presetsThat(func(name string, domain *v1.DomainSpec) bool {
				return d.path == appliedBy(name) && len(domain.Resources.Requests) > 0 || filledByRequest(d.path, domain)
			})
	}},
	// The reference drops a preset's offset if the VMI has timers of its own. Kiln fills what is unset.
	{"Clock offsets of presets", func(c record, d difference) bool {
		return isEmptyValue(d.want) && c.presetsThat(func(name string, domain *v1.DomainSpec) bool {
			return hasClockOffset(domain) && (d.path == appliedBy(name) || strings.HasPrefix(d.path, "spec.domain.clock."))
		})
	}},
}

// appliedBy is the path of the annotation that a preset leaves.
func appliedBy(preset string) string { return "annotations.virtualmachinepreset.kubevirt.io/" + preset }

// filledByRequest reports whether a path is one that a preset's request fills: the request itself, or the VMI's memory that is taken from it.
func filledByRequest(path string, domain *v1.DomainSpec) bool {
	for resource := range domain.Resources.Requests {
		if path == "spec.domain.resources.requests."+string(resource) {
			return true
		}
	}
	if _, cpu := domain.Resources.Requests[corev1.ResourceCPU]; cpu && strings.HasSuffix(strings.ToLower(path), "sockets") {
		return true // they are counted from the request
	}
	_, memory := domain.Resources.Requests[corev1.ResourceMemory]
	return memory && (path == "spec.domain.memory.guest" || path == "spec.domain.memory.maxGuest")
}

// requestsNoMemory reports whether the reference's VMI has no request, which it would have had from a preset, and so its limit's memory.
func (c record) requestsNoMemory() bool {
	want, err := recordedVMI(c)
	return err == nil && want.Spec.Domain.Resources.Requests.Memory().IsZero()
}

// requestsNoCPU reports whether the reference's VMI has no request for CPUs, which it would have had from a preset, and so one socket.
func (c record) requestsNoCPU() bool {
	want, err := recordedVMI(c)
	return err == nil && want.Spec.Domain.Resources.Requests.Cpu().IsZero()
}

// hasClockOffset reports whether a domain has a clock with an offset: UTC or a time zone.
func hasClockOffset(domain *v1.DomainSpec) bool {
	return domain.Clock != nil && domain.Clock.ClockOffset != v1.ClockOffset{}
}

// presetsThat reports whether a preset of the case matches. Presets without a domain change nothing.
func (c record) presetsThat(match func(name string, domain *v1.DomainSpec) bool) bool {
	for _, preset := range c.Presets {
		if preset.Spec.Domain != nil && match(preset.Name, preset.Spec.Domain) {
			return true
		}
	}
	return false
}

// presetsRespell reports whether two presets request the same of something in different words, such as '1' and '1000m', which the reference
// takes for a disagreement.
func (c record) presetsRespell() bool {
	seen := map[corev1.ResourceName]resource.Quantity{}
	return c.presetsThat(func(_ string, domain *v1.DomainSpec) bool {
		for name, quantity := range domain.Resources.Requests {
			other, found := seen[name]
			if found && other.Cmp(quantity) == 0 && other != quantity {
				return true
			}
			seen[name] = quantity
		}
		return false
	})
}

// clocksDiffer reports whether one preset gives a clock's offset and another a clock without one, which the reference takes for a
// disagreement.
func (c record) clocksDiffer() bool {
	return c.presetsThat(func(_ string, domain *v1.DomainSpec) bool { return hasClockOffset(domain) }) &&
		c.presetsThat(func(_ string, domain *v1.DomainSpec) bool { return domain.Clock != nil && !hasClockOffset(domain) })
}
