// Package cataloginstall installs a catalog in a cluster, updates it and removes it.
package cataloginstall

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/catalog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An installation is computed only from the catalog and the state of the cluster. It keeps no record: the label
// v1alpha1.LabelCatalog of an object names its catalog. So the next run, of this version or another, completes a run that was killed.

// FieldManager is the field manager that applies catalogs.
const FieldManager = "kiln-catalog"

// Installation is one version of a catalog in a cluster.
type Installation struct {
	// Name is the value of v1alpha1.LabelCatalog.
	Name string `json:"catalog"`
	// Version is a semantic version; empty for a catalog of files.
	Version string `json:"version,omitempty"`
	// Digest is the digest of the artifact's manifest, or the digest of the catalog's files.
	Digest string `json:"digest,omitempty"`
	// Source is the repository; empty for a catalog of files.
	Source string `json:"source,omitempty"`
	// Force takes over objects that exist and do not belong to this catalog.
	Force bool `json:"force,omitempty"`
}

// versionAnnotation is the value of v1alpha1.AnnotationCatalogVersion.
func (i Installation) versionAnnotation() string {
	return strings.TrimPrefix(i.Version+"@"+i.Digest, "@")
}

// Change is what happens to an object.
type Change string

// The changes of a plan.
const (
	Create    Change = "create"
	Update    Change = "update"
	Unchanged Change = "unchanged"
	// Obsolete marks an object that the catalog no longer has and that VMs or VMIs use. It gets v1alpha1.LifecycleObsolete.
	Obsolete Change = "obsolete"
	Delete   Change = "delete"
	// Release removes the label and annotations of the catalog from an object that the catalog no longer has and that existed before it.
	Release Change = "release"
)

// Action is the change of one object.
type Action struct {
	Change Change `json:"change"`
	catalog.Key
	// Reason says what an update changes, or why an object is not deleted.
	Reason string `json:"reason,omitempty"`
	// VMs and VMIs have the VMs and VMIs, as 'NAMESPACE/NAME', that refer to an object that is removed or whose spec changes.
	VMs  []string `json:"virtualMachines,omitempty"`
	VMIs []string `json:"virtualMachineInstances,omitempty"`

	// object is the object to apply or delete, and live the object in the cluster; nil if it does not exist.
	object, live *unstructured.Unstructured
	// dropped reports that the catalog does not have the object.
	dropped bool
	// takesOver reports that other field managers own fields of the live object.
	takesOver bool
}

// Conflict is a reason why an installation or removal cannot run.
type Conflict struct {
	// Key is empty for a conflict of the whole catalog.
	catalog.Key
	Reason string `json:"reason"`
}

