package revision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State is the relation of a revision to the object that it was taken from.
type State string

// The states of revisions.
const (
	// Current revisions have the content of the object.
	Current State = "current"
	// Outdated revisions have the content of the object before an edit. A repin would take a newer revision.
	Outdated State = "outdated"
	// Gone revisions were taken from an object that was deleted. VMs still start, because they need only the revision.
	Gone State = "gone"
	// Unknown revisions were taken from an object that cannot be read: no API serves its kind, or the caller lacks the right.
	Unknown State = "unknown"
	// Missing revisions do not exist although a VM refers to them, or their content does not match their name. Their VMs cannot start.
	Missing State = "missing"
)

// Usage is one revision with the VMs and VMIs that refer to it.
type Usage struct {
	Namespace string `json:"namespace"`
	Revision  string `json:"revision"`
	// Kind and Name identify the object that the revision was taken from. They are empty if the revision is missing.
	Kind  string `json:"kind,omitempty"`
	Name  string `json:"name,omitempty"`
	State State  `json:"state"`
	// Lifecycle is the current lifecycle of the object by its labels and annotations. It is empty for 'active', and if the object does not exist.
	Lifecycle string `json:"lifecycle,omitempty"`
	// Reason is why the state is Unknown.
	Reason string `json:"reason,omitempty"`
	// Forbidden reports that the user may not read the object.
	Forbidden bool `json:"-"`
	// VMs and VMIs are the sorted names of the objects that refer to the revision by pin, revisionName or status.
	VMs  []string `json:"virtualMachines,omitempty"`
	VMIs []string `json:"virtualMachineInstances,omitempty"`
	// Contents are the sorted names of the VirtualMachineSnapshotContents whose restore needs the revision.
	Contents []string `json:"virtualMachineSnapshotContents,omitempty"`
	// UnusedSince is the time of the collector's mark in RFC 3339. It is empty without a mark.
	UnusedSince string `json:"unusedSince,omitempty"`
}

// Usages returns the revisions of a namespace, and of all namespaces if it is empty, including unused and missing revisions. They are sorted by namespace,
// kind, name, state and revision. unserved are the current objects of kinds that no API serves, such as the configuration (config.Defaults.Object).
func Usages(ctx context.Context, reader client.Reader, namespace string, unserved ...map[string]any) ([]Usage, error) {
	used, err := listReferences(ctx, reader, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	var all []Usage
	var faults []error
	list := currentObjects{reader: reader, live: map[client.ObjectKey]currentObject{}, unserved: map[string]string{}, now: time.Now()}
	for _, object := range unserved {
		snapshot, err := instancetype.Take(object)
		if err != nil {
			return nil, err
		}
		list.unserved[(&unstructured.Unstructured{Object: object}).GetKind()] = snapshot.Name
	}
	err = forEachPage(ctx, reader, func(page *appsv1.ControllerRevisionList) {
		for i := range page.Items {
			usage, err := list.usageOf(ctx, &page.Items[i])
			faults = append(faults, err)
			key := client.ObjectKey{Namespace: usage.Namespace, Name: usage.Revision}
			all = append(all, used.names[key].withUsers(usage))
			delete(used.names, key)
		}
	}, client.HasLabels{Selector}, client.InNamespace(namespace))
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	for key, users := range used.names {
		all = append(all, users.withUsers(Usage{Namespace: key.Namespace, Revision: key.Name, State: Missing}))
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.State, b.State), cmp.Compare(a.Revision, b.Revision))
	})
	return all, nil
}

// withUsers returns the usage with the names of its users.
func (u *revisionUsers) withUsers(usage Usage) Usage {
	if u != nil {
		usage.VMs, usage.VMIs = slices.Sorted(slices.Values(u.vms)), slices.Sorted(slices.Values(u.vmis))
		usage.Contents = slices.Sorted(slices.Values(u.contents))
	}
	return usage
}

// currentObjects reads the objects that revisions were taken from. It reads each object once, because many revisions may be taken from one object.
type currentObjects struct {
	reader client.Reader
	// live are the objects that were read.
	live map[client.ObjectKey]currentObject
	// unserved are the names of the current revisions of kinds that no API serves, by kind.
	unserved map[string]string
	// now decides which objects are obsolete.
	now time.Time
}

// currentObject has the name of the revision that would be taken from an object now, and the lifecycle of the object unless it is active. It is zero if the
// object does not exist.
type currentObject struct{ name, lifecycle string }

func (l currentObjects) usageOf(ctx context.Context, r *appsv1.ControllerRevision) (Usage, error) {
	usage := Usage{Namespace: r.Namespace, Revision: r.Name, State: Missing}
	if Marked(r) {
		usage.UnusedSince = r.Annotations[v1alpha1.AnnotationUnusedSince]
	}
	var object unstructured.Unstructured
	if Verify(r) != nil || json.Unmarshal(r.Data.Raw, &object.Object) != nil {
		return usage, nil
	}
	usage.Kind, usage.Name = object.GetKind(), object.GetName()
	held, err := instancetype.Take(object.Object) // the names of KubeVirt's revisions contain no digest
	if err != nil {
		return usage, nil
	}
	now, err := l.readCurrent(ctx, r.Namespace, &object)
	if reason := unreadableReason(err); reason != "" {
		usage.State, usage.Reason, usage.Forbidden = Unknown, reason, apierrors.IsForbidden(err)
		return usage, nil
	}
	usage.Lifecycle = now.lifecycle
	switch now.name {
	case "":
		usage.State = Gone
	case held.Name:
		usage.State = Current
	default:
		usage.State = Outdated
	}
	return usage, err
}

// unreadableReason returns why an object cannot be read, if its usage may be listed without it. It is empty for other errors.
func unreadableReason(err error) string {
	switch {
	case meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err):
		return "the cluster does not serve this kind"
	case apierrors.IsForbidden(err):
		return err.Error()
	}
	return ""
}

// clusterScoped reports whether objects of a kind have no namespace. Their revisions have one.
func clusterScoped(kind string) bool {
	return kind == instancetype.Kinds.Cluster || kind == instancetype.PreferenceKinds.Cluster || kind == v1alpha1.KindClusterGuestProfile
}

// readCurrent returns the current state of the object that a revision contains, and zero if the object does not exist.
func (l currentObjects) readCurrent(ctx context.Context, namespace string, object *unstructured.Unstructured) (currentObject, error) {
	if name, found := l.unserved[object.GetKind()]; found {
		return currentObject{name: name}, nil
	}
	if clusterScoped(object.GetKind()) {
		namespace = ""
	}
	key := client.ObjectKey{Namespace: namespace, Name: object.GetKind() + "/" + object.GetName()}
	if known, found := l.live[key]; found {
		return known, nil
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(object.GetAPIVersion(), object.GetKind()))
	err := l.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: object.GetName()}, live)
	if meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err) {
		return currentObject{}, err
	}
	if apierrors.IsNotFound(err) {
		l.live[key] = currentObject{}
		return currentObject{}, nil
	}
	if err != nil {
		return currentObject{}, fmt.Errorf("reading %s '%s': %w", object.GetKind(), object.GetName(), err)
	}
	snapshot, err := takeSnapshot(live.Object)
	known := currentObject{name: snapshot.Name}
	if slices.Contains(instancetype.CatalogKinds(), live.GetKind()) {
		if read := instancetype.ReadLifecycle(live, l.now); read.State != v1alpha1.LifecycleActive {
			known.lifecycle = read.State
		}
	}
	l.live[key] = known
	return known, err
}
