package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// matcherPin is a matcher of a VM with the decision about its pin.
type matcherPin struct {
	*reference
	action pin.Action
	// given is the pin in the request, recorded is the pin of the stored VM.
	given, recorded string
	// revisionIsNew reports that the stored VM does not have this revisionName.
	revisionIsNew bool
}

// newMatcherPin decides about the pin of a matcher from the pins in the request (now) and in the stored VM (was). before is the stored
// matcher, nil on create.
func newMatcherPin(ref, before *reference, now, was pin.Entry) matcherPin {
	event := pin.Updated
	if before == nil || !ref.refersToSame(before) {
		event, ref.status, ref.isNew = pin.Created, nil, true // the status is about another matcher
	}
	return matcherPin{
		reference: ref, action: pin.Decide(now, was, event), given: now.Name(), recorded: was.Name(),
		revisionIsNew: before == nil || before.revision != ref.revision,
	}
}

// matcherPins returns the matchers that a VM has, each with the decision about its pin.
func matcherPins(vm, old *v1.VirtualMachine, now, was pin.Written) (all []matcherPin) {
	instancetype, preference := matcherReferences(vm)
	var oldInstancetype, oldPreference *reference
	if old != nil {
		oldInstancetype, oldPreference = matcherReferences(old)
	}
	if instancetype != nil {
		all = append(all, newMatcherPin(instancetype, oldInstancetype, now.Instancetype, was.Instancetype))
	}
	if preference != nil {
		all = append(all, newMatcherPin(preference, oldPreference, now.Preference, was.Preference))
	}
	return all
}

// pinnedRevision returns the name of the revision that the decision uses: the pin in the request or the recorded one; empty if it uses neither.
func (m matcherPin) pinnedRevision() string {
	switch m.action {
	case pin.Honour:
		return m.given
	case pin.Keep:
		return m.recorded
	}
	return ""
}

// resolveMatcher returns the object that a matcher refers to. If it returns neither object nor errors, the object does not exist yet, or the matcher is
// malformed and validation reports it. The VM cannot start then.
func (r Resolver) resolveMatcher(ctx context.Context, m matcherPin, resolution *Resolution) (*pinObject, field.ErrorList, error) {
	switch {
	case m.inferFrom != "" && (m.name+m.kind != "" || !m.hasPolicy()):
		return nil, nil, nil // malformed: validation reports it
	case m.inferFrom == "" && m.name == "":
		return nil, field.ErrorList{field.Required(m.matcherPath().Child("name"), "name the "+m.field).WithOrigin("vm/matcher-name")}, nil
	case !m.knownKind(resolution):
		return nil, nil, nil
	case m.revision != "":
		return r.byRevisionName(ctx, m, resolution)
	case m.pinnedRevision() == v1alpha1.PinNone && m.ignoresInferFailure():
		return &pinObject{revision: v1alpha1.PinNone}, nil, nil
	}
	if found, err := r.byPin(ctx, m); err != nil || found != nil {
		return found, nil, err
	}
	found, errs, err := r.currentObject(ctx, m.reference, resolution)
	if err != nil || len(errs) > 0 {
		return nil, errs, err
	}
	now := ""
	if found != nil {
		now = found.revision
	}
	switch {
	case m.given == now: // as in the second call of a dry run, which has written no revision
	case m.action == pin.Refuse:
		return nil, field.ErrorList{replacedPin(m.given)}, nil
	case m.action == pin.Honour:
		resolution.addWarning("pin '%s' was dropped: the namespace has no such revision of %s", m.given, m.reference)
		resolution.LostPins = append(resolution.LostPins, m.given)
	}
	return found, nil, nil
}

// byPin returns the revision that the pins or the status of the VM name. It returns nil if neither names one, or if a restored pin cannot be used here.
func (r Resolver) byPin(ctx context.Context, m matcherPin) (*pinObject, error) {
	switch m.action {
	case pin.Honour:
		found, err := r.pinnedObject(ctx, m.reference, m.given)
		if errors.As(err, new(*revision.Untrusted)) { // a restored revision that was changed is not used
			return nil, nil
		}
		return found, err
	case pin.Keep:
		found, err := r.pinnedObject(ctx, m.reference, m.recorded)
		if err == nil && found == nil {
			err = revisionGone(m.recorded, m.reference)
		}
		return found, err
	case pin.First:
		return r.byStatus(ctx, m.reference)
	}
	return nil, nil
}

// byStatus returns the revision in status.instancetypeRef or status.preferenceRef. VMs that KubeVirt admitted have no other pins.
func (r Resolver) byStatus(ctx context.Context, ref *reference) (*pinObject, error) {
	name := ref.statusRevision()
	if name == "" {
		return nil, nil
	}
	found, err := r.reader().readRevision(ctx, ref.pinKind, client.ObjectKey{Namespace: ref.namespace, Name: name})
	if err == nil && found == nil {
		err = revisionGone(name, ref)
	}
	if err != nil || ref.matchesSource(found.source) {
		return found, err
	}
	return nil, nil
}

