package main

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// objectDeviation is a difference of objects that docs/deviations.md lists under the same name.
type objectDeviation struct {
	name     string
	explains func(record, difference) bool
}

var objectDeviations = []objectDeviation{
	{"`overcommitPercent`", func(c record, d difference) bool {
		return strings.HasSuffix(d.path, ".resources.requests.memory") && c.Instancetype != nil && c.Instancetype.Memory.OvercommitPercent != 0
	}},
	{"A preference that cannot exist", func(c record, d difference) bool {
		return topologyPath.MatchString(d.path) && c.Preference != nil && len(validate.Preference(c.Preference, nil)) > 0
	}},
	{"A number of vCPUs that cannot be spread", func(c record, d difference) bool {
		return topologyPath.MatchString(d.path) && c.Expect.SpreadCheck != nil
	}},
	{"Threads of a core", func(c record, d difference) bool {
		return topologyPath.MatchString(d.path) && acrossThreads(c.Preference)
	}},
	{"`preferredVirtualGPUOptions`", func(c record, d difference) bool {
		return strings.Contains(d.path, ".virtualGPUOptions") && c.Preference != nil && c.Preference.Devices != nil && c.Preference.Devices.PreferredVirtualGPUOptions != nil
	}},
	{"`preferredAcpi` and `preferredDisableHotplug`", func(c record, d difference) bool {
		return strings.HasSuffix(d.path, ".features.acpi.enabled") || strings.HasSuffix(d.path, ".devices.disableHotplug")
	}},
	{"A CPU topology given in part", func(c record, d difference) bool {
		return (topologyPath.MatchString(d.path) || strings.HasSuffix(d.path, ".cpu.maxSockets")) && partialTopology(c)
	}},
	{"The ceiling of CPU hotplug", func(_ record, d difference) bool {
		want, _ := d.want.(float64)
		return strings.HasSuffix(d.path, ".cpu.maxSockets") && want > 0
	}},
	{"A CPU limit of zero", func(_ record, d difference) bool {
		return strings.HasSuffix(d.path, ".resources.requests.cpu") && d.want == nil && d.got == "0"
	}},
	{"evmcs and the CPU feature vmx", func(_ record, d difference) bool { return strings.HasSuffix(d.path, ".cpu.features") }},
	{"Requests of presets", func(c record, d difference) bool {
		return len(c.Presets) > 0 && (strings.Contains(d.path, ".resources.requests") || strings.Contains(d.path, "virtualmachinepreset.kubevirt.io/"))
	}},
}

var topologyPath = regexp.MustCompile(`\.domain\.cpu\.(cores|sockets|threads)$`)

func acrossThreads(p *v1beta1.VirtualMachinePreferenceSpec) bool {
	return p != nil && p.CPU != nil && p.CPU.SpreadOptions != nil && p.CPU.SpreadOptions.Across != nil &&
		*p.CPU.SpreadOptions.Across == v1beta1.SpreadAcrossCoresThreads
}

// partialTopology tells whether the guest, or a preset, gives some of sockets, cores and threads and not all.
func partialTopology(c record) bool {
	var vmi v1.VirtualMachineInstance
	if json.Unmarshal(c.VMI, &vmi) != nil {
		return false
	}
	some := []*v1.CPU{vmi.Spec.Domain.CPU}
	for _, preset := range c.Presets {
		if preset.Spec.Domain != nil {
			some = append(some, preset.Spec.Domain.CPU)
		}
	}
	for _, cpu := range some {
		if cpu != nil && cpu.Cores+cpu.Sockets+cpu.Threads > 0 && (cpu.Cores == 0 || cpu.Sockets == 0 || cpu.Threads == 0) {
			return true
		}
	}
	return false
}
