// Package resolve finds the instancetype, preference, presets, profiles and configuration that a VM refers to. One algorithm serves the webhook and the
// controller, which read informer caches, and the command line, which reads files.
package resolve

import (
	"cmp"
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/profile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resolver resolves references. It calls the API server only for objects that the cache lacks; inferences are always read live.
type Resolver struct {
	// Cached reads from informers or files. Instancetypes and preferences are read untyped: typed, a snapshot would lose the fields of a newer
	// API.
	Cached client.Reader
	// Live reads from the API server, once for each object that the cache lacks. Nil with files.
	Live client.Reader
	// Memo caches decoded objects by version; nil decodes them each time.
	Memo *Memo
	// Rights limit what an inference may read in other namespaces. Nil if Cached and Live read with the user's own rights, as on the command line.
	Rights *Rights
	// Defaults are the defaults of the configuration that new VMs are pinned to; nil to pin none. The caller sets them for each object, so that one request is
	// resolved and judged by one configuration.
	Defaults *config.Defaults
	// CompletesNew makes the method VM pin a new VM also to presets, profiles and configuration, see pinNew. Admission sets it when it writes the pins.
	CompletesNew bool
	// InfersAtOnce refuses a VM with inferFromVolume whose source does not exist yet, because KubeVirt infers when the VM is written and refuses it, too.
	// Without KubeVirt the VM waits.
	InfersAtOnce bool
	// OfFiles means that the reader has only the objects of files: an object that it lacks may exist in the cluster.
	OfFiles bool
	// noteRead is called with each source that was read; nil to note none.
	noteRead func(Source)
}

// Resolution is what the references of one VM or VMI resolve to.
type Resolution struct {
	Set instancetype.Set
	// Presets, Profiles and Defaults are what the VM is pinned to. Nil means that it is not pinned yet, and that the current ones apply.
	Presets  []v1.VirtualMachineInstancePreset
	Profiles []*profile.Profile
	Defaults *config.Defaults
	// Pins are the names of the revisions. A reference to an object that does not exist yet has no pin.
	Pins v1alpha1.Pins
	// Drafts are the revisions that do not exist yet.
	Drafts   []revision.Draft
	Warnings []string
	// LostPins are the revisions that the request names and that were dropped, such as revisions that a backup does not contain.
	LostPins []string
	// Current are the live objects that the VM gets as instancetype and preference. An object from a pin, from revisionName or from the status is not among
	// them.
	Current []Current
	// Missing are the objects and volumes that some of the warnings are about.
	Missing []Missing
	// Inferred are the recommendations of volumes, in the order of the matchers.
	Inferred []Inference
	// Read are all existing objects in which recommendations and the architecture were looked for.
	Read []Source
	// Waiting reports that the source of a volume does not exist yet, so that its recommendation is unknown.
	Waiting bool
}

// Current is a live instancetype or preference.
type Current struct {
	// Path is the field of the VM that names it, or the volume that recommends it.
	Path *field.Path
	instancetype.Source
	// Object has the metadata, too, which no revision has. It belongs to the cache, and must not be changed.
	Object metav1.Object
}

// Refusal is the error of a request that its author must correct (422). Every other error of this package is a fault of Kiln or of the cluster: the same
// request may succeed later (500 or 503).
type Refusal struct{ Errors field.ErrorList }

func (r *Refusal) Error() string { return r.Errors.ToAggregate().Error() }

// VM resolves the matchers of a VM, and the presets, profiles and configuration that it is pinned to; old is the stored VM, nil on create. A matcher is
// resolved by its revisionName, else by the pin, else by the revision in the status, else by the live object. It returns a *Refusal with the
// mistakes of all references at once.
func (r Resolver) VM(ctx context.Context, vm, old *v1.VirtualMachine) (Resolution, error) {
	var resolution Resolution
	var refused field.ErrorList
	r.noteRead = func(s Source) { resolution.Read = append(resolution.Read, s) }
	now, was := pin.Parse(vm), pin.Written{}
	if now.Malformed {
		if old != nil {
			return resolution, &Refusal{field.ErrorList{replacedPin(vm.Annotations[v1alpha1.AnnotationPins])}}
		}
		resolution.addWarning("annotation '%s' cannot be read and was dropped", v1alpha1.AnnotationPins)
	}
	if old != nil {
		was = pin.Parse(old)
	}
	for _, m := range matcherPins(vm, old, now, was) {
		found, errs, err := r.resolveMatcher(ctx, m, &resolution)
		if err != nil {
			return resolution, err
		}
		if refused = append(refused, errs...); found != nil {
			resolution.addPinned(m.pinKind, []*pinObject{found})
		}
	}
	implicits := implicitPinsOf(vm, old)
	for n := range implicits {
		i := &implicits[n]
		found, errs, err := r.resolveImplicit(ctx, i, &resolution)
		if err != nil {
			return resolution, err
		}
		refused = append(refused, errs...)
		resolution.addPinned(i.pinKind, found)
	}
	if resolution.Profiles == nil && resolution.Pins.PinsProfiles() {
		resolution.Profiles = []*profile.Profile{} // pins with presets and without profiles mean that the VM has no profiles
	}
	if len(refused) > 0 {
		return resolution, &Refusal{refused}
	}
	if old == nil && r.CompletesNew {
		r.pinNew(ctx, vm, &resolution)
	}
	if resolution.Waiting { // resolution runs again when the volume exists
		return resolution, nil
	}
	var err error
	resolution.Set.Architecture, err = r.inferArchitecture(ctx, vm, old, resolution.Set.Preference)
	return resolution, err
}

// VMI resolves the pins of a VMI. A VMI has no matchers: without pins it has neither instancetype nor preference. A pinned revision that does not exist is an
// error, because the VMI would be another machine without it.
func (r Resolver) VMI(ctx context.Context, vmi *v1.VirtualMachineInstance) (Resolution, error) {
	resolution := Resolution{Set: instancetype.Set{Architecture: vmi.Annotations[v1alpha1.AnnotationArchitecture]}}
	written := pin.Parse(vmi).OrNone()
	if written.Malformed {
		resolution.addWarning("annotation '%s' cannot be read and has no effect", v1alpha1.AnnotationPins)
	}
	for _, pinned := range []struct {
		pinKind
		pin.Entry
	}{
		{instancetypes, written.Instancetype}, {preferences, written.Preference}, {presets, written.Presets},
		{profiles, written.Profiles}, {configurations, written.Configuration},
	} {
		if pinned.RepinRequested() {
			continue
		}
		found, err := r.readPinned(ctx, vmi.Namespace, pinned.pinKind, pinned.Entry)
		if err != nil {
			return resolution, err
		}
		resolution.addPinned(pinned.pinKind, found)
	}
	return resolution, nil
}

// Configuration returns the configuration that a VMI is pinned to, or the Resolver's Defaults if it is not pinned to one.
func (r Resolver) Configuration(ctx context.Context, vmi *v1.VirtualMachineInstance) (*config.Defaults, error) {
	pinned := pin.Parse(vmi).Configuration
	if !pinned.Pinned() {
		return r.Defaults, nil
	}
	found, err := r.readPinned(ctx, vmi.Namespace, configurations, pinned)
	if err != nil || len(found) == 0 {
		return r.Defaults, err
	}
	return found[0].defaults, nil
}

// readPinned returns the revisions of a kind that an entry names; nil if Names are nil. It skips PinNone, and fails if a revision does not exist.
func (r Resolver) readPinned(ctx context.Context, namespace string, f pinKind, entry pin.Entry) (all []*pinObject, err error) {
	if entry.Names != nil {
		all = []*pinObject{}
	}
	for name, base := range entry.Each() {
		if name == v1alpha1.PinNone {
			continue
		}
		found, err := r.reader().readRevision(ctx, f, client.ObjectKey{Namespace: namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if found == nil {
			return nil, fmt.Errorf("revision '%s' in annotation '%s' does not exist in namespace '%s': restore it, or remove the annotation for a VMI without %s",
				name, v1alpha1.AnnotationPins, namespace, f.field)
		}
		all = append(all, found.withBase(base))
	}
	return all, nil
}

// Presets returns the presets of a namespace, in no particular order. They belong to the cache: the caller must not change them.
func (r Resolver) Presets(ctx context.Context, namespace string) ([]v1.VirtualMachineInstancePreset, error) {
	var list v1.VirtualMachineInstancePresetList
	if err := r.Cached.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the presets of namespace '%s': %w", namespace, err)
	}
	return list.Items, nil
}

// Input returns the input of stage 1 for a VMI: the objects that the VMI is pinned to. Presets, profiles and defaults that are not pinned are the current ones.
func (r Resolver) Input(ctx context.Context, namespace string, resolution Resolution, now config.Cluster) (admit.Input, error) {
	in := admit.Input{Set: resolution.Set, Presets: resolution.Presets, Profiles: resolution.Profiles, Cluster: now}
	if resolution.Defaults != nil {
		in.Cluster.Defaults = *resolution.Defaults
	}
	var err, profilesErr error
	if in.Presets == nil {
		in.Presets, err = r.Presets(ctx, namespace)
	}
	if in.Profiles == nil {
		in.Profiles, profilesErr = r.Profiles(ctx, namespace)
	}
	return in, cmp.Or(err, profilesErr)
}

// addWarning adds a warning, which the webhook returns to the author of the request.
func (a *Resolution) addWarning(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

// addPinned adds objects of a kind to the resolution, with a draft for each revision that does not exist yet. Nil leaves the kind unpinned; an empty list does
// not, because "no presets" is a pin too.
func (a *Resolution) addPinned(f pinKind, found []*pinObject) {
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