// Plan has the actions of an installation or removal. A plan with conflicts must not run.
type Plan struct {
	Installation
	Actions   []Action   `json:"actions"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// State is the state of the cluster from which a plan is computed.
type State struct {
	// Namespace is the namespace whose namespaced objects are read and written.
	Namespace string
	Objects   map[catalog.Key]*unstructured.Unstructured
	Users     map[revision.Object]revision.Users
}

// usersOf returns the VMs and VMIs that refer to an object.
func (s State) usersOf(key catalog.Key) revision.Users {
	return s.Users[revision.Object{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name}]
}

// InstalledCatalogs returns the sorted names of the catalogs that have objects in the cluster.
func (s State) InstalledCatalogs() []string {
	names := map[string]bool{}
	for _, object := range s.Objects {
		if name := object.GetLabels()[v1alpha1.LabelCatalog]; wasApplied(object) && name != "" {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Plan returns the actions that install a catalog: first for the objects that it has, then for the objects that it no longer has.
func (i Installation) Plan(c catalogs.Catalog, s State) Plan {
	p := Plan{Installation: i}
	had := map[catalog.Key]bool{}
	p.checkSources(s)
	for n, object := range c.Objects {
		key := object.Key()
		switch {
		case had[key]:
			p.addConflict(key, "is in the catalog twice")
		case key.Namespace != "" && key.Namespace != s.Namespace:
			p.addConflict(key, "is for namespace '"+key.Namespace+"', and the installation for '"+s.Namespace+"': use -n "+key.Namespace)
		default:
			p.planApply(i.wantedObject(c.AuthoredObject(n)), s)
		}
		had[key] = true
	}
	p.dropMissing(s, had)
	return p
}

// PlanRemoval returns the actions that remove a whole catalog.
func (i Installation) PlanRemoval(s State) Plan {
	p := Plan{Installation: i}
	p.dropMissing(s, nil)
	return p
}

func (p *Plan) addConflict(key catalog.Key, reason string) {
	p.Conflicts = append(p.Conflicts, Conflict{key, reason})
}

// checkSources adds a conflict if the catalog of this name was installed from another repository: this one would remove its objects.
func (p *Plan) checkSources(s State) {
	others := map[string]bool{}
	for _, object := range s.Objects {
		if source := object.GetAnnotations()[v1alpha1.AnnotationCatalogSource]; p.ownsObject(object) && source != "" {
			others[source] = true
		}
	}
	delete(others, p.Source)
	if p.Source == "" || p.Force {
		return
	}
	for _, other := range slices.Sorted(maps.Keys(others)) {
		p.addConflict(catalog.Key{}, "catalog '"+p.Name+"' was installed from '"+other+"', not from '"+p.Source+"': choose another --name")
	}
}

// ownsObject reports whether an object belongs to the catalog. The label does not suffice, because a user may have copied it with 'kubectl get -o yaml'.
func (i Installation) ownsObject(object *unstructured.Unstructured) bool {
	return object.GetLabels()[v1alpha1.LabelCatalog] == i.Name && wasApplied(object)
}

// wantedObject returns the object to apply: the content of the catalog with the label and the annotations of the installation.
func (i Installation) wantedObject(content map[string]any) *unstructured.Unstructured {
	object := (&unstructured.Unstructured{Object: content}).DeepCopy()
	if content["spec"] == nil {
		delete(object.Object, "spec")
	}
	object.SetLabels(withEntry(object.GetLabels(), v1alpha1.LabelCatalog, i.Name))
	annotations := withEntry(object.GetAnnotations(), v1alpha1.AnnotationCatalogVersion, i.versionAnnotation())
	delete(annotations, v1alpha1.AnnotationCatalogSource) // the author may have exported an installed object
	delete(annotations, v1alpha1.AnnotationCatalogTakenOver)
	if i.Source != "" {
		annotations[v1alpha1.AnnotationCatalogSource] = i.Source
	}
	object.SetAnnotations(annotations)
	return object
}

func withEntry(all map[string]string, key, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}

// objectKey returns the key of a live or wanted object.
func objectKey(object *unstructured.Unstructured) catalog.Key {
	return catalog.Key{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

// planApply adds the action that applies an object, or a conflict if it must not be applied.
func (p *Plan) planApply(wanted *unstructured.Unstructured, s State) {
	key := objectKey(wanted)
	live := s.Objects[key]
	action := Action{Change: Update, Key: key, object: wanted, live: live}
	if live == nil {
		action.Change = Create
		p.Actions = append(p.Actions, action)
		return
	}
	// The API server refuses the write if the object has changed since it was read.
	wanted.SetResourceVersion(live.GetResourceVersion())
	switch {
	case live.GetDeletionTimestamp() != nil:
		p.addConflict(key, "is being deleted: run again when it is gone")
		return
	case !p.ownsObject(live) && !p.Force:
		p.addConflict(key, foreignOwner(live))
		return
	case !p.ownsObject(live):
		wanted.SetAnnotations(withEntry(wanted.GetAnnotations(), v1alpha1.AnnotationCatalogTakenOver, "true"))
		action.Reason, action.takesOver = "taken over", true
	default:
		if wasTakenOver(live) {
			wanted.SetAnnotations(withEntry(wanted.GetAnnotations(), v1alpha1.AnnotationCatalogTakenOver, "true"))
		}
		action.Reason = describeChange(live, wanted)
		if others := otherManagers(live); p.Force && len(others) > 0 {
			action.Reason = strings.TrimPrefix(action.Reason+", fields of "+strings.Join(others, ", "), ", ")
			action.takesOver = true
		}
	}
	if action.Reason == "" {
		action.Change = Unchanged
	}
	if specDiffers(live, wanted) {
		users := s.usersOf(key)
		action.VMs, action.VMIs = users.VMs, users.VMIs
	}
	p.Actions = append(p.Actions, action)
}

// foreignOwner describes who owns an object that does not belong to this catalog.
func foreignOwner(live *unstructured.Unstructured) string {
	if name := live.GetLabels()[v1alpha1.LabelCatalog]; name != "" && wasApplied(live) {
		return "belongs to catalog '" + name + "'"
	}
	managers := map[string]bool{}
	for _, entry := range live.GetManagedFields() {
		managers["'"+entry.Manager+"'"] = true
	}
	if len(managers) == 0 {
		return "exists and belongs to no catalog"
	}
	return "exists and belongs to no catalog; its fields are managed by " + strings.Join(slices.Sorted(maps.Keys(managers)), ", ")
}

// wasTakenOver reports whether an object existed before a catalog took it over. The annotation counts only if the catalog's field manager owns it.
func wasTakenOver(live *unstructured.Unstructured) bool {
	return slices.Contains(ownedFields(live).annotations, v1alpha1.AnnotationCatalogTakenOver)
}
