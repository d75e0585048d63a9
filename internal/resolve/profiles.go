package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/profile"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A VM gets profiles without naming them, as it gets presets: the profiles of its namespace and of the cluster whose selector matches the labels of its VMI.
// It is pinned to them and to all profiles that they extend.

// ProfileObjects returns an empty object of each kind that a Resolver reads for profiles. A process that resolves from a cache starts their informers.
func ProfileObjects() []client.Object {
	objects := []client.Object{newNamespace()}
	for _, kind := range profiles.Both() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		objects = append(objects, object)
	}
	return objects
}

// currentProfile is the current content of a profile.
type currentProfile struct {
	*profile.Profile
	// base reports that the profile does not select the namespace: others may extend it, and Profile is a copy that selects nothing.
	base   bool
	object *unstructured.Unstructured
}

// Profiles returns the profiles that may fill VMIs of a namespace, and the profiles that these may extend. They are shared: the caller must not change them.
func (r Resolver) Profiles(ctx context.Context, namespace string) ([]*profile.Profile, error) {
	all, err := r.reader().currentProfiles(ctx, namespace)
	return profilesOnly(all), err
}

func profilesOnly(all []currentProfile) []*profile.Profile {
	var found []*profile.Profile
	for _, p := range all {
		found = append(found, p.Profile)
	}
	return found
}

// maxProfiles is how many GuestProfiles of a namespace are read. It bounds the cost of a review, because tenants write GuestProfiles.
const maxProfiles = 256

func refusedProfiles(value, detail string) *field.Error {
	return field.Invalid(profilesPath, value, detail)
}

// currentProfiles is Profiles with the objects. It reads the labels of the namespace only if a profile selects namespaces.
func (r reader) currentProfiles(ctx context.Context, namespace string) (all []currentProfile, err error) {
	var labels map[string]string
	for _, kind := range profiles.Both() {
		objects, err := r.listProfiles(ctx, kind, namespace)
		if err != nil {
			return nil, err
		}
		if kind == profiles.Namespaced && len(objects) > maxProfiles {
			return nil, &Refusal{field.ErrorList{refusedProfiles(namespace, fmt.Sprintf(
				"namespace '%s' has %d GuestProfiles, at most %d are read: delete those that no VM needs",
				namespace, len(objects), maxProfiles)).WithOrigin("profile/limit")}}
		}
		for i := range objects {
			p, err := r.readProfile(&objects[i])
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			if p.unreadable != "" {
				return nil, &Refusal{field.ErrorList{refusedProfiles(objects[i].GetName(), p.unreadable).WithOrigin("profile/unreadable")}}
			}
			if p.selectsNamespaces && labels == nil {
				found, err := r.readNamespace(ctx, namespace)
				if err != nil {
					return nil, err
				}
				labels = found.Labels
			}
			current := currentProfile{Profile: p.Profile, object: &objects[i]}
			if p.selectsNamespaces && !p.InNamespace(labels) {
				current.Profile, current.base = p.base, true
			}
			all = append(all, current)
		}
	}
	return all, nil
}

// profileVersion is the apiVersion of profiles.
var profileVersion = v1alpha1.GroupVersion.String()

// listProfiles returns the profiles of a kind; of the namespace if the kind has one. They belong to the cache.
func (r reader) listProfiles(ctx context.Context, kind, namespace string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": profileVersion, "kind": kind + "List"}}
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if kind == profiles.Namespaced {
		options = append(options, client.InNamespace(namespace))
	}
	err := r.cachedObjects.List(ctx, list, options...)
	if meta.IsNoMatchError(err) && r.liveObjects == nil {
		return list.Items, nil // a cluster with an older Kiln, which the command line reads, perhaps below files
	}
	if err != nil {
		return nil, fmt.Errorf("listing %ss: %w", kind, err)
	}
	return list.Items, nil
}

// readProfile reads a profile, once for each version of its object.
func (r reader) readProfile(object *unstructured.Unstructured) (*liveProfile, error) {
	return memoizeVersion(r.memo.forProfiles(), object, "", func() (*liveProfile, error) {
		draft, err := revision.NewDraft("", object) // a revision's name and data are the same in every namespace
		if errors.Is(err, revision.ErrOversized) {
			return &liveProfile{unreadable: err.Error()}, nil
		} else if err != nil {
			return nil, err
		}
		p, err := profile.Read(draft.Name, draft.Data)
		if err != nil {
			return &liveProfile{unreadable: fmt.Sprintf("%s '%s' may select the VMI and cannot be read: %v", object.GetKind(), object.GetName(), err)}, nil
		}
		// A file that no cluster has written has no status. Its profile fills what else it has.
		p.CommonCPUMissing = p.CommonCPUMissing && !(r.ofFiles && object.Object["status"] == nil)
		return &liveProfile{Profile: p, base: asBase(p), selectsNamespaces: p.NamespaceSelector != nil}, nil
	})
}

// liveProfile is what a Memo caches of a version of a profile.
type liveProfile struct {
	*profile.Profile
	// base is the same profile for namespaces that it does not select.
	base              *profile.Profile
	selectsNamespaces bool
	// unreadable is the reason why the profile cannot be read; empty if it can.
	unreadable string
}

// selectedProfiles returns the profiles that select the VM's VMI now, and all profiles that they extend.
func (r Resolver) selectedProfiles(ctx context.Context, vm *v1.VirtualMachine) ([]*pinObject, error) {
	if vm.Spec.Template == nil {
		return nil, nil
	}
	all, err := r.reader().currentProfiles(ctx, vm.Namespace)
	var unreadable *Refusal
	if errors.As(err, &unreadable) {
		return nil, unreadable.OfTemplate()
	}
	if err != nil {
		return nil, err
	}
	engines := profilesOnly(all)
	chosen, errs := profile.Select(engines, SelectableVMI(vm))
	closure, missing := profile.Closure(chosen, engines)
	if errs = append(errs, missing...); len(errs) > 0 {
		return nil, (&Refusal{errs}).OfTemplate()
	}
	var found []*pinObject
	for _, p := range all {
		if !slices.Contains(closure, p.Profile) {
			continue
		}
		one, err := r.reader().snapshotOf(ctx, profiles, vm.Namespace, p.object)
		if err != nil {
			return nil, err
		}
		found = append(found, one.withBase(p.base))
	}
	return sortedBySource(found), nil
}

// asBase returns a copy of the profile that selects nothing. Others may extend it.
func asBase(p *profile.Profile) *profile.Profile {
	base := *p
	base.Spec.Selector = nil
	return &base
}

// profilesPath is the field of a VMI at which profiles are refused: its labels select them.
var profilesPath = field.NewPath("metadata", "labels")

// OfTemplate moves the paths of a refusal from the VMI to spec.template of its VM.
func (r *Refusal) OfTemplate() *Refusal {
	var errs field.ErrorList
	for _, err := range r.Errors {
		moved := *err
		moved.Field = "spec.template." + err.Field
		errs = append(errs, &moved)
	}
	return &Refusal{errs}
}

// withBase returns the object with this value of base. It copies it if necessary, because revisions are shared.
func (c *pinObject) withBase(base bool) *pinObject {
	if c.base == base {
		return c
	}
	other := *c
	other.base = base
	return &other
}

func sortedBySource(found []*pinObject) []*pinObject {
	slices.SortFunc(found, func(a, b *pinObject) int {
		return cmp.Or(cmp.Compare(a.source.Name, b.source.Name), cmp.Compare(a.source.Kind, b.source.Kind))
	})
	return found
}
