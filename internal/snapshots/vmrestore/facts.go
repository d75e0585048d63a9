package vmrestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/internal/authorization"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/snapshot"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restoreFacts reads the objects that a target needs.
type restoreFacts struct {
	live          client.Client
	configuration config.Cluster
	user          authenticationv1.UserInfo
	// namespace is the namespace of the VM, and claims are the claims that the restore creates.
	namespace string
	claims    map[string]bool
	// shared are the claims of the VM of the snapshot, if another VM is restored: claims that the snapshot does not include would be in two VMs.
	shared map[string]bool
	// nodeResources are the resources of all nodes, once they are read.
	nodeResources map[string]bool
}

// metadataKinds are the kinds of which only the metadata is read.
var metadataKinds = map[snapshot.Kind]schema.GroupVersionKind{
	snapshot.Claim:                 corev1.SchemeGroupVersion.WithKind(string(snapshot.Claim)),
	snapshot.ServiceAccount:        corev1.SchemeGroupVersion.WithKind(string(snapshot.ServiceAccount)),
	snapshot.Network:               {Group: "k8s.cni.cncf.io", Version: "v1", Kind: string(snapshot.Network)},
	snapshot.ResourceClaim:         {Group: "resource.k8s.io", Version: "v1", Kind: string(snapshot.ResourceClaim)},
	snapshot.ResourceClaimTemplate: {Group: "resource.k8s.io", Version: "v1", Kind: string(snapshot.ResourceClaimTemplate)},
	snapshot.DeviceClass:           {Group: "resource.k8s.io", Version: "v1", Kind: string(snapshot.DeviceClass)},
}

// readFacts returns which objects of a VM exist and may be used. Each object is read once.
func (f *restoreFacts) readFacts(ctx context.Context, needs []snapshot.Need) (snapshot.Facts, error) {
	known := snapshot.Facts{}
	for _, need := range needs {
		if _, read := known[need.Object]; read {
			continue
		}
		fact, err := f.readObject(ctx, need.Object)
		if err != nil {
			return nil, fmt.Errorf("%s: looking for %s '%s': %w", need.Path, need.Kind, need.Name, err)
		}
		known[need.Object] = fact
	}
	return known, nil
}

// readObject reads one object. A tenant may have written a name that no object can have: such an object does not exist.
func (f *restoreFacts) readObject(ctx context.Context, object snapshot.Object) (snapshot.Fact, error) {
	switch {
	case object.Kind == snapshot.Resource:
		return f.readResource(ctx, object.Name)
	case len(content.IsPathSegmentName(object.Name)) > 0, object.Namespace != "" && len(content.IsPathSegmentName(object.Namespace)) > 0:
		return snapshot.Gone, nil
	case object.Kind == snapshot.Claim && f.claims[object.Name]:
		return snapshot.Present, nil
	case object.Kind == snapshot.Claim && f.shared[object.Name]:
		return snapshot.Shared, nil
	case object.Kind == snapshot.Secret:
		return f.probeObject(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}})
	case object.Kind == snapshot.ConfigMap:
		return f.probeObject(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}})
	case object.Kind == snapshot.Revision:
		return f.readRevision(ctx, types.NamespacedName{Namespace: object.Namespace, Name: object.Name})
	}
	kind := metadataKinds[object.Kind]
	if object.Namespace != f.namespace && object.Namespace != "" { // the creator of the restore may not have the rights of the VM's owner
		allowed, err := authorization.IsAllowed(ctx, f.live, f.user, authorizationv1.ResourceAttributes{Verb: "get", Group: kind.Group, Version: kind.Version,
			Resource: "network-attachment-definitions", Namespace: object.Namespace, Name: object.Name})
		if err != nil || !allowed {
			return snapshot.Denied, err
		}
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err := f.live.Get(ctx, types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, found)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return snapshot.Gone, nil
	case err != nil || found.DeletionTimestamp != nil:
		return snapshot.Gone, err
	}
	return snapshot.Present, nil
}

