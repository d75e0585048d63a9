package startcheck

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/instancetype"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

const (
	reasonReferenceMissing = "reference-missing"
	reasonRevisionMissing  = "revision-missing"
)

// Reference is an instancetype or preference that a VM refers to, or another ControllerRevision that it is pinned to.
type Reference struct {
	// Kind and Name are of the instancetype or preference; empty for other pins, and for what is inferred from a volume and not known yet.
	Kind, Name string
	// Revision is the ControllerRevision that the VM is pinned to; empty if the VM is not pinned.
	Revision string
	// Found is the ControllerRevision, or the object of Kind if the VM is not pinned.
	Found Lookup[metav1.PartialObjectMetadata]
}

// OfCluster reports whether the object of Kind has no namespace.
func (r Reference) OfCluster() bool {
	return r.Kind == instancetype.Kinds.Cluster || r.Kind == instancetype.PreferenceKinds.Cluster
}

// mostReferences bounds the objects that one VM refers to, because a tenant may write any number of pins.
const mostReferences = 64

// ReferencesOf returns what a VM refers to. The objects are not looked up. A revision in the spec comes first, then Kiln's pin, then the revision in the
// status, which KubeVirt's controller has written.
func ReferencesOf(vm *v1.VirtualMachine) (all []Reference) {
	pins := pin.Read(vm)
	if m := vm.Spec.Instancetype; m != nil {
		all = append(all, newReference(instancetype.Kinds, m.Kind, m.Name, m.RevisionName, pins.Instancetype, vm.Status.InstancetypeRef))
	}
	if m := vm.Spec.Preference; m != nil {
		all = append(all, newReference(instancetype.PreferenceKinds, m.Kind, m.Name, m.RevisionName, pins.Preference, vm.Status.PreferenceRef))
	}
	for _, revision := range slices.Concat(pins.Presets, pins.Profiles, pins.Bases, []string{pins.Configuration}) {
		if revision != "" {
			all = append(all, Reference{Revision: revision})
		}
	}
	return slices.DeleteFunc(all[:min(len(all), mostReferences)], func(r Reference) bool { return r.Revision == v1alpha1.PinNone })
}

// newReference returns the reference of a matcher.
func newReference(kinds instancetype.KindNames, kind, name, revision, pinned string, status *v1.InstancetypeStatusRef) Reference {
	r := Reference{Kind: cmp.Or(kinds.Canonical(kind), kind), Name: name, Revision: cmp.Or(revision, pinned)}
	if status != nil {
		r.Name = cmp.Or(r.Name, status.Name)
		if status.ControllerRevisionRef != nil {
			r.Revision = cmp.Or(r.Revision, status.ControllerRevisionRef.Name)
		}
	}
	return r
}

// failuresOfReferences are the reasons of condition Failure that say that a reference leads nowhere.
var failuresOfReferences = []string{v1alpha1.ReasonFailedFindInstancetype, v1alpha1.ReasonFailedFindPreference, v1alpha1.ReasonFailedPin}

// findPins finds whether instancetype, preference and the revisions of the VM exist.
func findPins(o Objects) finding {
	if o.VM.Object == nil {
		return finding{state: Unknown, detail: o.VM.Denied}
	}
	var notes, names, denied []string
	if lost := o.VM.Object.Annotations[v1alpha1.AnnotationLostPins]; lost != "" {
		notes = append(notes, "the VM uses current objects in the place of revisions that its backup lacked (annotation "+v1alpha1.AnnotationLostPins+")")
	}
	for _, r := range o.References {
		switch {
		case r.Found.isAbsent() && r.Revision != "":
			return finding{state: Failed, object: object{"ControllerRevision", r.Revision}, reason: reasonRevisionMissing, notes: notes,
				message: fmt.Sprintf("the VM is pinned to ControllerRevision %s, which does not exist", quoteName(r.Revision))}
		case r.Found.isAbsent() && r.Name != "":
			return finding{state: Failed, object: object{r.Kind, r.Name}, reason: reasonReferenceMissing, notes: notes,
				message: fmt.Sprintf("%s %s does not exist", oneLine(r.Kind), quoteName(r.Name))}
		case r.Found.Denied != "":
			denied = append(denied, r.Found.Denied)
		}
		names = append(names, r.shownNames()...)
	}
	if f := o.failureOfVM(); f != nil && o.VMI.Object == nil && slices.Contains(failuresOfReferences, f.Reason) {
		return finding{state: Failed, object: object{"VirtualMachine", o.Name}, reason: f.Reason, message: f.Message, notes: notes}
	}
	if len(denied) > 0 {
		return finding{state: Unknown, detail: joinTexts(slices.Compact(denied)), notes: notes}
	}
	if len(names) == 0 {
		names = []string{"no instancetype, no preference"}
	}
	return finding{state: Done, detail: joinTexts(names), notes: notes}
}

// shownNames returns what is shown of an instancetype or preference; nothing of other pins.
func (r Reference) shownNames() []string {
	switch {
	case r.Kind == "":
		return nil
	case r.Revision == "":
		return []string{cmp.Or(r.Name, "inferred from a volume") + ", not pinned yet"}
	}
	return []string{cmp.Or(r.Name, "inferred from a volume") + ", revision " + r.Revision}
}
