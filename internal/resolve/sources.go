package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/nearest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sourceKind is a kind that an inference reads. CDI and the snapshot controller are optional: a kind that the cluster does not serve has no objects.
type sourceKind struct {
	schema.GroupVersionKind
	Resource string
}

var (
	claims      = sourceKind{schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, "persistentvolumeclaims"}
	dataVolumes = sourceKind{schema.GroupVersionKind{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataVolume"}, "datavolumes"}
	dataSources = sourceKind{schema.GroupVersionKind{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataSource"}, "datasources"}
	snapshots   = sourceKind{schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}, "volumesnapshots"}
)

// SourceKinds returns the kinds that an inference reads. The controller watches the kinds that the cluster serves.
func SourceKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{claims.GroupVersionKind, dataVolumes.GroupVersionKind, dataSources.GroupVersionKind, snapshots.GroupVersionKind}
}

// Source is an object that an inference reads, or a list of objects that a reference may name.
type Source struct {
	sourceKind
	Namespace, Name string
}

// Verb returns the verb of the request that reads the source: get for the source of a volume, list for all others.
func (s Source) Verb() string {
	if slices.Contains(SourceKinds(), s.GroupVersionKind) {
		return "get"
	}
	return "list"
}

// VMsOf returns the source that stands for all VMs of a namespace, or of all namespaces if it is empty.
func VMsOf(namespace string) Source {
	return Missing{Kind: v1.VirtualMachineGroupVersionKind.Kind, Namespace: namespace}.allOfKind()
}

// anyName is the name that means all objects of a kind in a namespace.
const anyName = "*"

// String returns kind, namespace and name, for messages.
func (s Source) String() string { return fmt.Sprintf("%s '%s/%s'", s.Kind, s.Namespace, s.Name) }

// permissionKey returns the form in which annotation kilnvm.io/inference records a permission.
func (s Source) permissionKey() string {
	return schema.GroupResource{Group: s.Group, Resource: s.Resource}.String() + "/" + s.Namespace + "/" + s.Name
}

// Attributes returns the resource attributes of a SubjectAccessReview for reading this source; with an empty name, all of its kind.
func (s Source) Attributes() (group, version, resource, namespace, name string) {
	if s.Name != anyName {
		name = s.Name
	}
	return s.Group, s.Version, s.Resource, s.Namespace, name
}

// Rights decide which sources in other namespaces an inference may read. Kiln's account may read more than the author of a request, and the result would tell
// the author what exists there.
type Rights struct {
	// MayRead decides about one source. It is called before the source is read, so that a refusal is the same whether the source exists or not.
	MayRead func(context.Context, Source) (bool, error)
	// allowed are the keys of the sources that MayRead has allowed, sorted.
	allowed []string
}

// RecordedRights returns the rights that admission recorded in the annotation kilnvm.io/inference of a VM. Only admission writes it. So the controller, which
// waits for a volume, reads no more than the author of the request was allowed to.
func RecordedRights(vm metav1.Object) *Rights {
	var allowed []string
	if json.Unmarshal([]byte(vm.GetAnnotations()[v1alpha1.AnnotationInference]), &allowed) != nil {
		allowed = nil
	}
	return &Rights{MayRead: func(_ context.Context, s Source) (bool, error) {
		all := s
		all.Name = anyName
		return slices.Contains(allowed, s.permissionKey()) || slices.Contains(allowed, all.permissionKey()), nil
	}}
}

// Record returns the value of v1alpha1.AnnotationInference: all sources that were allowed, as a JSON list.
func (r *Rights) Record() string {
	text, err := json.Marshal(append([]string{}, r.allowed...))
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// mayRead reports whether a source may be read, and remembers a permission. A permission for all objects of a kind in a namespace covers each of them.
func (r *Rights) mayRead(ctx context.Context, s Source) (bool, error) {
	all := Source{s.sourceKind, s.Namespace, anyName}
	if slices.Contains(r.allowed, all.permissionKey()) {
		return true, nil
	}
	at, found := slices.BinarySearch(r.allowed, s.permissionKey())
	if found {
		return true, nil
	}
	allowed, err := r.MayRead(ctx, s)
	if err == nil && allowed {
		r.allowed = slices.Insert(r.allowed, at, s.permissionKey())
	}
	return allowed, err
}

// readPermitted checks the right to read a source, reads it into a typed object unless into is nil, and returns its labels.
func (r sourceReader) readPermitted(ctx context.Context, s Source, into any) (map[string]string, error) {
	if err := r.checkRight(ctx, s); err != nil {
		return nil, err
	}
	labels, err := r.readSource(ctx, s, into)
	if s.sourceKind == dataSources && errors.As(err, new(*notFound)) {
		r.checkNextRights(ctx, s)
	}
	return labels, err
}

// readSource is readPermitted without the check. It returns a *notFound error if the object does not exist, if the cluster does not serve the kind, or if no
// object can have the name: none of these is a fault of the cluster.
func (r sourceReader) readSource(ctx context.Context, s Source, into any) (map[string]string, error) {
	var object unstructured.Unstructured
	object.SetGroupVersionKind(s.GroupVersionKind)
	key := client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
	absent := r.absentError(Source{s.sourceKind, s.Namespace, nearest.Short(s.Name)}.String(), "does not exist", "is not among the files")
	if !validKey(key) {
		return nil, absent
	}
	err := r.reader().liveReader().Get(ctx, key, &object) // reading by a cache would start an informer of the kind
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, absent
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", s, err)
	}
	r.recordRead(s)
	if into == nil {
		return object.GetLabels(), nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return nil, fmt.Errorf("reading %s: %w", s, err)
	}
	return object.GetLabels(), nil
}

// recordRead calls noteRead.
func (r sourceReader) recordRead(s Source) {
	if r.noteRead != nil {
		r.noteRead(s)
	}
}

// absentError returns the error of a source that does not exist in the cluster or among the files.
func (r sourceReader) absentError(source, inCluster, inFiles string) error {
	if r.OfFiles {
		return &notFound{source + " " + inFiles}
	}
	return &notFound{source + " " + inCluster}
}

// checkRight returns a *field.Error (Forbidden) if the author of the request may not read a source of another namespace. Sources of the VM's own
// namespace need no right.
func (r sourceReader) checkRight(ctx context.Context, s Source) error {
	if r.Rights == nil || s.Namespace == r.ref.namespace {
		return nil
	}
	allowed, err := r.Rights.mayRead(ctx, s)
	if err != nil {
		return fmt.Errorf("checking the right to read %s: %w", s, err)
	}
	if !allowed {
		detail := fmt.Sprintf("volume '%s' is made from %s, which the author of this request may not read", r.ref.inferFrom, s)
		return field.Forbidden(nil, detail).WithOrigin("vm/inference-right")
	}
	return nil
}

// checkNextRights reviews the rights that the controller will need when a missing DataSource exists: to claims, snapshots and DataSources of its namespace.
// Their names are not known yet, so only an author who may read all of them need not write the VM again.
func (r sourceReader) checkNextRights(ctx context.Context, s Source) {
	if r.Rights == nil || s.Namespace == r.ref.namespace {
		return
	}
	for _, kind := range []sourceKind{claims, snapshots, dataSources} {
		_, _ = r.Rights.mayRead(ctx, Source{kind, s.Namespace, anyName}) // an error grants nothing
	}
}
