package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/instancetype"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Laid are the changes that are laid over what a cluster or a dump has.
type Laid struct {
	// objects are the changed objects. source of an object is the value of --with.
	objects []laidObject
	// wholes are the versions of whole catalogs: what the installed version has and this one lacks is removed.
	wholes []wholeCatalog
	// kubevirt is the version of KubeVirt after the changes; 0 if it stays.
	kubevirt config.Version
}

type laidObject struct {
	manifest.Object
	source string
}

type wholeCatalog struct {
	keys   map[catalog.Key]bool
	source string
}

// changeKinds are the kinds that a change may have: what VMs are made of, and what judges them.
var changeKinds = []schema.GroupVersionKind{
	v1beta1.SchemeGroupVersion.WithKind(instancetype.Kinds.Cluster), v1beta1.SchemeGroupVersion.WithKind(instancetype.Kinds.Namespaced),
	v1beta1.SchemeGroupVersion.WithKind(instancetype.PreferenceKinds.Cluster), v1beta1.SchemeGroupVersion.WithKind(instancetype.PreferenceKinds.Namespaced),
	v1.VirtualMachineInstancePresetGroupVersionKind, v1.KubeVirtGroupVersionKind,
	v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestProfile), v1alpha1.GroupVersion.WithKind(v1alpha1.KindClusterGuestProfile),
	v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestPolicy), v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestPolicyException),
	v1alpha1.GroupVersion.WithKind(v1alpha1.KindFrontendProfile), v1alpha1.GroupVersion.WithKind(kindHostProfile),
}

const kindHostProfile = "HostProfile"

// allowedKinds returns the names of changeKinds for messages.
func allowedKinds() string {
	var names []string
	for _, kind := range changeKinds {
		names = append(names, kind.Kind)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// AddFiles adds the objects of files as changes. It fails at the first object that cannot be read, that an API server would refuse by its schema, or that has
// a kind which a change cannot have.
func (l *Laid) AddFiles(source string, files manifest.Files) error {
	found, err := files.ReadNames(files.Names)
	if err != nil {
		return err
	}
	added := 0
	for _, object := range found {
		switch {
		case errors.Is(object.Fault, manifest.ErrKustomization):
			continue
		case object.Fault != nil:
			return object.Fault
		}
		if err := l.add(source, object); err != nil {
			return err
		}
		added++
	}
	if added == 0 {
		return fmt.Errorf("%s has no object of the kinds %s", source, allowedKinds())
	}
	return nil
}

// add adds one object.
func (l *Laid) add(source string, object manifest.Object) error {
	isOf := func(kind schema.GroupVersionKind) bool {
		return kind.GroupKind() == object.GroupVersionKind().GroupKind()
	}
	if !slices.ContainsFunc(changeKinds, isOf) {
		return fmt.Errorf("%s:%d: %s cannot be rehearsed: a change has the kinds %s", object.File(), object.LineInFile(""), object.Name(), allowedKinds())
	}
	if object.GetName() == "" {
		return fmt.Errorf("%s:%d: %s has no metadata.name", object.File(), object.LineInFile(""), object.Name())
	}
	if err := object.CheckSchema(); err != nil {
		return err
	}
	if len(object.Mistakes) > 0 {
		return fmt.Errorf("%s: %s: %w", object.File(), object.Name(), object.Mistakes.ToAggregate())
	}
	for _, other := range l.objects {
		if idOf(other.Unstructured) == idOf(object.Unstructured) {
			return fmt.Errorf("%s: %s is in %s, too: a change has each object once", object.File(), object.Name(), cmp.Or(other.File(), other.source))
		}
	}
	l.objects = append(l.objects, laidObject{object, source})
	return nil
}

// AddCatalog adds a version of a whole catalog: its objects, and the removal of the objects that the installed version of the same catalog has and this one
// lacks.
func (l *Laid) AddCatalog(source string, c catalogs.Catalog) error {
	for _, refused := range c.Refused {
		if refused.Severity == catalog.Error {
			return fmt.Errorf("%s:%d: %s: %s", refused.File, refused.Line, refused.Object, refused.Message)
		}
	}
	whole := wholeCatalog{keys: map[catalog.Key]bool{}, source: source}
	for i, typed := range c.Objects {
		object := c.Origins[i]
		object.Unstructured = &unstructured.Unstructured{Object: c.AuthoredObject(i)}
		if err := l.add(source, object); err != nil {
			return err
		}
		whole.keys[typed.Key()] = true
	}
	l.wholes = append(l.wholes, whole)
	return nil
}

// AddKubeVirt sets the version of KubeVirt after the changes.
func (l *Laid) AddKubeVirt(text string) error {
	version, err := config.ParseVersion(text)
	switch {
	case err != nil:
		return fmt.Errorf("kubevirt=%s: %w", text, err)
	case version != version.Nearest():
		return fmt.Errorf("kubevirt=%s: Kiln knows the rules of %s to %s", text, config.Oldest, config.Newest)
	case l.kubevirt != 0:
		return errors.New("kubevirt= is given twice")
	}
	l.kubevirt = version
	return nil
}

// has reports whether one of the changed objects has a kind.
func (l *Laid) has(kind string) bool {
	return slices.ContainsFunc(l.objects, func(o laidObject) bool { return o.GetKind() == kind })
}

// lay returns the reader of what there is after the changes, and the changes by object. The base is a dump or a cluster.
func (l *Laid) lay(ctx context.Context, base client.Reader) (client.Reader, []Change, error) {
	scheme, err := crdschema.Scheme()
	if err != nil {
		return nil, nil, err
	}
	var changed []*unstructured.Unstructured
	changes := []Change{}
	for _, one := range l.objects {
		object := one.Unstructured.DeepCopy()
		// An object of a file has no version, and a snapshot of it is not remembered as one of the object in the cluster.
		object.SetUID("")
		object.SetResourceVersion("")
		was, err := readLike(ctx, base, object)
		if err != nil {
			return nil, nil, err
		}
		if was != nil && object.GroupVersionKind().GroupKind() == v1.KubeVirtGroupVersionKind.GroupKind() && object.Object["status"] == nil {
			object.Object["status"] = was.Object["status"] // virt-operator writes the version that runs, and an edit does not change it
		}
		changed = append(changed, object)
		if change := changeOf(was, object); change != nil {
			change.Source = one.source
			changes = append(changes, *change)
		}
	}
	removed := map[objectID]bool{}
	for _, whole := range l.wholes {
		dropped, err := whole.dropped(ctx, base)
		if err != nil {
			return nil, nil, err
		}
		for _, object := range dropped {
			change := Change{Key: keyOfObject(object), Action: Removed, From: revisionOf(object), Source: whole.source}
			if object.GetLabels()[v1alpha1.LabelCatalog] != "" { // 'catalog install' keeps what VMs use
				kept := object.DeepCopy()
				labels := kept.GetLabels()
				labels[v1alpha1.LabelLifecycle] = v1alpha1.LifecycleObsolete
				kept.SetLabels(labels)
				changed, change.Action, change.To = append(changed, kept), Obsolete, revisionOf(object)
			} else {
				removed[idOf(object)] = true
			}
			changes = append(changes, change)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return compareKeys(a.Key, b.Key) })
	layers := objects.Layers{objects.New(scheme, changed...), base}
	return overlay{Layers: layers, scheme: scheme, removed: removed}, changes, nil
}

// Actions of changes.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
	// Obsolete is the action for an object that 'catalog install' keeps because VMs use it: no new VM may use it.
	Obsolete = "obsolete"
)

// changeOf returns how an object changes; nil if nothing that VMs are made of or judged by changes.
func changeOf(was, is *unstructured.Unstructured) *Change {
	change := &Change{Key: keyOfObject(is), Action: Changed, To: revisionOf(is)}
	if was == nil {
		change.Action = Added
		return change
	}
	change.From = revisionOf(was)
	same := func(keys ...string) bool {
		a, _, _ := unstructured.NestedFieldNoCopy(was.Object, keys...)
		b, _, _ := unstructured.NestedFieldNoCopy(is.Object, keys...)
		return reflect.DeepEqual(a, b)
	}
	if change.From == change.To && same("spec") && same("metadata", "labels") && same("metadata", "annotations") && same("status") {
		return nil
	}
	return change
}

// readLike reads the object of the same kind and name; nil if it does not exist.
func readLike(ctx context.Context, reader client.Reader, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	was := &unstructured.Unstructured{}
	was.SetGroupVersionKind(object.GroupVersionKind())
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), was)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", keyOfObject(object), err)
	}
	return was, nil
}

