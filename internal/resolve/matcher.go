package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// matched is a matcher of a VM that is written, with what becomes of its pin.
type matched struct {
	*reference
	action pin.Action
	// given is the pin that the VM comes with, recorded the one that it had.
	given, recorded string
	// revisionIsNew reports that no revision of this name was asked for before.
	revisionIsNew bool
}

// matchedBy is a matcher with its pins before and after a change of the VM. before is nil on create.
func matchedBy(ref, before *reference, now, was pin.Entry) matched {
	event := pin.Updated
	if before == nil || !ref.same(before) {
		event, ref.status = pin.Created, nil // what was resolved for another matcher says nothing of this one
	}
	return matched{
		reference: ref, action: pin.Decide(now, was, event), given: now.Name(), recorded: was.Name(),
		revisionIsNew: before == nil || before.revision != ref.revision,
	}
}

// matchers are those that a VM has.
func matchers(vm, old *v1.VirtualMachine, now, was pin.Written) (all []matched) {
	instancetype, preference := references(vm)
	var oldInstancetype, oldPreference *reference
	if old != nil {
		oldInstancetype, oldPreference = references(old)
	}
	if instancetype != nil {
		all = append(all, matchedBy(instancetype, oldInstancetype, now.Instancetype, was.Instancetype))
	}
	if preference != nil {
		all = append(all, matchedBy(preference, oldPreference, now.Preference, was.Preference))
	}
	return all
}

// pinned is the revision that the pins say; empty where they say none.
func (m matched) pinned() string {
	switch m.action {
	case pin.Honour:
		return m.given
	case pin.Keep:
		return m.recorded
	}
	return ""
}

// match finds what a matcher means. Nil content without an error: it is not known yet, and the VM cannot start.
func (r Resolver) match(ctx context.Context, m matched, answer *Answer) (*content, field.ErrorList, error) {
	switch {
	case m.inferFrom != "" && (m.name+m.kind != "" || !m.hasPolicy()):
		return nil, nil, nil // what is meant is not known: validation says why
	case m.inferFrom == "" && m.name == "":
		return nil, field.ErrorList{field.Required(m.path.Child("name"), "name the "+m.field).WithOrigin("vm/matcher-name")}, nil
	case !m.knownKind(answer):
		return nil, nil, nil
	case m.revision != "":
		return r.byRevisionName(ctx, m, answer)
	case m.pinned() == v1alpha1.PinNone && m.ignores():
		return &content{revision: v1alpha1.PinNone}, nil, nil
	}
	if found, err := r.byPin(ctx, m); err != nil || found != nil {
		return found, nil, err
	}
	found, errs, err := r.current(ctx, m.reference, answer)
	if err != nil || len(errs) > 0 {
		return nil, errs, err
	}
	now := ""
	if found != nil {
		now = found.revision
	}
	switch {
	case m.given == now:
	case m.action == pin.Exchange:
		return nil, field.ErrorList{replacedPin(m.given)}, nil
	case m.action == pin.Honour: // a dry run writes no revision, but its second call is asked for it
		answer.warn("pin '%s' was dropped: the namespace has no such revision of %s", m.given, m.reference)
	}
	return found, nil, nil
}

// byPin is the revision that the pins or the status of the VM say. Nil when neither does, or a given pin is not good here.
func (r Resolver) byPin(ctx context.Context, m matched) (*content, error) {
	switch m.action {
	case pin.Honour:
		found, err := r.pinned(ctx, m.reference, m.given)
		if errors.As(err, new(*revision.Untrusted)) { // what a backup has brought is not used if it is not what it was
			return nil, nil
		}
		return found, err
	case pin.Keep:
		found, err := r.pinned(ctx, m.reference, m.recorded)
		if err == nil && found == nil {
			err = revisionGone(m.recorded, m.reference)
		}
		return found, err
	case pin.First:
		return r.byStatus(ctx, m.reference)
	}
	return nil, nil
}

// byStatus is the revision that the status records, for VMs that were admitted by KubeVirt.
func (r Resolver) byStatus(ctx context.Context, ref *reference) (*content, error) {
	name := ref.statusRevision()
	if name == "" {
		return nil, nil
	}
	found, err := r.revision(ctx, ref.family, client.ObjectKey{Namespace: ref.namespace, Name: name})
	if err == nil && found == nil {
		err = revisionGone(name, ref)
	}
	if err != nil || ref.fits(found.source) {
		return found, err
	}
	return nil, nil
}

// current is what a new pin would be: the object that the matcher names, or that its volume recommends.
func (r Resolver) current(ctx context.Context, ref *reference, answer *Answer) (*content, field.ErrorList, error) {
	if ref.inferFrom != "" {
		named, errs, err := r.infer(ctx, ref, answer)
		switch {
		case err != nil || len(errs) > 0:
			return nil, errs, err
		case named == nil:
			return nil, nil, nil
		case named.name == "":
			return &content{revision: v1alpha1.PinNone}, nil, nil
		case !named.knownKind(answer):
			return nil, nil, nil
		}
		ref = named
	}
	found, err := r.live(ctx, ref)
	if found == nil && err == nil {
		kind := ref.family.Canonical(ref.kind)
		answer.warnMissing(Missing{Path: ref.at(), Value: ref.name, Kind: kind, Namespace: ref.scope()},
			"%s '%s'%s does not exist; the VM cannot start until it does", kind, ref.name, ref.where())
	}
	return found, nil, err
}

// byRevisionName is the revision that the user asks for by name. One that does not exist when it is asked for is a mistake, and so is one of another
// object. One that has gone since then leaves the guest unable to start, like an object that has gone.
func (r Resolver) byRevisionName(ctx context.Context, m matched, answer *Answer) (*content, field.ErrorList, error) {
	ref := m.reference
	at := ref.path.Child("revisionName")
	found, err := r.revision(ctx, ref.family, client.ObjectKey{Namespace: ref.namespace, Name: ref.revision})
	switch {
	case err != nil:
		return nil, nil, err
	case found == nil && m.revisionIsNew:
		return nil, field.ErrorList{missing(at, ref)}, nil
	case found == nil:
		answer.warnMissing(Missing{Path: at, Value: ref.revision}, "%s: revision '%s' does not exist; the VM cannot start until it does", at, ref.revision)
	case !ref.fits(found.source):
		return nil, field.ErrorList{field.Invalid(at, ref.revision,
			fmt.Sprintf("holds %s '%s', not %s '%s'", found.source.Kind, found.source.Name, ref.Canonical(ref.kind), ref.name)).WithOrigin("vm/revision-content")}, nil
	}
	return found, nil, nil
}

func missing(at *field.Path, ref *reference) *field.Error {
	err := field.NotFound(at, ref.revision).WithOrigin("vm/revision-missing")
	err.Detail = fmt.Sprintf("namespace '%s' has no such revision of %s: create it first, or leave revisionName out", ref.namespace, ref)
	return err
}

// pinned resolves a pin: the cached revision, else a live object of just that content, else the API server. Nil when no
// such revision exists here, or it is of another object.
func (r Resolver) pinned(ctx context.Context, ref *reference, name string) (*content, error) {
	key := client.ObjectKey{Namespace: ref.namespace, Name: name}
	found, err := r.cached().revision(ctx, ref.family, key)
	if err == nil && found == nil && ref.name != "" {
		if found, err = r.cached().live(ctx, ref); found != nil && found.revision != name {
			found = nil
		}
	}
	if err == nil && found == nil {
		found, err = r.revision(ctx, ref.family, key)
	}
	if err != nil || found == nil || !ref.fits(found.source) {
		return nil, err
	}
	return found, nil
}
