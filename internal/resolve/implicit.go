package resolve

import (
	"context"
	"errors"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A VM gets presets, profiles and the cluster's defaults without naming them: presets and profiles that match the labels of its VMI, and the current
// configuration. A new VM is pinned to them when it is admitted, if all their revisions exist already. Otherwise the controller writes the revisions and pins
// the VM when it first reconciles it. From then on, editing them does not change the VM.

// implicitPin is one of the three kinds that no field names, with the pins in the request (now) and in the stored VM (was). old is the stored VM, nil on
// create.
type implicitPin struct {
	pinKind
	vm, old  *v1.VirtualMachine
	now, was pin.Entry
	// find returns the objects that a new pin would name. Only currentOf calls it, at most once, because presets and profiles are read one by one.
	find  func(Resolver, context.Context, *v1.VirtualMachine) ([]*pinObject, error)
	asked bool
	found []*pinObject
	err   error
}

// currentOf returns the objects that a new pin of a kind would name.
func (r Resolver) currentOf(ctx context.Context, i *implicitPin) ([]*pinObject, error) {
	if !i.asked {
		i.found, i.err = i.find(r, ctx, i.vm)
		i.asked = true
	}
	return i.found, i.err
}

// implicitPinsOf returns the three kinds with their pins in the VM. If the stored VM is pinned to profiles and the request has no key 'profiles', the VM keeps
// them. If the stored VM is not pinned to profiles, or if there is no stored VM, as when a backup is restored, pins with presets and without profiles mean
// that the VM has no profiles.
func implicitPinsOf(vm, old *v1.VirtualMachine) []implicitPin {
	now, was := pin.Parse(vm), pin.Written{}
	if old != nil {
		was = pin.Parse(old).OrNone()
	}
	return []implicitPin{
		{pinKind: presets, vm: vm, old: old, now: now.Presets, was: was.Presets, find: Resolver.matchingPresets},
		{pinKind: profiles, vm: vm, old: old, now: now.Profiles, was: was.Profiles, find: Resolver.selectedProfiles},
		{pinKind: configurations, vm: vm, old: old, now: now.Configuration, was: was.Configuration, find: Resolver.currentConfiguration},
	}
}

// resolveImplicit returns the objects that a VM is pinned to; nil if it is not pinned yet. pinNew writes the first pin, else the controller does.
func (r Resolver) resolveImplicit(ctx context.Context, i *implicitPin, resolution *Resolution) (found []*pinObject, refused field.ErrorList, err error) {
	event := pin.Updated
	if i.old == nil {
		event = pin.Created
	}
	action := pin.Decide(i.now, i.was, event)
	switch action {
	case pin.First:
		return nil, nil, nil
	case pin.Renew:
		found, err = r.currentOf(ctx, i)
		return found, nil, err
	case pin.Honour:
		if found, err = r.restoredRevisions(ctx, i); found == nil && err == nil {
			resolution.addWarning("pins of %s were dropped: namespace '%s' lacks these revisions, or they do not match this VM", i.field, i.vm.Namespace)
			resolution.LostPins = append(resolution.LostPins, i.now.Names...)
			if i.field == pin.Profiles {
				found, err = r.currentOf(ctx, i) // not later: beside pinned presets, an absent key means that the VM has no profiles
			}
		}
		return found, nil, err
	}
	found, err = r.recordedRevisions(ctx, i)
	if err != nil || action == pin.Keep || i.now.Equal(entryOf(found)) {
		return found, nil, err
	}
	if found, err = r.currentOf(ctx, i); err != nil || i.now.Equal(entryOf(found)) {
		return found, nil, err
	}
	return nil, field.ErrorList{replacedPin(i.now.Names...)}, nil
}

// restoredRevisions returns the revisions that the request names. It returns nil if one of them does not exist or was changed, or if they do not match this VM.
func (r Resolver) restoredRevisions(ctx context.Context, i *implicitPin) ([]*pinObject, error) {
	all := []*pinObject{}
	for name, base := range i.now.Each() {
		found, err := r.impliedRevision(ctx, i, name)
		if errors.As(err, new(*revision.Untrusted)) || err == nil && found == nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found.withBase(base))
	}
	if i.fit != nil && !i.fit(all, i.vm) {
		return nil, nil
	}
	return all, nil
}

// recordedRevisions returns the objects that stay pinned after an update. If the labels of the VMI change, presets and profiles that no longer match are
// dropped, and presets and profiles that match now and did not before are added. The others keep their revision, even if the object was edited or deleted.
func (r Resolver) recordedRevisions(ctx context.Context, i *implicitPin) ([]*pinObject, error) {
	kept := []*pinObject{}
	for name, base := range i.was.Each() {
		found, err := r.impliedRevision(ctx, i, name)
		if err == nil && found == nil {
			err = revisionGone(name, i.field)
		}
		if err != nil {
			return nil, err
		}
		kept = append(kept, found.withBase(base))
	}
	if i.relabel == nil || !labelsChanged(i.vm, i.old) {
		return kept, nil
	}
	matching, err := r.currentOf(ctx, i)
	if err != nil {
		return nil, err
	}
	return i.relabel(relabelling{was: kept, current: matching, vm: i.vm, old: i.old})
}