// currentObject returns the live object that the matcher names or its volume recommends. A new pin names it. The webhook only warns if it does not exist,
// because it may be created later.
func (r Resolver) currentObject(ctx context.Context, ref *reference, resolution *Resolution) (*pinObject, field.ErrorList, error) {
	if ref.inferFrom != "" {
		named, errs, err := r.inferReference(ctx, ref, resolution)
		switch {
		case err != nil || len(errs) > 0:
			return nil, errs, err
		case named == nil:
			return nil, nil, nil
		case named.name == "":
			return &pinObject{revision: v1alpha1.PinNone}, nil, nil
		case !named.knownKind(resolution):
			return nil, nil, nil
		}
		ref = named
	}
	found, object, err := r.reader().namedObject(ctx, ref)
	switch {
	case err != nil:
		return nil, nil, err
	case found != nil:
		resolution.Current = append(resolution.Current, Current{Path: ref.namePath(), Source: found.source, Object: object})
	default:
		if errs := ref.refuseImpossibleName(ref.namePath(), ref.name); errs != nil {
			missing := ref.missingObject()
			missing.refused = errs[0]
			resolution.Missing = append(resolution.Missing, missing)
			return nil, errs, nil
		}
		problem := "does not exist; the VM cannot start until it does"
		if r.OfFiles {
			problem = "is not among the files of -f and --catalog"
		}
		resolution.warnMissing(ref.missingObject(), "%s '%s'%s %s", ref.pinKind.Canonical(ref.kind), nearest.Short(ref.name), ref.inNamespace(), problem)
	}
	return found, nil, nil
}

// byRevisionName returns the revision that revisionName names. If the revision does not exist or is a revision of another object, it refuses the request. If
// the revision is deleted later, updates of the VM are still admitted, with a warning, and the VM cannot start.
func (r Resolver) byRevisionName(ctx context.Context, m matcherPin, resolution *Resolution) (*pinObject, field.ErrorList, error) {
	ref := m.reference
	at := ref.matcherPath().Child("revisionName")
	found, err := r.reader().readRevision(ctx, ref.pinKind, client.ObjectKey{Namespace: ref.namespace, Name: ref.revision})
	switch {
	case err != nil:
		return nil, nil, err
	case found == nil && m.revisionIsNew && len(validation.IsDNS1123Subdomain(ref.revision)) > 0:
		return nil, field.ErrorList{field.Invalid(at, ref.revision, "no revision can have this name: "+validation.IsDNS1123Subdomain(ref.revision)[0]+
			"; leave revisionName out for the current one").WithOrigin("vm/revision-missing")}, nil
	case found == nil && m.revisionIsNew:
		return nil, field.ErrorList{missingRevision(at, ref)}, nil
	case found == nil:
		resolution.warnMissing(Missing{Path: at, Value: ref.revision}, "%s: revision '%s' does not exist; the VM cannot start until it does", at,
			nearest.Short(ref.revision))
	case !ref.matchesSource(found.source):
		return nil, field.ErrorList{field.Invalid(at, ref.revision,
			fmt.Sprintf("holds %s '%s', not %s '%s'", found.source.Kind, found.source.Name, ref.Canonical(ref.kind), ref.name)).WithOrigin("vm/revision-content")}, nil
	}
	return found, nil, nil
}

// refuseImpossibleName refuses a name that no object can have, for which a VM would wait for ever. It does not refuse such a name in an unchanged matcher of a
// stored VM, nor a name that a volume recommends: their authors may not be able to correct it.
func (r *reference) refuseImpossibleName(at *field.Path, name string) field.ErrorList {
	why := validation.IsDNS1123Subdomain(name)
	if len(why) == 0 || !r.isNew || r.inferred {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, nearest.NoObject+": "+why[0]).WithOrigin("vm/matcher-name-legal")}
}

func missingRevision(at *field.Path, ref *reference) *field.Error {
	err := field.NotFound(at, ref.revision).WithOrigin("vm/revision-missing")
	err.Detail = fmt.Sprintf("namespace '%s' has no such revision of %s: create it first, or leave revisionName out", ref.namespace, ref)
	return err
}

// pinnedObject returns a pinned revision from the cache, else from a cached live object with the same content, else from the API server. It returns nil if the
// namespace has no such revision, or if it is a revision of another object. This order makes no call for a VM whose revision is cached.
func (r Resolver) pinnedObject(ctx context.Context, ref *reference, name string) (*pinObject, error) {
	key := client.ObjectKey{Namespace: ref.namespace, Name: name}
	found, err := r.reader().fromCache().readRevision(ctx, ref.pinKind, key)
	if err == nil && found == nil && ref.name != "" {
		if found, _, err = r.reader().fromCache().namedObject(ctx, ref); found != nil && found.revision != name {
			found = nil
		}
	}
	if err == nil && found == nil {
		found, err = r.reader().readRevision(ctx, ref.pinKind, key)
	}
	if err != nil || found == nil || !ref.matchesSource(found.source) {
		return nil, err
	}
	return found, nil
}
