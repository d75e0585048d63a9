package catalogs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/inuse"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Usage is an instancetype or preference of a cluster with the VMs that use it.
type Usage struct {
	catalog.Key
	// State is the state of the object's lifecycle, or 'gone' if the object does not exist.
	State string `json:"state"`
	// Revisions are the revisions of the object that VMs or VMIs refer to.
	Revisions []revision.Usage `json:"revisions"`
	// VMs is the number of VMs that use the object. Current counts the VMs with its current content, and Outdated the VMs with an earlier content.
	VMs      int `json:"virtualMachines"`
	Current  int `json:"current"`
	Outdated int `json:"outdated"`
	// Unpinned are the VMs that refer to the object and have no revision of it yet, as NAMESPACE/NAME.
	Unpinned []string `json:"unpinned"`
	// Removal and Edit say what happens to these VMs when the object is removed or edited.
	Removal string `json:"removal"`
	Edit    string `json:"edit"`
}

// InUse reports whether a VM or VMI uses the object.
func (u Usage) InUse() bool { return u.VMs > 0 || len(u.Revisions) > 0 || len(u.Unpinned) > 0 }

// StateGone is the state of an object that VMs use though it does not exist.
const StateGone = string(revision.Gone)

// Usages lists the instancetypes and preferences of a cluster, sorted by key, with the VMs of a namespace that use them, or the VMs of all namespaces if it
// is empty. The warnings name objects that could not be read, and VMs that infer their instancetype or preference and are not pinned yet.
func Usages(ctx context.Context, b *workbench.Bench, cluster client.Reader, namespace string, now time.Time) ([]Usage, []string, error) {
	read, err := FromCluster(ctx, cluster, namespace)
	if err != nil {
		return nil, nil, err
	}
	revisions, err := revision.Usages(ctx, cluster, namespace)
	if err != nil {
		return nil, nil, err
	}
	named, err := revision.NamedBy(ctx, cluster, namespace)
	if err != nil {
		return nil, nil, err
	}
	t := tally{all: map[catalog.Key]*Usage{}, pinned: map[catalog.Key]map[string]bool{}}
	for _, o := range read.Objects {
		t.usageOf(o.Key()).State = instancetype.ReadLifecycle(o, now).State
	}
	revisions = slices.DeleteFunc(revisions, func(r revision.Usage) bool { return !slices.Contains(instancetype.CatalogKinds(), r.Kind) })
	warnings := workbench.OutdatedWarnings(revisions)
	for _, r := range revisions {
		t.addRevision(r)
	}
	var inferring []string
	for _, n := range named {
		if n.Name == "" {
			inferring = append(inferring, n.Namespace+"/"+n.VM)
			continue
		}
		t.addNamed(n)
	}
	if len(inferring) > 0 {
		warnings = append(warnings, "VMs that infer their instancetype or preference from a volume and are not pinned yet are not counted: "+
			nameFirst(inferring, 5))
	}
	slices.Sort(warnings)
	return t.sortedUsages(), slices.Compact(warnings), nil
}

// tally collects the usages of objects.
type tally struct {
	all map[catalog.Key]*Usage
	// pinned are the VMs that have a revision of the object.
	pinned map[catalog.Key]map[string]bool
}

// usageOf returns the usage of an object. A new usage has the state 'gone', which the caller overwrites if the object exists.
func (t tally) usageOf(key catalog.Key) *Usage {
	if t.all[key] == nil {
		t.all[key] = &Usage{Key: key, State: StateGone, Revisions: []revision.Usage{}, Unpinned: []string{}}
		t.pinned[key] = map[string]bool{}
	}
	return t.all[key]
}

// keyOf returns the key of an object that a VM or a revision in a namespace refers to.
func keyOf(kind, namespace, name string) catalog.Key {
	if manifest.ClusterKinds[kind] {
		namespace = ""
	}
	return catalog.Key{Kind: kind, Namespace: namespace, Name: name}
}

// addRevision counts the VMs that are pinned to a revision of an instancetype or preference. Revisions that nothing refers to are left out.
func (t tally) addRevision(r revision.Usage) {
	if len(r.VMs)+len(r.VMIs) == 0 {
		return
	}
	key := keyOf(r.Kind, r.Namespace, r.Name)
	usage := t.usageOf(key)
	usage.Revisions = append(usage.Revisions, r)
	for _, vm := range r.VMs {
		t.pinned[key][r.Namespace+"/"+vm] = true
	}
	if r.State == revision.Current {
		usage.Current += len(r.VMs)
	} else {
		usage.Outdated += len(r.VMs)
	}
}

// addNamed counts a VM that refers to an object and has no revision of it. Trap: addRevision must have been called for all revisions before.
func (t tally) addNamed(n revision.Named) {
	key := keyOf(n.Kind, n.Namespace, n.Name)
	if vm := n.Namespace + "/" + n.VM; !t.pinned[key][vm] {
		usage := t.usageOf(key)
		usage.Unpinned = append(usage.Unpinned, vm)
	}
}

// sortedUsages returns the usages sorted by key. In VMs, it counts a VM only once if it refers to two revisions of one object.
func (t tally) sortedUsages() (all []Usage) {
	for key, usage := range t.all {
		slices.Sort(usage.Unpinned)
		usage.VMs = len(t.pinned[key]) + len(usage.Unpinned)
		usage.Removal, usage.Edit = usage.describeConsequences()
		all = append(all, *usage)
	}
	slices.SortFunc(all, func(a, b Usage) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// describeConsequences returns what happens to the VMs that use the object when it is removed or edited.
func (u *Usage) describeConsequences() (removal, edit string) {
	pinned, unpinned := u.VMs-len(u.Unpinned), len(u.Unpinned)
	if u.State == StateGone {
		removal, edit = "it is gone already", "it is gone: if it is created again, new VMs get it"
		if unpinned > 0 {
			removal += fmt.Sprintf(", and %s cannot start", inuse.CountVMs(unpinned))
		}
		return removal, edit
	}
	removed, edited := inuse.CatalogRemoval(pinned, unpinned), []string(nil)
	if pinned == 1 {
		edited = []string{"1 VM keeps its revision until 'kubectl kiln repin'"}
	} else if pinned > 1 {
		edited = append(edited, inuse.CountVMs(pinned)+" keep their revision until 'kubectl kiln repin'")
	}
	if unpinned > 0 {
		edited = append(edited, inuse.CountVMs(unpinned)+" without a revision would start with the edit")
	}
	if len(removed) == 0 {
		removed, edited = []string{"no VM uses it"}, []string{"no VM uses it"}
	}
	return strings.Join(removed, "; "), strings.Join(edited, "; ")
}

// nameFirst lists the first names, at most most, and counts the others.
func nameFirst(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