// impliedRevision returns a pinned revision from the cache, else from a current object with the same content, else from the API server. It returns nil if the
// revision does not exist.
func (r Resolver) impliedRevision(ctx context.Context, i *implicitPin, name string) (*pinObject, error) {
	key := client.ObjectKey{Namespace: i.vm.Namespace, Name: name}
	found, err := r.reader().fromCache().readRevision(ctx, i.pinKind, key)
	if err != nil || found != nil {
		return found, err
	}
	now, err := r.currentOf(ctx, i)
	if err != nil && !errors.As(err, new(*Refusal)) { // a mistake in a current object does not affect pinned revisions
		return nil, err
	}
	for _, found := range now {
		if found.revision == name {
			return found, nil
		}
	}
	return r.reader().readRevision(ctx, i.pinKind, key)
}

// pinNew pins a new VM to presets, profiles and configuration that it is not pinned to yet, if all their revisions exist. If a revision has to be written, or
// if something cannot be read, pinNew pins nothing and the controller pins the VM: writing hundreds of revisions takes longer than a request may. pinNew pins
// all kinds or none, so that the controller writes to a VM once or not at all.
func (r Resolver) pinNew(ctx context.Context, vm *v1.VirtualMachine, resolution *Resolution) {
	r.pinImplied(ctx, vm, resolution, 0)
}

// mostDrafts is how many revisions admission writes for a VMI: enough for a configuration and some presets.
const mostDrafts = 8

// CompleteVMI pins the VMI of a VM to the presets, profiles and configuration that the controller is about to pin the VM to, if the VM is not pinned to them
// yet. KubeVirt does not wait for the controller. CompleteVMI reports whether the presets of the VM were not pinned. If something cannot be read, or if too
// many revisions do not exist yet, it pins nothing, and the current objects apply.
func (r Resolver) CompleteVMI(ctx context.Context, vm *v1.VirtualMachine, resolution *Resolution) (unpinned bool) {
	unpinned = resolution.Pins.Presets == nil
	r.pinImplied(ctx, vm, resolution, mostDrafts)
	return unpinned
}

// pinImplied adds to a resolution the presets, profiles and configuration that it lacks, unless more than this number of their revisions do not exist yet.
func (r Resolver) pinImplied(ctx context.Context, vm *v1.VirtualMachine, resolution *Resolution, drafts int) {
	added, err := r.addMissingPins(ctx, vm, resolution.Pins)
	if err != nil || len(added.Drafts) > drafts {
		return
	}
	resolution.Pins, resolution.Drafts = added.Pins, append(resolution.Drafts, added.Drafts...)
	if added.Presets != nil {
		resolution.Presets = added.Presets
	}
	if added.Profiles != nil {
		resolution.Profiles = added.Profiles
	}
	if added.Defaults != nil {
		resolution.Defaults = added.Defaults
	}
}

// CompletePins returns the pins with the current presets, profiles and configuration in place of those that are absent, and drafts of the revisions to write
// first. A *Refusal names presets whose selector cannot be read, and profiles that cannot be applied.
func (r Resolver) CompletePins(ctx context.Context, vm *v1.VirtualMachine, pins v1alpha1.Pins) (v1alpha1.Pins, []revision.Draft, error) {
	added, err := r.addMissingPins(ctx, vm, pins)
	if err != nil {
		return pins, nil, err
	}
	return added.Pins, added.Drafts, nil
}

// addMissingPins is CompletePins with the added objects, not only the names of their revisions.
func (r Resolver) addMissingPins(ctx context.Context, vm *v1.VirtualMachine, pins v1alpha1.Pins) (Resolution, error) {
	added := Resolution{Pins: pins}
	for _, missing := range []struct {
		pinKind
		pinned bool
		find   func(Resolver, context.Context, *v1.VirtualMachine) ([]*pinObject, error)
	}{
		{presets, pins.Presets != nil, Resolver.matchingPresets},
		{profiles, pins.PinsProfiles(), Resolver.selectedProfiles},
		{configurations, pins.Configuration != "", Resolver.currentConfiguration},
	} {
		if missing.pinned {
			continue
		}
		found, err := missing.find(r, ctx, vm)
		if err != nil {
			return added, err
		}
		if missing.allowsSeveral() {
			found = append([]*pinObject{}, found...) // an empty list is a pin too: it pins to none
		}
		added.addPinned(missing.pinKind, found)
	}
	return added, nil
}
