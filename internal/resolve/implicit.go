package resolve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/preset"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A VM gets presets and the cluster's defaults without naming them: presets that match the labels of its VMI, and the configuration in force.
// The controller pins both when it first reconciles the VM: from then on, editing them does not change the VM.

// implicit is one of the two kinds that no field names, with the pins in the request (now) and in the stored VM (was). old is the stored VM, nil on create.
type implicit struct {
	pinKind
	vm, old  *v1.VirtualMachine
	now, was pin.Entry
	// current returns what a new pin would name. It reads once, since presets are read one by one.
	current func() ([]*pinObject, error)
}

// implicits returns presets and configuration of a VM, with their pins.
func (r Resolver) implicits(ctx context.Context, vm, old *v1.VirtualMachine) []implicit {
	now, was := pin.Parse(vm), pin.Written{}
	if old != nil {
		was = pin.Parse(old)
	}
	return []implicit{
		{presets, vm, old, now.Presets, was.Presets, sync.OnceValues(func() ([]*pinObject, error) { return r.matching(ctx, vm) })},
		{configurations, vm, old, now.Configuration, was.Configuration, sync.OnceValues(func() ([]*pinObject, error) { return r.configuration(ctx, vm.Namespace) })},
	}
}

// resolveImplicit returns what a VM is pinned to; nil if it is not pinned yet, because the controller writes the first pin.
func (r Resolver) resolveImplicit(ctx context.Context, i implicit, resolution *Resolution) (found []*pinObject, refused field.ErrorList, err error) {
	event := pin.Updated
	if i.old == nil {
		event = pin.Created
	}
	action := pin.Decide(i.now, i.was, event)
	switch action {
	case pin.First:
		return nil, nil, nil
	case pin.Renew:
		found, err = i.current()
		return found, nil, err
	case pin.Honour:
		if found, err = r.restored(ctx, i); found == nil && err == nil {
			resolution.warn("pins of %s were dropped: namespace '%s' lacks these revisions, or they do not match this VM", i.field, i.vm.Namespace)
		}
		return found, nil, err
	}
	found, err = r.recorded(ctx, i)
	if err != nil || action == pin.Keep || slices.Equal(i.now.Names, revisions(found)) {
		return found, nil, err
	}
	if found, err = i.current(); err != nil || slices.Equal(i.now.Names, revisions(found)) {
		return found, nil, err
	}
	return nil, field.ErrorList{replacedPin(i.now.Names...)}, nil
}

// restored returns the revisions that the request names; nil if one of them does not exist, was changed, or does not match this VM.
func (r Resolver) restored(ctx context.Context, i implicit) ([]*pinObject, error) {
	all := []*pinObject{}
	for _, name := range i.now.Names {
		found, err := r.impliedRevision(ctx, i, name)
		if errors.As(err, new(*revision.Untrusted)) || err == nil && (found == nil || !found.matches(i.vm)) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// recorded returns what stays pinned after an update. If the labels of the VMI change, presets that no longer match are dropped, and presets
// that match now and did not before are added. The others keep their revision, also if the preset was edited or deleted.
func (r Resolver) recorded(ctx context.Context, i implicit) ([]*pinObject, error) {
	kept := []*pinObject{}
	names := map[string]bool{}
	for _, name := range i.was.Names {
		found, err := r.impliedRevision(ctx, i, name)
		if err == nil && found == nil {
			err = revisionGone(name, i.field)
		}
		if err != nil {
			return nil, err
		}
		names[found.source.Name] = true
		if found.matches(i.vm) {
			kept = append(kept, found)
		}
	}
	if !i.byLabels || !relabelled(i.vm, i.old) {
		return kept, nil
	}
	matching, err := i.current()
	if err != nil {
		return nil, err
	}
	for _, found := range matching {
		if !names[found.source.Name] && !found.matches(i.old) {
			kept = append(kept, found)
		}
	}
	slices.SortFunc(kept, func(a, b *pinObject) int { return strings.Compare(a.source.Name, b.source.Name) })
	return kept, nil
}

// matches reports whether a preset matches the VMI of a VM. A configuration matches every VMI.
func (c *pinObject) matches(vm *v1.VirtualMachine) bool {
	if c.preset == nil || vm.Spec.Template == nil {
		return true
	}
	matching, _ := preset.Match([]v1.VirtualMachineInstancePreset{*c.preset}, admit.Instance(vm))
	return len(matching) > 0
}

// relabelled reports whether the labels changed by which presets match, or the annotation that excludes a VMI from presets.
func relabelled(vm, old *v1.VirtualMachine) bool {
	if vm.Spec.Template == nil || old.Spec.Template == nil {
		return false
	}
	now, was := vm.Spec.Template.ObjectMeta, old.Spec.Template.ObjectMeta
	return !maps.Equal(now.Labels, was.Labels) || now.Annotations[preset.Exclude] != was.Annotations[preset.Exclude]
}

// impliedRevision returns a pinned revision from the cache, else from a current object with that content, else from the API server. Nil if it
// does not exist.
func (r Resolver) impliedRevision(ctx context.Context, i implicit, name string) (*pinObject, error) {
	key := client.ObjectKey{Namespace: i.vm.Namespace, Name: name}
	found, err := r.cached().revision(ctx, i.pinKind, key)
	if err != nil || found != nil {
		return found, err
	}
	now, err := i.current()
	if err != nil {
		return nil, err
	}
	for _, found := range now {
		if found.revision == name {
			return found, nil
		}
	}
	return r.revision(ctx, i.pinKind, key)
}

// Complete returns pins with the current presets and configuration where the given ones have none, and drafts of the revisions to write first.
// A *Refusal names presets whose selector cannot be read.
func (r Resolver) Complete(ctx context.Context, vm *v1.VirtualMachine, pins v1alpha1.Pins) (v1alpha1.Pins, []revision.Draft, error) {
	var added Resolution
	if pins.Presets == nil {
		found, err := r.matching(ctx, vm)
		if err != nil {
			return pins, nil, err
		}
		added.take(presets, append([]*pinObject{}, found...))
		pins.Presets = added.Pins.Presets
	}
	if pins.Configuration == "" {
		found, err := r.configuration(ctx, vm.Namespace)
		if err != nil {
			return pins, nil, err
		}
		added.take(configurations, found)
		pins.Configuration = added.Pins.Configuration
	}
	return pins, added.Drafts, nil
}
