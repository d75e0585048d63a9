package validate

import (
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NamesArchitecture reports whether the message of an error about a draft names the architecture of the VMI. The Origin of an error is the name of its rule.
// Three rules have messages with the architecture and messages without.
func NamesArchitecture(err *field.Error, draft Draft) bool {
	spec := &draft.Explicit.Spec
	switch err.Origin {
	case "memory/page-size-architecture":
		if draft.Written != nil { // an unknown object may mend the error, which therefore is about Written
			spec = &draft.Written.Spec
		}
		return hugePages[spec.Architecture] != nil
	case "memory/growth":
		_, ofArchitecture := vm.FixedMemory(spec, *spec.Domain.Memory.MaxGuest)
		return ofArchitecture
	case "devices/pci-address":
		text, _ := err.BadValue.(string)
		at, malformed := address.ParsePCI(text)
		return spec.Architecture == s390x && malformed == nil && !at.OnZPCI()
	}
	return declared[err.Origin].NamesArchitecture
}
