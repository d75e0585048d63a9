// Package preset says which VirtualMachineInstancePresets match a guest, whether they agree, and what they fill.
// A preset fills only what user, size and preference left unset.
package preset

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Apply fills matching presets, in name order, into the guest, and annotates it with those applied. Errors are
// invalid selectors and presets that disagree (nothing is filled then). Warnings name each preset field not applied and why.
func Apply(presets []v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance) (warnings []string, errs field.ErrorList) {
	return nil, nil
}
