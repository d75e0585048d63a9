// Package presetmigration makes GuestProfiles of presets, and compares the guests of VMs and VMIs with the presets and with the profiles.
package presetmigration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/preset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A preset fills an area, such as spec.domain.cpu, only if the VMI has no field of the area. A profile fills each field that the VMI lacks. So a profile with
// the same fields fills more in a VMI that has a part of the area. To find these VMIs, stage 1 runs with the presets and with the profiles.

// Options says which fields of presets profiles get.
type Options struct {
	// Firmware keeps spec.domain.firmware. Presets never fill it in the VMI of a VM, which has an identity there, but a profile would.
	Firmware bool
}

// Result has the profiles that replace presets, and the effects on VMs and VMIs.
type Result struct {
	Presets []Preset `json:"presets"`
	Guests  []Guest  `json:"guests"`
}

// Preset is a preset and the profile that replaces it.
type Preset struct {
	// Preset is the name of the preset, as NAMESPACE/NAME.
	Preset string `json:"preset"`
	// Profile is the manifest of a GuestProfile. It is absent if the preset fills nothing or is rejected.
	Profile map[string]any `json:"profile,omitempty"`
	// LeftOut are the fields of the preset that the profile does not have, each with the reason.
	LeftOut []string `json:"leftOut"`
	// Warnings are side effects of the profile, such as that it replaces another one.
	Warnings []string `json:"warnings"`
	// Causes are why an API server or Kiln would refuse the preset or its profile. Such a preset is not migrated.
	Causes []workbench.Cause `json:"causes"`

	key client.ObjectKey
}

// The states of Guest.
const (
	// Equal: spec, labels, annotations and domain are the same, except for the annotations by which presets mark a VMI.
	Equal = "equal"
	// Differs: the VMI with the profiles differs from the VMI with the presets, or only one of both is accepted.
	Differs = "differs"
	// Rejected: both VMIs are rejected.
	Rejected = "rejected"
	// Unknown: the VMIs are not known, because the object refers to an object that does not exist, or because of a Fault.
	Unknown = "unknown"
	// Stored: a VMI of a cluster. Its fields were filled when it was created, and are never filled again.
	Stored = "stored"
)

// Guest says what changes for a VM, or for a VMI without a VM, if profiles replace its presets.
type Guest struct {
	Object string `json:"object"`
	State  string `json:"state"`
	// Presets are the names of the presets that fill a field.
	Presets []string `json:"presets"`
	// Pinned reports that the VM is pinned to presets. Until it is repinned, it keeps these revisions, even if the presets are deleted.
	Pinned bool `json:"pinned"`
	// Rendered reports that both libvirt domains were rendered and compared.
	Rendered bool    `json:"rendered"`
	Fields   []Field `json:"fields"`
	// Causes are why only one of both VMIs is accepted.
	Causes []string `json:"causes"`
	// Remedy is a change of the VM or VMI that keeps its guest unchanged, which stage 1 has confirmed. It is absent if there is no such change.
	Remedy *Remedy `json:"remedy,omitempty"`
	// Fault is why the guest could not be compared.
	Fault error `json:"-"`
}

// newGuest returns a guest with empty lists, which are [] in JSON, not null.
func newGuest(object manifest.Object) Guest {
	return Guest{Object: object.Name(), Presets: []string{}, Fields: []Field{}, Causes: []string{}}
}

// Field is a field of a VMI that differs with profiles.
type Field struct {
	Field string `json:"field"`
	// Before and After are JSON; empty if the field is not set.
	Before string `json:"before"`
	After  string `json:"after"`
	// Origin is what sets the field: the profile, or the preset if no profile sets it.
	Origin string `json:"origin"`
	Reason string `json:"reason"`
}

// Migrate makes a GuestProfile of each preset among the named objects, and compares the VMIs that the VMs and VMIs among them would boot with
// the presets and with the profiles. It changes no object of the cluster. Presets that were not named are presets on both sides.
func Migrate(ctx context.Context, b *workbench.Bench, in manifest.Inputs, wanted Options) (Result, []string, error) {
	b.IgnoreProfiles() // HostProfiles are the same on both sides
	var presets, guests []manifest.Object
	for _, object := range in.Named {
		switch object.GroupVersionKind().GroupKind() {
		case v1.VirtualMachineInstancePresetGroupVersionKind.GroupKind():
			presets = append(presets, object)
		case v1.VirtualMachineGroupVersionKind.GroupKind(), v1.VirtualMachineInstanceGroupVersionKind.GroupKind():
			guests = append(guests, object)
		}
	}
	// The result must not depend on the order of files.
	byName := func(a, b manifest.Object) int { return cmp.Compare(a.Name(), b.Name()) }
	slices.SortStableFunc(presets, byName)
	slices.SortStableFunc(guests, byName)
	done := Result{Presets: []Preset{}, Guests: []Guest{}}
	in.Reader = objects.Remember(in.Reader)
	in.Named = presets
	reviewed, err := b.Review(ctx, in, nil)
	if err != nil {
		return done, reviewed.Warnings, err
	}
	for _, r := range reviewed.Objects {
		if r.Fault != nil {
			return done, reviewed.Warnings, r.Fault
		}
		one, err := profileOf(ctx, b, r, wanted)
		if err != nil {
			return done, reviewed.Warnings, err
		}
		done.Presets = append(done.Presets, one)
	}
	m, err := newMigration(b, in, done.Presets)
	if err != nil {
		return done, reviewed.Warnings, err
	}
	m.Options = wanted
	for _, guest := range guests {
		one, err := m.compareGuest(ctx, guest)
		if err != nil {
			one = newGuest(guest)
			if !strings.HasPrefix(err.Error(), guest.Name()) { // as a fault of a review does
				err = fmt.Errorf("%s: %w", guest.Name(), err)
			}
			one.State, one.Causes, one.Fault = Unknown, []string{err.Error()}, err
		}
		done.Guests = append(done.Guests, one)
	}
	return done, reviewed.Warnings, nil
}

