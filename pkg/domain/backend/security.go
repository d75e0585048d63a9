package backend

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// couplings are the places where what the guest sees and what the host gives depend on each other. Each names both sides. The
// frontend is never altered to fit: the guest runs elsewhere, or its owner changes it.
func (h *host) couplings() {
	for _, c := range coupled {
		if c.broken(h) {
			h.fail(field.Invalid(c.path(h.domain), "", c.why))
		}
	}
}

var coupled = []struct {
	path   func(domain *field.Path) *field.Path
	broken func(*host) bool
	why    string
}{
	{
		path: func(d *field.Path) *field.Path { return d.Child("devices", "networkInterfaceMultiqueue") },
		broken: func(h *host) bool {
			for _, nic := range h.Frontend.Devices.Interfaces {
				user := h.Bindings.NICs[trimmed(nic.Alias)].Kind
				if nic.Driver != nil && nic.Driver.Queues > 1 && (user == "user" || user == "passt") {
					return true
				}
			}
			return false
		},
		why: "several queues need a tap or bridge on the host, and this host binds the interface in user space",
	},
	{
		path: func(d *field.Path) *field.Path { return d.Child("cpu", "model") },
		broken: func(h *host) bool {
			return h.Frontend.CPU != nil && h.Frontend.CPU.Mode == "host-passthrough" && h.virtType() == "qemu" && h.spec.Architecture != "s390x"
		},
		why: "the host's own CPU ('host-passthrough') needs hardware virtualization, and this host emulates",
	},
}

func trimmed(alias *libvirtxml.DomainAlias) string {
	if alias == nil {
		return ""
	}
	return alias.Name[len("ua-"):]
}
