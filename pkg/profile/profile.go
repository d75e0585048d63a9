// Package profile fills VMIs from GuestProfiles and ClusterGuestProfiles: it reads profiles, finds those that select a VMI, follows what they extend,
// refuses those that disagree, and fills what user, instancetype, preference and presets left unset. It never overrides a value, and never fills what
// an instancetype owns. api/v1alpha1 documents the fields.
package profile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/message"
	"github.com/kilnvm/kiln/pkg/preset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Profile is a GuestProfile or ClusterGuestProfile that was read. It is immutable, so that reviews share it.
type Profile struct {
	// Kind is v1alpha1.KindGuestProfile or KindClusterGuestProfile. Namespace is empty for the latter, and for one that was read from a revision
	// without a namespace.
	Kind, Namespace, Name string
	// Revision is the name of the ControllerRevision that holds the profile; empty when the object was read live.
	Revision string
	Spec     v1alpha1.GuestProfileSpec
	// NamespaceSelector is set only for a ClusterGuestProfile.
	NamespaceSelector *metav1.LabelSelector
	// CommonCPUMissing reports that the profile has spec.commonCPU, and its nodes have not had a CPU in common yet. VMIs that it selects are refused: a VM
	// would be pinned to the profile without the CPU.
	CommonCPUMissing bool

	selector, namespaces labels.Selector
	settings             []setting
}

// String returns "Kind 'name'", as messages name the object.
func (p *Profile) String() string { return fmt.Sprintf("%s '%s'", p.Kind, p.Name) }

// Selects reports whether the profile's selector matches the labels of a VMI that is not excluded. A profile without a selector selects none.
func (p *Profile) Selects(vmi *v1.VirtualMachineInstance) bool {
	return p.selectsWithLabels(vmi, ownLabels(vmi))
}

func (p *Profile) selectsWithLabels(vmi *v1.VirtualMachineInstance, own labels.Set) bool {
	if p.Spec.AllowExclusion && vmi.Annotations[preset.Exclude] == "true" {
		return false
	}
	return p.Spec.Selector != nil && p.selector.Matches(own)
}

// InNamespace reports whether the profile is for a namespace with these labels. A GuestProfile is for its own: the caller reads no others.
func (p *Profile) InNamespace(namespace map[string]string) bool {
	return p.NamespaceSelector == nil || p.namespaces.Matches(labels.Set(namespace))
}

// Select returns the profiles that select a VMI by its labels, in the order in which they count: by priority, the highest first, then by kind and name. It
// returns an error at metadata.labels if there are more than MaxProfiles.
func Select(all []*Profile, vmi *v1.VirtualMachineInstance) ([]*Profile, field.ErrorList) {
	var selected []*Profile
	own := ownLabels(vmi)
	for _, p := range all {
		if p.selectsWithLabels(vmi, own) {
			selected = append(selected, p)
		}
	}
	selected = sortByPriority(selected)
	if len(selected) > MaxProfiles {
		return nil, field.ErrorList{tooMany(selected)}
	}
	return selected, nil
}

// labelsPath is the field of all errors: labels select profiles, and the owner of a VMI can change them.
var labelsPath = field.NewPath("metadata", "labels")

func tooMany(profiles []*Profile) *field.Error {
	err := field.TooMany(labelsPath, len(profiles), MaxProfiles)
	err.BadValue, err.Detail = field.OmitValueType{}, fmt.Sprintf("%d profiles count for the VMI, at most %d may: %s; change the labels so that fewer select it",
		len(profiles), MaxProfiles, message.Names(profiles, func(p *Profile) string { return p.Name }))
	return err.WithOrigin("profile/limit")
}

// PlanFor returns what the profiles that select a VMI would fill; nil if there is nothing to fill. The VMI must have only its own labels and annotations:
// labels that profiles fill do not select profiles. Errors, all at metadata.labels, are the errors of Select, bases that cannot be followed, and disagreements.
func PlanFor(all []*Profile, vmi *v1.VirtualMachineInstance) (*Plan, field.ErrorList) {
	selected, errs := Select(all, vmi)
	if len(selected) == 0 || len(errs) > 0 {
		return nil, errs
	}
	layers, errs := layersOf(selected, all)
	if counted := profilesOf(layers); len(counted) > MaxProfiles {
		errs = append(errs, tooMany(counted))
	}
	found := mergeLayers(layers)
	if errs = append(errs, disagreementErrors(found.disagreements)...); len(errs) > 0 {
		return nil, errs
	}
	// What turns an object on or off depends on whether the VMI has the object, before a profile adds it.
	slices.SortStableFunc(found.settings, func(a, b plannedSetting) int { return cmp.Compare(orderTrueFirst(a.toggle), orderTrueFirst(b.toggle)) })
	return &Plan{settings: found.settings}, nil
}

func orderTrueFirst(first bool) int {
	if first {
		return 0
	}
	return 1
}