// migration compares the guests of one run.
type migration struct {
	*workbench.Bench
	Options
	// sides are the objects with the presets, and the objects with the profiles instead.
	sides [2]manifest.Inputs
	// presets are the migrated presets, including those that fill nothing. marks has, for each namespace, the names of the migrated presets by the
	// annotations with which they mark a VMI.
	presets map[client.ObjectKey]bool
	marks   map[string]map[string]string
}

// newMigration replaces the migrated presets by their profiles on the second side. If the inputs already have a profile of the same name, the second side
// has the new one.
func newMigration(b *workbench.Bench, in manifest.Inputs, presets []Preset) (*migration, error) {
	known, err := crdschema.Scheme()
	if err != nil {
		return nil, err
	}
	m := &migration{Bench: b, presets: map[client.ObjectKey]bool{}, marks: map[string]map[string]string{}}
	var profiles []*unstructured.Unstructured
	for _, p := range presets {
		if len(p.Causes) > 0 {
			continue
		}
		m.presets[p.key] = true
		if m.marks[p.key.Namespace] == nil {
			m.marks[p.key.Namespace] = map[string]string{}
		}
		m.marks[p.key.Namespace][preset.AppliedPrefix+p.key.Name] = p.key.Name
		if p.Profile != nil {
			profiles = append(profiles, &unstructured.Unstructured{Object: p.Profile})
		}
	}
	after := in
	after.Reader = objects.Layers{objects.New(known, profiles...), presetFilter{in.Reader, m.presets}}
	m.sides = [2]manifest.Inputs{in, after}
	return m, nil
}

// presetFilter is a reader without some presets.
type presetFilter struct {
	client.Reader
	presets map[client.ObjectKey]bool
}

// List returns a list of presets without the presets of the filter. Stage 1 of admission lists presets, and then reads each listed preset by name. A kind that
// the cluster does not serve has no objects: users may plan profiles before they install the version of Kiln that serves them.
func (w presetFilter) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := w.Reader.List(ctx, list, options...); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return err
	}
	if found, is := list.(*v1.VirtualMachineInstancePresetList); is {
		found.Items = slices.DeleteFunc(found.Items, func(p v1.VirtualMachineInstancePreset) bool { return w.presets[client.ObjectKeyFromObject(&p)] })
	}
	return nil
}

// withoutPins returns a VM or VMI without pins of presets and profiles, so that both sides use the current presets and profiles. It keeps the other pins.
// pinned reports that the object had pins of presets.
func withoutPins(object manifest.Object) (same manifest.Object, pinned bool) {
	pins := pin.Read(object)
	pinned = len(pins.Presets) > 0
	pins.Presets, pins.Profiles, pins.Bases = nil, nil, nil
	object.Unstructured = object.DeepCopy()
	if !pin.Parse(object).Malformed { // a malformed annotation is kept, and refused later
		pin.Write(object, pins)
	}
	return object, pinned
}

// ReadInputs lists the presets, the VMs and the VMIs without a VM of a namespace, or of all namespaces if it is empty.
func ReadInputs(ctx context.Context, cluster client.Reader, namespace string) (manifest.Inputs, error) {
	in := manifest.Inputs{Reader: cluster, OfCluster: true}
	for _, kind := range []schema.GroupVersionKind{
		v1.VirtualMachineInstancePresetGroupVersionKind, v1.VirtualMachineGroupVersionKind, v1.VirtualMachineInstanceGroupVersionKind,
	} {
		for next := ""; ; {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			if err := cluster.List(ctx, list, client.InNamespace(namespace), client.Limit(500), client.Continue(next)); err != nil {
				return in, fmt.Errorf("listing objects of kind %s: %w", kind.Kind, err)
			}
			for i := range list.Items {
				if by := metav1.GetControllerOf(&list.Items[i]); by == nil || by.Kind != v1.VirtualMachineGroupVersionKind.Kind {
					in.Named = append(in.Named, manifest.Stored(&list.Items[i]))
				}
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return in, nil
}
