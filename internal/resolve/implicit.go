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

// A VM gets presets and the defaults of the cluster without naming them: presets that match the labels of its VMI, and whatever
// configuration is in force. The controller pins both when it first sees the VM, so that editing them does not change it.

// implicit is one of the two, with its pins before and after a change of the VM. old is nil on create.
type implicit struct {
	family
	vm, old  *v1.VirtualMachine
	now, was pin.Entry
	// current is what a new pin would be. It is found once: presets are read one by one.
	current func() ([]*content, error)
}

// implicits are those of a VM.
func (r Resolver) implicits(ctx context.Context, vm, old *v1.VirtualMachine) []implicit {
	now, was := pin.Parse(vm), pin.Written{}
	if old != nil {
		was = pin.Parse(old)
	}
	return []implicit{
		{presets, vm, old, now.Presets, was.Presets, sync.OnceValues(func() ([]*content, error) { return r.matching(ctx, vm) })},
		{configurations, vm, old, now.Configuration, was.Configuration, sync.OnceValues(func() ([]*content, error) { return r.configuration(ctx, vm.Namespace) })},
	}
}

// resolveImplicit returns what a VM is pinned to; nil when it is not pinned yet, since the first pin is the controller's.
func (r Resolver) resolveImplicit(ctx context.Context, i implicit, answer *Answer) (found []*content, refused field.ErrorList, err error) {
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
			answer.warn("pins of %s were dropped: namespace '%s' lacks these revisions, or they do not match this VM", i.field, i.vm.Namespace)
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

// restored are the revisions that a VM comes with; nil when one does not exist, is not what it was, or is not for this VM.
func (r Resolver) restored(ctx context.Context, i implicit) ([]*content, error) {
	all := []*content{}
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

// recorded is what an update leaves pinned. With other labels of the VMI, presets that match no more go, and those come that match now
// and did not before. The others stay as they are, whatever became of the presets themselves.
func (r Resolver) recorded(ctx context.Context, i implicit) ([]*content, error) {
	kept := []*content{}
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
	slices.SortFunc(kept, func(a, b *content) int { return strings.Compare(a.source.Name, b.source.Name) })
	return kept, nil
}

// matches reports whether a preset matches the VMI of a VM. A configuration fits all.
func (c *content) matches(vm *v1.VirtualMachine) bool {
	if c.preset == nil || vm.Spec.Template == nil {
		return true
	}
	matching, _ := preset.Match([]v1.VirtualMachineInstancePreset{*c.preset}, admit.Instance(vm))
	return len(matching) > 0
}

// relabelled reports whether what presets go by has changed.
func relabelled(vm, old *v1.VirtualMachine) bool {
	if vm.Spec.Template == nil || old.Spec.Template == nil {
		return false
	}
	now, was := vm.Spec.Template.ObjectMeta, old.Spec.Template.ObjectMeta
	return !maps.Equal(now.Labels, was.Labels) || now.Annotations[preset.Exclude] != was.Annotations[preset.Exclude]
}

// impliedRevision returns one pinned revision: from the cache, else of what there is now if that is the same, else from the API server. Nil when it
// does not exist.
func (r Resolver) impliedRevision(ctx context.Context, i implicit, name string) (*content, error) {
	key := client.ObjectKey{Namespace: i.vm.Namespace, Name: name}
	found, err := r.cached().revision(ctx, i.family, key)
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
	return r.revision(ctx, i.family, key)
}

// Complete pins presets and configuration to those of now where the given pins have none. A Refusal names presets that cannot be matched.
func (r Resolver) Complete(ctx context.Context, vm *v1.VirtualMachine, pins v1alpha1.Pins) (v1alpha1.Pins, []revision.Draft, error) {
	var added Answer
	if pins.Presets == nil {
		found, err := r.matching(ctx, vm)
		if err != nil {
			return pins, nil, err
		}
		added.take(presets, append([]*content{}, found...))
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
