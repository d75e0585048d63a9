package main

import v1 "kubevirt.io/api/core/v1"

// statusOnCreate is the deviation that these cases show.
const statusOnCreate = "The status of a VM that is created"

// isAccountedFor reports whether a case needs no further explanation.
func (o outcome) isAccountedFor() bool { return o.agrees || o.listed != "" }

// remembersRevisions reports whether a VM that is created comes with a status that names revisions. The API server takes every status
// off what is created, so that no webhook of a cluster sees one; the reference's, when it is called directly, reads it.
func remembersRevisions(vm *v1.VirtualMachine, operation string) bool {
	return operation != "UPDATE" && (vm.Status.InstancetypeRef != nil || vm.Status.PreferenceRef != nil)
}

// vmWithRevisions returns the VM whose user asks for the revisions that the status names.
// A revisionName that the user wrote stays as it is. The VM of the case is not changed.
func vmWithRevisions(vm *v1.VirtualMachine) *v1.VirtualMachine {
	vm = vm.DeepCopy()
	if ref, matcher := vm.Status.InstancetypeRef, vm.Spec.Instancetype; ref != nil && ref.ControllerRevisionRef != nil && matcher != nil &&
		matcher.RevisionName == "" {
		matcher.RevisionName = ref.ControllerRevisionRef.Name
	}
	if ref, matcher := vm.Status.PreferenceRef, vm.Spec.Preference; ref != nil && ref.ControllerRevisionRef != nil && matcher != nil &&
		matcher.RevisionName == "" {
		matcher.RevisionName = ref.ControllerRevisionRef.Name
	}
	return vm
}
