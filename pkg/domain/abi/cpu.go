package abi

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// ReadCPU returns the CPU of a domain in the form of records. Model is empty if the domain has none. A feature with policy optional is in neither list.
func ReadCPU(cpu *libvirtxml.DomainCPU) (out record.CPU) {
	if cpu.Model != nil {
		out.Model, out.Vendor = cpu.Model.Value, cpu.Vendor
	}
	has, lacks := 0, 0 // host-model has a hundred features
	for i := range cpu.Features {
		switch cpu.Features[i].Policy {
		case "require", "force", "":
			has++
		case "disable", "forbid":
			lacks++
		}
	}
	out.Features, out.DisabledFeatures = slices.Grow(out.Features, has), slices.Grow(out.DisabledFeatures, lacks)
	for _, f := range cpu.Features {
		switch f.Policy {
		case "require", "force", "":
			out.Features = append(out.Features, f.Name)
		case "disable", "forbid":
			out.DisabledFeatures = append(out.DisabledFeatures, f.Name)
		}
	}
	slices.Sort(out.Features)
	slices.Sort(out.DisabledFeatures)
	out.Features, out.DisabledFeatures = slices.Compact(out.Features), slices.Compact(out.DisabledFeatures)
	out.DisabledFeatures = slices.DeleteFunc(out.DisabledFeatures, func(name string) bool {
		_, both := slices.BinarySearch(out.Features, name)
		return both
	})
	if width := cpu.MaxPhysAddr; width != nil && width.Mode == "emulate" {
		out.PhysicalBits = width.Bits
	}
	if t := cpu.Topology; t != nil {
		out.Topology = record.Topology{Sockets: uint(t.Sockets), Cores: uint(t.Cores), Threads: uint(t.Threads)} //nolint:gosec // libvirt's are positive
	}
	return out
}
