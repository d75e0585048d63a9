package backend

import (
	"cmp"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Elements: domain@type, emulator, on_crash, resource. The host chooses the hypervisor; its QEMU must have the recorded machine type, which an
// older QEMU may not.
// KubeVirt: converter/kvm/configurator.go. libvirt: "Element and attribute overview", "Events configuration", "Resource partitioning".

// virtType returns the host's first virtualization type that runs the VMI's architecture.
func (h *host) virtType() string {
	for _, kind := range h.Host.VirtTypes {
		// KVM runs the host's own architecture only.
		if kind == "qemu" || kind == "kvm" && h.spec.Architecture == h.Host.Architecture {
			return kind
		}
	}
	h.fail(field.Invalid(field.NewPath("spec", "architecture"), h.spec.Architecture, h.node()+" has no hypervisor for this architecture"))
	return ""
}

// emulator is the path of QEMU. A host whose QEMU lacks the machine type is refused here, at the field that asks for it.
func (h *host) emulator() string {
	emulator := h.Host.Emulators[h.spec.Architecture]
	if emulator == "" {
		h.fail(field.Invalid(field.NewPath("spec", "architecture"), h.spec.Architecture, h.node()+" has no emulator for this architecture"))
	}
	machines, machine := h.Host.Machines[h.spec.Architecture], h.Frontend.OS.Type.Machine
	if _, known := machines[machine]; len(machines) > 0 && !known {
		h.fail(field.Invalid(h.domain.Child("machine", "type"), machine, "the QEMU of "+h.node()+" does not have this machine"))
	}
	return emulator
}

// onCrash is hostProfile.lifecycle.onCrash, else the frontend's. The guest does not see it.
func (h *host) onCrash() string {
	return cmp.Or(h.policy.Lifecycle.OnCrash, h.Frontend.OnCrash)
}

// resource is the cgroup of hostProfile.security.resourcePartition.
func (h *host) resource() *libvirtxml.DomainResource {
	if h.policy.Security.ResourcePartition == "" {
		return nil
	}
	return &libvirtxml.DomainResource{Partition: h.policy.Security.ResourcePartition}
}

// matches reports whether one of the glob patterns of a firmware descriptor matches a machine type. An invalid pattern matches nothing.
func matches(patterns []string, machine string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, machine)
		return ok && err == nil
	})
}
