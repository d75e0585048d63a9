package condition

import "k8s.io/apimachinery/pkg/util/validation/field"

// OriginReason is the reason of a condition for errors of one origin.
type OriginReason struct{ Origin, Reason string }

// ReasonByOrigin returns the first of the known reasons whose origin an error has. It returns other if an error has another origin, because what helps against
// the known ones does not help then.
func ReasonByOrigin(errs field.ErrorList, known []OriginReason, other string) string {
	origins := map[string]bool{}
	for _, err := range errs {
		origins[err.Origin] = true
	}
	reason := other
	for _, of := range known {
		if origins[of.Origin] && reason == other {
			reason = of.Reason
		}
		delete(origins, of.Origin)
	}
	if len(origins) > 0 {
		return other
	}
	return reason
}
