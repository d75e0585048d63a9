package fields

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// legal takes from a sample what the runtime refuses, until it starts. What is taken away is refused.
func (t trial) legal(vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstance, answer, error) {
	for range 64 {
		explicit, errs := t.explicit(vmi)
		var whole answer
		if len(errs) == 0 {
			whole = t.of(explicit, t.cluster)
			errs = whole.refused
		}
		if len(errs) == 0 {
			return vmi, whole, nil
		}
		cuts, err := t.shorter(vmi, strings.TrimPrefix(errs[0].Field, "spec."))
		if err != nil {
			return nil, whole, fmt.Errorf("%s cannot start: %w: %w", vmi.Name, err, errs[0])
		}
		spec, first := general(vmi.Spec)
		left, second := general(cuts.vmi.Spec)
		if err := errors.Join(first, second); err != nil {
			return nil, whole, err
		}
		for _, leaf := range t.leaves {
			if len(places(left, leaf)) < len(places(spec, leaf)) {
				t.found.take(leaf, Refused)
			}
		}
		vmi = cuts.vmi
	}
	return nil, answer{}, fmt.Errorf("%s cannot start: %w", vmi.Name, t.last(vmi))
}

// remainder is a VMI without what stood at a path.
type remainder struct {
	vmi *v1.VirtualMachineInstance
	at  string
}

// shorter takes away what an error names: the field, or the element of a list with what has its name, if no VMI can be without the field alone.
func (t trial) shorter(vmi *v1.VirtualMachineInstance, at string) (s remainder, err error) {
	for ; at != "" && at != "domain" && at != "domain.devices"; at = parent(at) {
		less, err := cut(vmi, at)
		if err != nil {
			return s, err
		}
		if less != nil && strings.HasSuffix(at, "]") {
			return remainder{unnamed(vmi, less), at}, nil
		}
		if less == nil {
			continue
		}
		if _, errs := t.explicit(less); !slices.ContainsFunc(errs, func(e *field.Error) bool { return within(strings.TrimPrefix(e.Field, "spec."), element(at)) }) {
			return remainder{less, at}, nil
		}
	}
	return s, errors.New("nothing can be taken away")
}

// element is the innermost element of a list that holds a path, or what holds the path.
func element(at string) string {
	if i := strings.LastIndexByte(at, ']'); i >= 0 {
		return at[:i+1]
	}
	return parent(at)
}

// unnamed takes from a VMI what has the name of an element that it lacks: the disk of a volume, the interface of a network.
func unnamed(was, less *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	names := func(vmi *v1.VirtualMachineInstance) (volumes, disks, networks, nics []string) {
		for _, v := range vmi.Spec.Volumes {
			volumes = append(volumes, v.Name)
		}
		for _, d := range vmi.Spec.Domain.Devices.Disks {
			disks = append(disks, d.Name)
		}
		for _, f := range vmi.Spec.Domain.Devices.Filesystems {
			disks = append(disks, f.Name)
		}
		for _, n := range vmi.Spec.Networks {
			networks = append(networks, n.Name)
		}
		for _, n := range vmi.Spec.Domain.Devices.Interfaces {
			nics = append(nics, n.Name)
		}
		return volumes, disks, networks, nics
	}
	volumes, disks, networks, nics := names(was)
	leftVolumes, leftDisks, leftNetworks, leftNICs := names(less)
	gone := func(name string) bool {
		lost := func(before, after []string) bool {
			return slices.Contains(before, name) && !slices.Contains(after, name)
		}
		return lost(volumes, leftVolumes) || lost(disks, leftDisks) || lost(networks, leftNetworks) || lost(nics, leftNICs)
	}
	spec, devices := &less.Spec, &less.Spec.Domain.Devices
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v v1.Volume) bool { return gone(v.Name) })
	spec.Networks = slices.DeleteFunc(spec.Networks, func(n v1.Network) bool { return gone(n.Name) })
	devices.Disks = slices.DeleteFunc(devices.Disks, func(d v1.Disk) bool { return gone(d.Name) })
	devices.Filesystems = slices.DeleteFunc(devices.Filesystems, func(f v1.Filesystem) bool { return gone(f.Name) })
	devices.Interfaces = slices.DeleteFunc(devices.Interfaces, func(n v1.Interface) bool { return gone(n.Name) })
	return less
}

// last is why a VMI does not start.
func (t trial) last(vmi *v1.VirtualMachineInstance) error {
	explicit, errs := t.explicit(vmi)
	if len(errs) == 0 {
		errs = t.of(explicit, t.cluster).refused
	}
	return errs.ToAggregate()
}