// probeObject reports whether an object exists that this process may not read, because it contains secrets: a dry run of a create fails if the name is taken.
// If a quota or a webhook refuses the create before, the object counts as present; if it is missing, the pod of the guest waits for it.
func (f *restoreFacts) probeObject(ctx context.Context, object client.Object) (snapshot.Fact, error) {
	err := f.live.Create(ctx, object, client.DryRunAll)
	switch {
	case err == nil:
		return snapshot.Gone, nil
	case apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return snapshot.Present, nil
	}
	return snapshot.Gone, err
}

// readRevision reads a revision. A revision whose content does not match its name counts as gone.
func (f *restoreFacts) readRevision(ctx context.Context, key types.NamespacedName) (snapshot.Fact, error) {
	found, err := objects.GetOrNil(ctx, f.live, key, &appsv1.ControllerRevision{})
	if err != nil || found == nil || revision.Verify(found) != nil {
		return snapshot.Gone, err
	}
	return snapshot.Present, nil
}

// readResource reads a resource of a device plugin: the configuration must permit it, and a node must have it. A node whose plugin is stopped for a while
// still lists it.
func (f *restoreFacts) readResource(ctx context.Context, name string) (snapshot.Fact, error) {
	if permitted := f.configuration.Limits.PermittedHostDevices; permitted != nil && !permitsResource(permitted, name) {
		return snapshot.Forbidden, nil
	}
	if f.nodeResources == nil {
		resources, err := f.listNodeResources(ctx)
		if err != nil {
			return snapshot.Gone, err
		}
		f.nodeResources = resources
	}
	if f.nodeResources[name] {
		return snapshot.Present, nil
	}
	return snapshot.Gone, nil
}

// permitsResource reports whether the configuration lists a resource.
func permitsResource(all *v1.PermittedHostDevices, name string) bool {
	return slices.ContainsFunc(all.PciHostDevices, func(d v1.PciHostDevice) bool { return d.ResourceName == name }) ||
		slices.ContainsFunc(all.MediatedDevices, func(d v1.MediatedHostDevice) bool { return d.ResourceName == name }) ||
		slices.ContainsFunc(all.USB, func(d v1.USBHostDevice) bool { return d.ResourceName == name })
}

// listNodeResources returns the resources of all nodes.
func (f *restoreFacts) listNodeResources(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for next := ""; ; {
		var list corev1.NodeList
		if err := f.live.List(ctx, &list, client.Limit(100), client.Continue(next)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			for name := range list.Items[i].Status.Capacity {
				all[string(name)] = true
			}
		}
		if next = list.Continue; next == "" {
			return all, nil
		}
	}
}

// withDeviceClasses adds the DeviceClasses that the ResourceClaims of a VM request. A claim without its class is never allocated.
func (f *restoreFacts) withDeviceClasses(ctx context.Context, needs []snapshot.Need) ([]snapshot.Need, error) {
	all := slices.Clone(needs)
	for _, need := range needs {
		var devices []string
		switch need.Kind {
		case snapshot.ResourceClaim:
			devices = []string{"spec", "devices", "requests"}
		case snapshot.ResourceClaimTemplate:
			devices = []string{"spec", "spec", "devices", "requests"}
		default:
			continue
		}
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(metadataKinds[need.Kind])
		found, err := objects.GetOrNil(ctx, f.live, types.NamespacedName{Namespace: need.Namespace, Name: need.Name}, found)
		if meta.IsNoMatchError(err) || err == nil && found == nil {
			continue // the missing claim is a cause itself
		}
		if err != nil {
			return nil, err
		}
		requests, _, _ := unstructured.NestedSlice(found.Object, devices...)
		for _, name := range deviceClasses(requests) {
			all = append(all, snapshot.Need{Object: snapshot.Object{Kind: snapshot.DeviceClass, Name: name}, Path: need.Path, Device: need.Device})
		}
	}
	return all, nil
}

// deviceClasses returns the classes of requests that have no alternative.
func deviceClasses(requests []any) (names []string) {
	for _, request := range requests {
		fields, _ := request.(map[string]any)
		if name, _, _ := unstructured.NestedString(fields, "exactly", "deviceClassName"); name != "" {
			names = append(names, name)
		}
	}
	return names
}
