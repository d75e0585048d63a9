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
	h.addError(field.Invalid(field.NewPath("spec", "architecture"), h.spec.Architecture, h.nodeName()+" has no hypervisor for this architecture"))
	return ""
}

// emulatorPath returns the path of QEMU. It adds an error at the field with the machine type if the host's QEMU does not have the type.
func (h *host) emulatorPath() string {
	emulator := h.Host.Emulators[h.spec.Architecture]
	if emulator == "" {
		h.addError(field.Invalid(field.NewPath("spec", "architecture"), h.spec.Architecture, h.nodeName()+" has no emulator for this architecture"))
	}
	machines, machine := h.Host.Machines[h.spec.Architecture], h.Frontend.OS.Type.Machine
	if _, known := machines[machine]; len(machines) > 0 && !known {
		h.addError(field.Invalid(h.domain.Child("machine", "type"), machine, "the QEMU of "+h.nodeName()+" does not have this machine"))
	}
	return emulator
}

// onCrash returns hostProfile.lifecycle.onCrash, else the frontend's. The guest does not see it.
func (h *host) onCrash() string {
	return cmp.Or(h.policy.Lifecycle.OnCrash, h.Frontend.OnCrash)
}

// resourcePartition returns the cgroup of hostProfile.security.resourcePartition.
func (h *host) resourcePartition() *libvirtxml.DomainResource {
	if h.policy.Security.ResourcePartition == "" {
		return nil
	}
	return &libvirtxml.DomainResource{Partition: h.policy.Security.ResourcePartition}
}

// matchesMachine reports whether one of the glob patterns of a firmware descriptor matches a machine type. An invalid pattern matches nothing.
func matchesMachine(patterns []string, machine string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, machine)
		return ok && err == nil
	})
}
