package instancetype

import (
	"maps"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of an instancetype: nodeSelector, schedulerName, annotations. Fields of a preference: preferredSubdomain,
// preferredTerminationGracePeriodSeconds, annotations.

// ownedSchedulingFields returns the fields of applyNodeSelector and applySchedulerName.
func ownedSchedulingFields(set Set, vmi *v1.VirtualMachineInstance) (fields []ownedField) {
	wanted := set.Instancetype.Spec
	if wanted.NodeSelector != nil { // an empty map is set, in the instancetype and in the VMI: it means any node
		c := ownedField{field: "spec.nodeSelector", wanted: wanted.NodeSelector, same: maps.Equal(wanted.NodeSelector, vmi.Spec.NodeSelector)}
		if vmi.Spec.NodeSelector != nil {
			c.given = vmi.Spec.NodeSelector
		}
		fields = append(fields, c)
	}
	if wanted.SchedulerName != "" {
		fields = append(fields, ownedField{field: "spec.schedulerName", given: textOrNil(vmi.Spec.SchedulerName),
			wanted: wanted.SchedulerName, same: vmi.Spec.SchedulerName == wanted.SchedulerName})
	}
	return fields
}

// textOrNil returns a text as ownedField.given. It is nil for an empty text, which means unset.
func textOrNil[T ~string](value T) any {
	if value == "" {
		return nil
	}
	return value
}

// applyScheduling is applyNodeSelector and applySchedulerName.
func applyScheduling(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Instancetype.Spec.NodeSelector != nil {
		putValue(log, &vmi.Spec.NodeSelector, maps.Clone(set.Instancetype.Spec.NodeSelector))
	}
	fillText(log, &vmi.Spec.SchedulerName, set.Instancetype.Spec.SchedulerName)
}

// ownedAnnotationFields returns the fields of applyInstanceTypeAnnotations. An equal value is no conflict, not even in a VM, as in KubeVirt. Keys are sorted so
// that errors have a stable order.
func ownedAnnotationFields(set Set, vmi *v1.VirtualMachineInstance) (fields []ownedField) {
	for _, key := range sortedKeys(set.Instancetype.Spec.Annotations) {
		wanted := set.Instancetype.Spec.Annotations[key]
		if given, found := vmi.Annotations[key]; found && given != wanted {
			fields = append(fields, ownedField{field: "metadata.annotations", key: key, given: given, wanted: wanted})
		}
	}
	return fields
}

func applyAnnotations(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	addAnnotations(vmi, set.Instancetype.Spec.Annotations, log)
}

func preferAnnotations(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	addAnnotations(vmi, p.Spec.Annotations, log)
}

// addAnnotations adds the annotations whose keys are absent. Annotations of an instancetype are added before annotations of a preference, and win.
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

// preferPlacement is applySubdomain and applyTerminationGracePeriodSeconds.
func preferPlacement(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.PreferredSubdomain != nil {
		fillText(log, &vmi.Spec.Subdomain, *p.Spec.PreferredSubdomain)
	}
	fillPointer(log, &vmi.Spec.TerminationGracePeriodSeconds, p.Spec.PreferredTerminationGracePeriodSeconds)
}
