package instancetype

import (
	"maps"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a size: nodeSelector, schedulerName, annotations. Fields of a preference: preferredSubdomain,
// preferredTerminationGracePeriodSeconds, annotations.

func placementClaims(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) (claims []claim) {
	size, spec := set.Instancetype.Spec, path.Child("spec")
	if size.NodeSelector != nil { // an empty one, of the size or of the guest, says 'any node', which is a choice too
		c := claim{path: spec.Child("nodeSelector"), size: size.NodeSelector, same: maps.Equal(size.NodeSelector, vmi.Spec.NodeSelector)}
		if vmi.Spec.NodeSelector != nil {
			c.given = vmi.Spec.NodeSelector
		}
		claims = append(claims, c)
	}
	if size.SchedulerName != "" {
		claims = append(claims, claim{path: spec.Child("schedulerName"), given: text(vmi.Spec.SchedulerName),
			size: size.SchedulerName, same: vmi.Spec.SchedulerName == size.SchedulerName})
	}
	return claims
}

// text is a string as a claim's given value: empty means not given.
func text[T ~string](value T) any {
	if value == "" {
		return nil
	}
	return value
}

func applyPlacement(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Instancetype.Spec.NodeSelector != nil {
		put(log, &vmi.Spec.NodeSelector, maps.Clone(set.Instancetype.Spec.NodeSelector))
	}
	fillText(log, &vmi.Spec.SchedulerName, set.Instancetype.Spec.SchedulerName)
}

func annotationClaims(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) (claims []claim) {
	for _, key := range sortedKeys(set.Instancetype.Spec.Annotations) {
		wanted := set.Instancetype.Spec.Annotations[key]
		// The same value twice is no conflict, on a VM neither: annotations are often set by tools that know the size.
		if given, found := vmi.Annotations[key]; found && given != wanted {
			claims = append(claims, claim{path: path.Child("metadata", "annotations").Key(key), given: given, size: wanted})
		}
	}
	return claims
}

func applyAnnotations(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	addAnnotations(vmi, set.Instancetype.Spec.Annotations, log)
}

func preferAnnotations(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	addAnnotations(vmi, p.Spec.Annotations, log)
}

// addAnnotations adds those whose keys are absent.
func addAnnotations(vmi *v1.VirtualMachineInstance, from map[string]string, log *filled.Log) {
	for key, value := range from {
		if _, found := vmi.Annotations[key]; found {
			continue
		}
		if vmi.Annotations == nil {
			vmi.Annotations = map[string]string{}
		}
		vmi.Annotations[key] = value
		log.Key("metadata.annotations", key)
	}
}

func preferPlacement(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.PreferredSubdomain != nil {
		fillText(log, &vmi.Spec.Subdomain, *p.Spec.PreferredSubdomain)
	}
	fill(log, &vmi.Spec.TerminationGracePeriodSeconds, p.Spec.PreferredTerminationGracePeriodSeconds)
}
