package resolve

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/profile"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/instancetype"
)

// pinObject is an object that a VM can be pinned to, decoded from a revision or from a live object. One of the five typed fields is set.
type pinObject struct {
	source       instancetype.Source
	instancetype *instancetype.Instancetype
	preference   *instancetype.Preference
	preset       *v1.VirtualMachineInstancePreset
	profile      *profile.Profile
	defaults     *config.Defaults
	// base reports that the profile is pinned only because other profiles extend it: it fills nothing by itself.
	base bool
	// revision is the name of its ControllerRevision; v1alpha1.PinNone if a volume recommends no object.
	revision string
	// draft is set when the revision does not exist yet.
	draft *revision.Draft
}

// pinKind is one of the five kinds of objects that a VM is pinned to, and how a Resolver reads, compares and pins them.
type pinKind struct {
	// field is the key of the kind in the annotation with the pins, and the name of its matcher in the spec of a VM if it has one.
	field string
	instancetype.KindNames
	// label is the label of a volume's source with the name of the recommended object. The label with the suffix '-kind' has its kind.
	label string
	// fit reports whether a VM may be pinned to exactly these objects. Nil means that a VM is pinned to at most one object of the kind.
	fit func(found []*pinObject, vm *v1.VirtualMachine) bool
	// relabel returns the pinned objects after the labels of the VMI have changed. Nil means that they stay.
	relabel func(relabelling) ([]*pinObject, error)
	// decode decodes a snapshot into the field of this kind.
	decode func(*pinObject, []byte) error
	// pin sets the objects and the names of their revisions in a Resolution.
	pin func(*Resolution, []*pinObject)
}

var (
	instancetypes = pinKind{
		field: pin.Instancetype, KindNames: instancetype.Kinds, label: api.DefaultInstancetypeLabel,
		decode: func(c *pinObject, data []byte) (err error) {
			if c.instancetype, err = instancetype.ReadInstancetype(c.revision, data); err == nil {
				c.source = c.instancetype.Source
			}
			return err
		},
		pin: func(a *Resolution, found []*pinObject) {
			for _, c := range found {
				a.Set.Instancetype, a.Pins.Instancetype = c.instancetype, c.revision
			}
		},
	}
	preferences = pinKind{
		field: pin.Preference, KindNames: instancetype.PreferenceKinds, label: api.DefaultPreferenceLabel,
		decode: func(c *pinObject, data []byte) (err error) {
			if c.preference, err = instancetype.ReadPreference(c.revision, data); err == nil {
				c.source = c.preference.Source
			}
			return err
		},
		pin: func(a *Resolution, found []*pinObject) {
			for _, c := range found {
				a.Set.Preference, a.Pins.Preference = c.preference, c.revision
			}
		},
	}
	presets = pinKind{
		field: pin.Presets, KindNames: instancetype.KindNames{Namespaced: v1.VirtualMachineInstancePresetGroupVersionKind.Kind},
		fit: presetsFit, relabel: relabelPresets,
		decode: func(c *pinObject, data []byte) error {
			err := json.Unmarshal(data, &c.preset)
			if err == nil && c.preset != nil {
				c.source = instancetype.Source{Kind: v1.VirtualMachineInstancePresetGroupVersionKind.Kind, Name: c.preset.Name, Revision: c.revision}
			}
			return err
		},
		pin: func(a *Resolution, found []*pinObject) {
			a.Presets, a.Pins.Presets = []v1.VirtualMachineInstancePreset{}, entryOf(found).Names
			for _, c := range found {
				a.Presets = append(a.Presets, *c.preset)
			}
		},
	}
	profiles = pinKind{
		field: pin.Profiles, KindNames: instancetype.KindNames{Namespaced: v1alpha1.KindGuestProfile, Cluster: v1alpha1.KindClusterGuestProfile},
		fit: profilesFit, relabel: relabelProfiles,
		decode: func(c *pinObject, data []byte) (err error) {
			if c.profile, err = profile.Read(c.revision, data); err == nil {
				c.source = instancetype.Source{Kind: c.profile.Kind, Name: c.profile.Name, Revision: c.revision}
			}
			return err
		},
		pin: func(a *Resolution, found []*pinObject) {
			pinned := entryOf(found)
			a.Profiles, a.Pins.Profiles, a.Pins.Bases = pinnedProfiles(found), pinned.Names, pinned.Bases
		},
	}
	// configurations have no API: they exist only as snapshots.
	configurations = pinKind{
		field: pin.Configuration, KindNames: instancetype.KindNames{Namespaced: v1alpha1.KindClusterConfiguration},
		decode: func(c *pinObject, data []byte) (err error) {
			c.source = instancetype.Source{Kind: v1alpha1.KindClusterConfiguration, Revision: c.revision}
			c.defaults, err = config.ReadDefaults(data)
			return err
		},
		pin: func(a *Resolution, found []*pinObject) {
			for _, c := range found {
				a.Defaults, a.Pins.Configuration = c.defaults, c.revision
			}
		},
	}
)

// allowsSeveral reports whether a VM may be pinned to any number of objects of the kind.
func (f pinKind) allowsSeveral() bool { return f.fit != nil }

// decodeSnapshot decodes a snapshot. It returns nil if the object has another kind, because a pin may name any revision of the namespace.
func (f pinKind) decodeSnapshot(name string, data []byte) (*pinObject, error) {
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("reading revision '%s': %w", name, err)
	}
	if f.Canonical(object.GetKind()) == "" {
		return nil, nil
	}
	found := &pinObject{revision: name}
	if err := f.decode(found, data); err != nil {
		return nil, fmt.Errorf("reading revision '%s': %w", name, err)
	}
	return found, nil
}

// entryOf returns the entry that pins to these objects. Its Names are never nil, because an empty list of presets or profiles is a pin too.
func entryOf(found []*pinObject) pin.Entry {
	entry := pin.Entry{Names: make([]string, 0, len(found)), Given: true}
	for _, c := range found {
		if c.base {
			entry.Bases = append(entry.Bases, c.revision)
		} else {
			entry.Names = append(entry.Names, c.revision)
		}
	}
	return entry
}

// revisionGone is the error for a revision that a VM is pinned to and that was deleted. The current revision must not silently replace it.
func revisionGone(name string, of any) error {
	return fmt.Errorf("revision '%s', which this VM uses, no longer exists: restore it, or set annotation '%s' to '' to use the current %s",
		name, v1alpha1.AnnotationPins, of)
}

// replacedPin is the error for a pin that names another revision than the stored VM's.
func replacedPin(names ...string) *field.Error {
	return field.Invalid(field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationPins), strings.Join(names, ", "),
		"the pinned revision may not be replaced: name an older one in revisionName, or set the annotation to '' for the current one").WithOrigin("vm/pin")
}
