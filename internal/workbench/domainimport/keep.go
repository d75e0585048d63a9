package domainimport

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// keeper sets in a VM the fields that a preference would change otherwise: a preference fills only fields that the VM does not set.
type keeper struct {
	arch     string
	repairer *repairer
	// kept are the paths of the fields of the VMI that the VM sets now. The first ones are of earlier objects.
	kept    []string
	earlier int
	// changed are the fields of the VMI that were different at first.
	changed []string
}

// each calls change with both forms of the VM.
func (r *repairer) each(change func(*unstructured.Unstructured)) {
	change(r.object)
	change(r.judged)
}

// absents are the parts of a VMI that have a value with the meaning of their absence. Each is of the architectures; of all if there are none.
var absents = []struct {
	path          string
	value         map[string]any
	architectures []string
	isAbsent      func(*v1.VirtualMachineInstance) bool
}{
	{"spec.domain.firmware.bootloader", map[string]any{"bios": map[string]any{}}, []string{"amd64"},
		func(vmi *v1.VirtualMachineInstance) bool {
			return vmi.Spec.Domain.Firmware == nil || vmi.Spec.Domain.Firmware.Bootloader == nil || vmi.Spec.Domain.Firmware.Bootloader.EFI == nil
		}},
	{"spec.domain.devices.tpm", map[string]any{"enabled": false}, []string{"amd64", "arm64"},
		func(vmi *v1.VirtualMachineInstance) bool { return vmi.Spec.Domain.Devices.TPM == nil }},
}

// keepAbsent sets the absence of a part of the VMI to which a path leads; of all such parts if the path is empty. It returns false if it sets nothing new.
func (k *keeper) keepAbsent(path string, base *v1.VirtualMachineInstance) (set bool) {
	for _, part := range absents {
		reached := path == "" || strings.HasPrefix(path, part.path+".")
		if reached && slices.Contains(part.architectures, k.arch) && part.isAbsent(base) && !slices.Contains(k.kept, part.path) {
			set = k.keepLeaf(part.path, part.value) || set
		}
	}
	return set
}

// keep sets the fields that are different, which have two values each: without and with the preference. It returns false if it sets nothing new.
func (k *keeper) keep(differing []string, values map[string][2]any, base *v1.VirtualMachineInstance) (set bool) {
	if k.changed == nil {
		k.changed = differing
	}
	for _, path := range differing {
		if value, known := keptValue(path, values); known && !slices.Contains(k.kept, path) && !slices.Contains(sizeFields, path) {
			set = k.keepLeaf(path, value) || set
		}
		set = k.keepAbsent(path, base) || set
	}
	return set
}

// keepLeaf sets one field of the VMI in the VM.
func (k *keeper) keepLeaf(path string, value any) (set bool) {
	k.repairer.each(func(vm *unstructured.Unstructured) { set = setLeaf(vm.Object, path, value) })
	if set {
		k.kept = append(k.kept, path)
	}
	return set
}

// keptValue returns the value with which the VM keeps a field below spec.domain as it is without the preference. A switch that is not set means its opposite.
// An object that is not set has no such value.
func keptValue(path string, values map[string][2]any) (value any, known bool) {
	if !strings.HasPrefix(path, "spec.domain.") {
		return nil, false
	}
	if before := values[path][0]; before != nil {
		return before, true
	}
	for _, part := range absents {
		if strings.HasPrefix(path, part.path+".") {
			return nil, false
		}
	}
	on, isSwitch := values[path][1].(bool)
	return !on, isSwitch
}

// details say which fields the VM sets because of the preference, and which fields of the VMI are different though the domain is the same.
func (k *keeper) details(differing []string) (details []string) {
	if kept := slices.Sorted(slices.Values(k.kept[k.earlier:])); len(kept) > 0 {
		details = append(details, "the VM sets "+strings.Join(kept, ", ")+" itself, as the domain had it")
	}
	others := slices.DeleteFunc(differing, func(path string) bool {
		return slices.ContainsFunc(k.kept, func(kept string) bool { return path == kept || strings.HasPrefix(path, kept+".") })
	})
	if len(others) > 0 {
		details = append(details, "it also sets "+strings.Join(others, ", ")+", which changes no hardware")
	}
	return details
}
