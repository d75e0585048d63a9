// Package resolve goes from references to values: which instancetype, preference, presets and configuration a VM has. One
// algorithm serves the webhook (informer caches), the controller and the command line (files).
package resolve

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resolver reads what guests refer to. Nothing leaves the process when the cache holds what is asked for.
type Resolver struct {
	// Cached answers from informers or files. Instancetypes and preferences are read untyped, so that fields of a newer
	// API keep their place in a snapshot.
	Cached client.Reader
	// Live is the API server, asked once when the cache has no answer. Nil with files: the cache is all there is.
	Live client.Reader
	// Memo spares reading the same version of an object twice; nil reads it each time.
	Memo *Memo
	// Rights bound what an inference may read in other namespaces. Nil where whoever asks reads with rights of their own.
	Rights *Rights
	// Defaults are those of the configuration that VMs are pinned to; nil where none is to be pinned. Who resolves for one object reads the
	// configuration once, and sets them.
	Defaults *config.Defaults
}

// Answer is what the references of one guest resolve to.
type Answer struct {
	Set instancetype.Set
	// Presets and Defaults are those that the guest is pinned to. Nil: not pinned yet, so that those of now count.
	Presets  []v1.VirtualMachineInstancePreset
	Defaults *config.Defaults
	// Pins name the revisions of all that. A reference that is not known yet has none.
	Pins v1alpha1.Pins
	// Drafts are the revisions that do not exist yet.
	Drafts   []revision.Draft
	Warnings []string
	// Missing is what some of the warnings are about.
	Missing []Missing
	// Waiting reports that the source of a volume does not exist yet, so that its recommendation is unknown.
	Waiting bool
}

// Refusal is the user's mistake. Every other error of this package is Kiln's or the cluster's: the request may be right and can be
// tried again.
type Refusal struct{ Errors field.ErrorList }

func (r *Refusal) Error() string { return r.Errors.ToAggregate().Error() }

// VM resolves the matchers of a VM; old is nil on create. The order is: revisionName, the pin, the revision in the status,
// the live object.
func (r Resolver) VM(ctx context.Context, vm, old *v1.VirtualMachine) (Answer, error) {
	var answer Answer
	var refused field.ErrorList
	now, was := pin.Parse(vm), pin.Written{}
	if now.Malformed {
		if old != nil {
			return answer, &Refusal{field.ErrorList{replacedPin(vm.Annotations[v1alpha1.AnnotationPins])}}
		}
		answer.warn("annotation '%s' cannot be read and was dropped", v1alpha1.AnnotationPins)
	}
	if old != nil {
		was = pin.Parse(old)
	}
	for _, m := range matchers(vm, old, now, was) {
		found, errs, err := r.match(ctx, m, &answer)
		if err != nil {
			return answer, err
		}
		if refused = append(refused, errs...); found != nil {
			answer.take(m.family, []*content{found})
		}
	}
	for _, i := range r.implicits(ctx, vm, old) {
		found, errs, err := r.resolveImplicit(ctx, i, &answer)
		if err != nil {
			return answer, err
		}
		refused = append(refused, errs...)
		answer.take(i.family, found)
	}
	if len(refused) > 0 {
		return answer, &Refusal{refused}
	}
	if answer.Waiting { // resolution runs again when the volume exists
		return answer, nil
	}
	var err error
	answer.Set.Architecture, err = r.architecture(ctx, vm, old, answer.Set.Preference)
	return answer, err
}

// VMI resolves the pins of a VMI. A VMI has no matchers: without pins it has neither instancetype nor preference.
func (r Resolver) VMI(ctx context.Context, vmi *v1.VirtualMachineInstance) (Answer, error) {
	answer := Answer{Set: instancetype.Set{Architecture: vmi.Annotations[v1alpha1.AnnotationArchitecture]}}
	written := pin.Parse(vmi)
	if written.Malformed {
		answer.warn("annotation '%s' cannot be read and has no effect", v1alpha1.AnnotationPins)
	}
	for _, pinned := range []struct {
		family
		pin.Entry
	}{
		{instancetypes, written.Instancetype}, {preferences, written.Preference}, {presets, written.Presets}, {configurations, written.Configuration},
	} {
		if pinned.Asks() {
			continue
		}
		found, err := r.all(ctx, vmi.Namespace, pinned.family, pinned.Names)
		if err != nil {
			return answer, err
		}
		answer.take(pinned.family, found)
	}
	return answer, nil
}

// all are the revisions that a VMI is pinned to, which must be there. Nil when it is pinned to none of the family.
func (r Resolver) all(ctx context.Context, namespace string, f family, names []string) (all []*content, err error) {
	if names != nil {
		all = []*content{}
	}
	for _, name := range names {
		if name == v1alpha1.PinNone {
			continue
		}
		found, err := r.revision(ctx, f, client.ObjectKey{Namespace: namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if found == nil {
			return nil, fmt.Errorf("revision '%s' in annotation '%s' does not exist in namespace '%s': restore it, or remove the annotation for a VMI without %s",
				name, v1alpha1.AnnotationPins, namespace, f.field)
		}
		all = append(all, found)
	}
	return all, nil
}

// Presets are those of a namespace, in no particular order.
func (r Resolver) Presets(ctx context.Context, namespace string) ([]v1.VirtualMachineInstancePreset, error) {
	var list v1.VirtualMachineInstancePresetList
	if err := r.Cached.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the presets of namespace '%s': %w", namespace, err)
	}
	return list.Items, nil
}

// Input is what stage 1 needs for a guest of a namespace: what it is pinned to, and for the rest what is there now.
func (r Resolver) Input(ctx context.Context, namespace string, answer Answer, now config.Cluster) (admit.Input, error) {
	in := admit.Input{Set: answer.Set, Presets: answer.Presets, Cluster: now}
	if answer.Defaults != nil {
		in.Cluster.Defaults = *answer.Defaults
	}
	if answer.Presets != nil {
		return in, nil
	}
	var err error
	in.Presets, err = r.Presets(ctx, namespace)
	return in, err
}

func (a *Answer) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

// take pins contents of a family and notes which revisions do not exist yet. Nil: none of the family are pinned yet.
func (a *Answer) take(f family, found []*content) {
	if found == nil {
		return
	}
	for _, c := range found {
		if c.draft != nil {
			a.Drafts = append(a.Drafts, *c.draft)
		}
	}
	f.pin(a, found)
}
