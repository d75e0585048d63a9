package admission

import (
	"fmt"

	"github.com/kilnvm/kiln/internal/resolve"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of an answer in bytes: no manifest makes an answer of megabytes. No machine has so many parts, and no user reads so many warnings. maxCauses bounds
// the causes of a refusal.
const (
	maxPatch    = 512 << 10 // a third more in base64
	maxWarnings = 64 << 10
)

// limitWarnings returns the response with the warnings that fit within maxWarnings.
func limitWarnings(response *admissionv1.AdmissionResponse) *admissionv1.AdmissionResponse {
	size := 0
	for i, warning := range response.Warnings {
		if size += len(warning); size > maxWarnings {
			response.Warnings = append(response.Warnings[:i:i], fmt.Sprintf("and %d more warnings", len(response.Warnings)-i))
			break
		}
	}
	return response
}

// checkPatchSize refuses a request whose patch is too large: half a patch would be another machine.
func checkPatchSize(patch []byte) error {
	if len(patch) <= maxPatch {
		return nil
	}
	tooLarge := field.Forbidden(field.NewPath("spec"), fmt.Sprintf("the changes that make the object explicit take %d bytes, which must be at most %d: "+
		"use fewer disks, volumes, networks and devices", len(patch), maxPatch)).WithOrigin("request/patch")
	return &resolve.Refusal{Errors: field.ErrorList{tooLarge}}
}
