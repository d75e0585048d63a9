package fields

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// reduceUntilLegal takes from a sample what the runtime refuses, until it starts. What is taken away is refused.
func (t trial) reduceUntilLegal(vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstance, answer, error) {
	for range 64 {
		explicit, errs := t.admitExplicit(vmi)
		var whole answer
		if len(errs) == 0 {
			whole = t.runStages(explicit, t.cluster)
			errs = whole.refused
		}
		if len(errs) == 0 {
			return vmi, whole, nil
		}
		cuts, err := t.withoutRefused(vmi, strings.TrimPrefix(errs[0].Field, "spec."))
		if err != nil {
			return nil, whole, fmt.Errorf("%s cannot start: %w: %w", vmi.Name, err, errs[0])
		}
		spec, first := asJSONObject(vmi.Spec)
		left, second := asJSONObject(cuts.vmi.Spec)
		if err := errors.Join(first, second); err != nil {
			return nil, whole, err
		}
		for _, leaf := range t.leaves {
			if len(placesOfLeaf(left, leaf)) < len(placesOfLeaf(spec, leaf)) {
				t.found.addVerdict(leaf, Refused)
			}
		}
		vmi = cuts.vmi
	}
	return nil, answer{}, fmt.Errorf("%s cannot start: %w", vmi.Name, t.startError(vmi))
}

// remainder is a VMI without what stood at a path.
type remainder struct {
	vmi *v1.VirtualMachineInstance
	at  string
}

// withoutRefused takes away what an error names: the field, or the element of a list with what has its name, if no VMI can be without only the field.
func (t trial) withoutRefused(vmi *v1.VirtualMachineInstance, at string) (s remainder, err error) {
	for ; at != "" && at != "domain" && at != "domain.devices"; at = parentPath(at) {
		less, err := withoutPath(vmi, at)
		if err != nil {
			return s, err
		}
		if less != nil && strings.HasSuffix(at, "]") {
			return remainder{withoutNamed(vmi, less), at}, nil
		}
		if less == nil {
			continue
		}
		_, errs := t.admitExplicit(less)
		again := func(e *field.Error) bool { return isWithin(strings.TrimPrefix(e.Field, "spec."), innermostElement(at)) }
		if !slices.ContainsFunc(errs, again) {
			return remainder{less, at}, nil
		}
	}
	return s, errors.New("nothing can be taken away")
}

// innermostElement returns the innermost element of a list that holds a path, or what holds the path.
func innermostElement(at string) string {
	if i := strings.LastIndexByte(at, ']'); i >= 0 {
		return at[:i+1]
	}
	return parentPath(at)
}

// withoutNamed takes from a VMI what has the name of an element that it lacks: the disk of a volume, the interface of a network.
func withoutNamed(was, less *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
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

// startError returns why a VMI does not start.
func (t trial) startError(vmi *v1.VirtualMachineInstance) error {
	explicit, errs := t.admitExplicit(vmi)
	if len(errs) == 0 {
		errs = t.runStages(explicit, t.cluster).refused
	}
	return errs.ToAggregate()
}
