package validate

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.interfaces[].ports and portRanges.
// Ports are those that masquerade forwards to the guest: numbers from 1 to 65535, TCP or UDP, with unique names.
// KubeVirt has these rules in validatePortConfiguration and validatePortRangesConfiguration.

var portRules = []guestRule{
	{ports, []Rule{
		{Name: "networks/port-name-twice"},
		{Name: "networks/port-name"},
		{Name: "networks/port-protocol"},
		{Name: "networks/port-given"},
		{Name: "networks/port"},
	}},
	{portRanges, []Rule{
		{Name: "networks/ranges-gate"},
		{Name: "networks/ranges-and-ports"},
		{Name: "networks/ranges-masquerade", MendedBy: byCompletion | byPreference},
		{Name: "networks/ranges-count"},
		{Name: "networks/range-protocol"},
		{Name: "networks/range-start"},
		{Name: "networks/range-end"},
		{Name: "networks/range-order"},
		{Name: "networks/range-overlap"},
	}},
}

const (
	// maxPort is the largest port number of TCP and UDP.
	maxPort = 65535
	// maxRanges is KubeVirt's limit per interface: each range is a rule in the pod.
	maxRanges = 10
)

// ports judges the pod network only: elsewhere ports have no effect.
// KubeVirt ignores them there too; Warnings reports them.
func ports(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if !slices.ContainsFunc(spec.Domain.Devices.Interfaces, func(nic v1.Interface) bool { return len(nic.Ports) > 0 }) {
		return nil // as for most VMIs: they need no index of their networks
	}
	index := networkIndex(spec)
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		if n := index[nic.Name]; n == nil || n.Pod == nil {
			continue
		}
		seen := map[string]bool{}
		for j, port := range nic.Ports {
			at := nicPath(path, i, "ports").Index(j)
			// A port needs no name: two without one are no duplicates.
			switch {
			case port.Name == "":
			case seen[port.Name]:
				errs = append(errs, field.Duplicate(at.Child("name"), port.Name).WithOrigin("networks/port-name-twice"))
			default:
				errs = append(errs, named(at.Child("name"), port.Name, validation.IsValidPortName).WithOrigin("networks/port-name")...)
			}
			seen[port.Name] = true
			if port.Protocol != "" {
				errs = append(errs, supported(at.Child("protocol"), port.Protocol, "TCP", "UDP").WithOrigin("networks/port-protocol")...)
			}
			// The field is no pointer, so 0 means that it is not set.
			switch {
			case port.Port == 0:
				errs = append(errs, field.Required(at.Child("port"), "give the port's number").WithOrigin("networks/port-given"))
			case port.Port < 0 || port.Port > maxPort:
				errs = append(errs, portNumber(at.Child("port"), port.Port).WithOrigin("networks/port"))
			}
		}
	}
	return errs
}

// portNumber is the error of a number that is out of range; the caller knows the rule.
func portNumber(at *field.Path, number int32) *field.Error {
	return field.Invalid(at, number, "must be between 1 and 65535")
}

// portRanges judges the gate on any network, and everything else on the pod network only, as KubeVirt does. KubeVirt also refuses an
// empty list of ports beside ranges.
func portRanges(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	if !slices.ContainsFunc(spec.Domain.Devices.Interfaces, func(nic v1.Interface) bool { return nic.PortRanges != nil }) {
		return nil
	}
	index := networkIndex(spec)
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		if nic.PortRanges == nil {
			continue
		}
		at := nicPath(path, i)
		if !limits.Gates.Enabled("PortRangesSpec") {
			errs = append(errs, gated(limits, "PortRangesSpec", at.Child("name")).WithOrigin("networks/ranges-gate")...)
			continue
		}
		if n := index[nic.Name]; n == nil || n.Pod == nil {
			continue
		}
		if len(nic.Ports) > 0 {
			errs = append(errs, field.Forbidden(at.Child("name"),
				"ports cannot be combined with portRanges: write the ports as ranges").WithOrigin("networks/ranges-and-ports"))
		}
		if nic.Masquerade == nil {
			errs = append(errs, field.Forbidden(at.Child("name"), "portRanges need binding masquerade").WithOrigin("networks/ranges-masquerade"))
		}
		at = at.Child("portRanges")
		if len(nic.PortRanges) > maxRanges {
			errs = append(errs, field.TooMany(at, len(nic.PortRanges), maxRanges).WithOrigin("networks/ranges-count"))
		}
		for j, r := range nic.PortRanges {
			errs = append(errs, portRange(at.Index(j), r)...)
		}
		errs = append(errs, overlaps(at, nic.PortRanges)...)
	}
	return errs
}

// portRange judges one range: both ends are inclusive, and a range of one port is legal.
func portRange(at *field.Path, r v1.PortRange) (errs field.ErrorList) {
	errs = supported(at.Child("protocol"), r.Protocol, "TCP", "UDP").WithOrigin("networks/range-protocol")
	if r.Start < 1 || r.Start > maxPort {
		errs = append(errs, portNumber(at.Child("start"), r.Start).WithOrigin("networks/range-start"))
	}
	if r.End < 1 || r.End > maxPort {
		errs = append(errs, portNumber(at.Child("end"), r.End).WithOrigin("networks/range-end"))
	}
	if r.Start > r.End {
		errs = append(errs, field.Invalid(at.Child("start"), r.Start, fmt.Sprintf("must not be greater than end (%d)", r.End)).WithOrigin("networks/range-order"))
	}
	return errs
}

// overlaps compares each pair of ranges, of which rule networks/ranges-count allows few. It reports the later of two ranges of one protocol that share a port.
// KubeVirt reports overlaps in the order of a map. Each range is reported once, however many it overlaps.
func overlaps(at *field.Path, ranges []v1.PortRange) (errs field.ErrorList) {
	for j, r := range ranges {
		for k, other := range ranges[:j] {
			if r.Protocol == other.Protocol && r.Start <= other.End && other.Start <= r.End {
				errs = append(errs, field.Invalid(at.Index(j), fmt.Sprintf("%d-%d", r.Start, r.End),
					fmt.Sprintf("overlaps with portRanges[%d] (%d-%d)", k, other.Start, other.End)).WithOrigin("networks/range-overlap"))
				break
			}
		}
	}
	return errs
}