// dropped returns the installed objects of the same catalog that a version lacks, sorted. A catalog is known by the label of 'kubectl kiln catalog install',
// and without it by the vendor of its objects.
func (w wholeCatalog) dropped(ctx context.Context, base client.Reader) ([]*unstructured.Unstructured, error) {
	var installed []*unstructured.Unstructured
	catalogsOf := map[string]bool{}
	for _, kind := range instancetype.CatalogKinds() {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := base.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("reading the kind %s: %w", kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			installed = append(installed, object)
			if w.keys[keyOfObject(object)] {
				catalogsOf[catalogOf(object)] = true
			}
		}
	}
	delete(catalogsOf, "")
	dropped := slices.DeleteFunc(installed, func(o *unstructured.Unstructured) bool { return w.keys[keyOfObject(o)] || !catalogsOf[catalogOf(o)] })
	slices.SortFunc(dropped, func(a, b *unstructured.Unstructured) int { return compareKeys(keyOfObject(a), keyOfObject(b)) })
	return dropped, nil
}

// catalogOf returns the catalog that an installed object belongs to; empty if that is not known.
func catalogOf(object *unstructured.Unstructured) string {
	labels := object.GetLabels()
	if name := labels[v1alpha1.LabelCatalog]; name != "" {
		return "catalog " + name
	}
	if vendor := labels[api.GroupName+"/vendor"]; vendor != "" {
		return "vendor " + vendor
	}
	return ""
}

// revisionOf returns the revision that a VM would be pinned to; empty if VMs are not pinned to objects of the kind.
func revisionOf(object *unstructured.Unstructured) string {
	switch object.GetKind() {
	case v1alpha1.KindGuestPolicy, v1alpha1.KindGuestPolicyException, v1alpha1.KindFrontendProfile, kindHostProfile, v1.KubeVirtGroupVersionKind.Kind:
		return ""
	}
	draft, err := revision.NewDraft("", object)
	if err != nil { // the VMs that use it have no verdict, with the reason
		return ""
	}
	return draft.Name
}

func idOf(object *unstructured.Unstructured) objectID {
	return objectID{object.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(object)}
}

func keyOfObject(object *unstructured.Unstructured) catalog.Key {
	return catalog.Key{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

func compareKeys(a, b catalog.Key) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// itemKind returns the kind of the items of a list.
func itemKind(list string) string { return strings.TrimSuffix(list, "List") }
