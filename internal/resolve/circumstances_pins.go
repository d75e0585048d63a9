package resolve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/preset"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is an update of one of the circumstances' pins. The old VM is nil on create.
type change struct {
	family
	vm, old  *v1.VirtualMachine
	now, was pinList
	// fresh is what a new pin would be. It is found once: presets are read one by one.
	fresh func() ([]*content, error)
}

// circumstance is what a VM is pinned to; nil when it is not pinned yet. On create, pins are honoured if their revisions exist here
// and fit. On update they stay, unless a new pin is asked for; the first pin is the controller's.
func (r Resolver) circumstance(ctx context.Context, c change, answer *Answer) ([]*content, field.ErrorList, error) {
	switch {
	case c.now.asked():
		found, err := c.fresh()
		return found, nil, err
	case !c.was.given && !c.now.given:
		return nil, nil, nil
	case c.old == nil || !c.was.given:
		found, err := r.brought(ctx, c)
		if found == nil && err == nil {
			answer.warn("pins of %s were dropped: no such revisions that fit in namespace '%s'", c.field, c.vm.Namespace)
		}
		return found, nil, err
	}
	found, err := r.stays(ctx, c)
	if err != nil || !c.now.given || slices.Equal(c.now.names, c.was.names) || slices.Equal(c.now.names, revisions(found)) {
		return found, nil, err
	}
	if found, err = c.fresh(); err != nil || slices.Equal(c.now.names, revisions(found)) {
		return found, nil, err
	}
	return nil, field.ErrorList{foreignPin(strings.Join(c.now.names, ", "))}, nil
}

// brought are the revisions that a VM comes with; nil when one does not exist, is not what it was, or is not for this guest.
func (r Resolver) brought(ctx context.Context, c change) ([]*content, error) {
	all := []*content{}
	for _, name := range c.now.names {
		found, err := r.keeps(ctx, c, name)
		if errors.As(err, new(*revision.Untrusted)) || err == nil && (found == nil || !found.matches(c.vm)) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// matches tells whether a preset matches the guest of a VM. A configuration fits all.
func (c *content) matches(vm *v1.VirtualMachine) bool {
	if c.preset == nil || vm.Spec.Template == nil {
		return true
	}
	matching, _ := preset.Match([]v1.VirtualMachineInstancePreset{*c.preset}, admit.Instance(vm))
	return len(matching) > 0
}

// stays is what an update leaves pinned: with other labels of the guest, presets that match no more go, and those come that match
// now and did not before. The others stay as they are, whatever became of the presets themselves.
func (r Resolver) stays(ctx context.Context, c change) ([]*content, error) {
	kept := []*content{}
	names := map[string]bool{}
	for _, name := range c.was.names {
		found, err := r.keeps(ctx, c, name)
		if err == nil && found == nil {
			err = lost(name, c.field)
		}
		if err != nil {
			return nil, err
		}
		if names[found.source().Name] = true; found.matches(c.vm) {
			kept = append(kept, found)
		}
	}
	if c.field != presets.field || !relabelled(c.vm, c.old) {
		return kept, nil
	}
	matching, err := c.fresh()
	if err != nil {
		return nil, err
	}
	for _, found := range matching {
		if !names[found.preset.Name] && !found.matches(c.old) {
			kept = append(kept, found)
		}
	}
	slices.SortFunc(kept, func(a, b *content) int { return strings.Compare(a.preset.Name, b.preset.Name) })
	return kept, nil
}

// relabelled tells whether what presets go by has changed.
func relabelled(vm, old *v1.VirtualMachine) bool {
	if vm.Spec.Template == nil || old.Spec.Template == nil {
		return false
	}
	now, was := vm.Spec.Template.ObjectMeta, old.Spec.Template.ObjectMeta
	return !maps.Equal(now.Labels, was.Labels) || now.Annotations[preset.Exclude] != was.Annotations[preset.Exclude]
}

// keeps is one pinned revision: from the cache, else of what there is now if that is the same, else from the API server. Nil when it
// does not exist.
func (r Resolver) keeps(ctx context.Context, c change, name string) (*content, error) {
	key := client.ObjectKey{Namespace: c.vm.Namespace, Name: name}
	found, err := Resolver{Cached: r.Cached, Memo: r.Memo}.revision(ctx, c.family, key)
	if err != nil || found != nil {
		return found, err
	}
	now, err := c.fresh()
	if err != nil {
		return nil, err
	}
	for _, found := range now {
		if found.revision == name {
			return found, nil
		}
	}
	if r.Live == nil {
		return nil, nil
	}
	return Resolver{Cached: r.Live, Memo: r.Memo}.revision(ctx, c.family, key)
}
