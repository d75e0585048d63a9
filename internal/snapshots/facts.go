package snapshots

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/snapshot"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// may asks the API server whether an account may do something.
func (c *Controller) may(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &what, User: user.Username, Groups: user.Groups, UID: user.UID,
	}}
	for key, values := range user.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	err := c.Live.Create(ctx, review)
	return review.Status.Allowed, err
}

// seeing reads facts for one restore.
type seeing struct {
	*Controller
	user authenticationv1.UserInfo
	// namespace is that of the VM, claims are those that the restore makes.
	namespace string
	claims    map[string]bool
	// shared are those of the VM of the snapshot, if another VM is made of it, that the snapshot does not include.
	shared map[string]bool
	// offered are the resources of all nodes, once they are read.
	offered map[string]bool
}

// kinds are those that are read by their metadata.
var kinds = map[snapshot.Kind]schema.GroupVersionKind{
	snapshot.Claim:                 corev1.SchemeGroupVersion.WithKind(string(snapshot.Claim)),
	snapshot.ServiceAccount:        corev1.SchemeGroupVersion.WithKind(string(snapshot.ServiceAccount)),
	snapshot.Network:               {Group: "k8s.cni.cncf.io", Version: "v1", Kind: string(snapshot.Network)},
	snapshot.ResourceClaim:         {Group: "resource.k8s.io", Version: "v1", Kind: string(snapshot.ResourceClaim)},
	snapshot.ResourceClaimTemplate: {Group: "resource.k8s.io", Version: "v1", Kind: string(snapshot.ResourceClaimTemplate)},
	snapshot.DeviceClass:           {Group: "resource.k8s.io", Version: "v1", Kind: string(snapshot.DeviceClass)},
}

// facts returns what is known of the objects that a VM needs, each read once.
func (s *seeing) facts(ctx context.Context, needs []snapshot.Need) (snapshot.Facts, error) {
	known := snapshot.Facts{}
	for _, need := range needs {
		if _, seen := known[need.Object]; seen {
			continue
		}
		fact, err := s.fact(ctx, need.Object)
		if err != nil {
			return nil, fmt.Errorf("%s: looking for %s '%s': %w", need.Path, need.Kind, need.Name, err)
		}
		known[need.Object] = fact
	}
	return known, nil
}

// fact looks for one object. A name that no object can have was written by a tenant: there is no such object.
func (s *seeing) fact(ctx context.Context, of snapshot.Object) (snapshot.Fact, error) {
	switch {
	case of.Kind == snapshot.Resource:
		return s.resource(ctx, of.Name)
	case len(content.IsPathSegmentName(of.Name)) > 0, of.Namespace != "" && len(content.IsPathSegmentName(of.Namespace)) > 0:
		return snapshot.Gone, nil
	case of.Kind == snapshot.Claim && s.claims[of.Name]:
		return snapshot.Present, nil
	case of.Kind == snapshot.Claim && s.shared[of.Name]:
		return snapshot.Shared, nil
	case of.Kind == snapshot.Secret:
		return s.named(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}})
	case of.Kind == snapshot.ConfigMap:
		return s.named(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}})
	case of.Kind == snapshot.Revision:
		return s.revision(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
	}
	kind := kinds[of.Kind]
	if of.Namespace != s.namespace && of.Namespace != "" { // what the VM's owner could use, another account may not
		allowed, err := s.may(ctx, s.user, authorizationv1.ResourceAttributes{Verb: "get", Group: kind.Group, Version: kind.Version,
			Resource: "network-attachment-definitions", Namespace: of.Namespace, Name: of.Name})
		if err != nil || !allowed {
			return snapshot.Denied, err
		}
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err := s.Live.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, found)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return snapshot.Gone, nil
	case err != nil || found.DeletionTimestamp != nil:
		return snapshot.Gone, err
	}
	return snapshot.Present, nil
}

// named looks for an object that this process may not read, because it would read its data: a dry run of a create says whether the name is taken. A quota
// or a webhook that refuses it comes first; then the pod of the guest waits for the object.
func (s *seeing) named(ctx context.Context, object client.Object) (snapshot.Fact, error) {
	err := s.Live.Create(ctx, object, client.DryRunAll)
	switch {
	case err == nil:
		return snapshot.Gone, nil
	case apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return snapshot.Present, nil
	}
	return snapshot.Gone, err
}

// revision looks for a revision whose content is what its name says.
func (s *seeing) revision(ctx context.Context, key types.NamespacedName) (snapshot.Fact, error) {
	found, err := objects.GetOrNil(ctx, s.Live, key, &appsv1.ControllerRevision{})
	if err != nil || found == nil || revision.Verify(found) != nil {
		return snapshot.Gone, err
	}
	return snapshot.Present, nil
}

// resource looks for a resource of a device plugin: the configuration permits it, and a node has it. A node whose plugin has ended for a while still lists it.
func (s *seeing) resource(ctx context.Context, name string) (snapshot.Fact, error) {
	if permitted := s.Configuration().Limits.PermittedHostDevices; permitted != nil && !permits(permitted, name) {
		return snapshot.Forbidden, nil
	}
	if s.offered == nil {
		offered, err := s.resources(ctx)
		if err != nil {
			return snapshot.Gone, err
		}
		s.offered = offered
	}
	if s.offered[name] {
		return snapshot.Present, nil
	}
	return snapshot.Gone, nil
}

// permits reports whether the configuration lists a resource.
func permits(all *v1.PermittedHostDevices, name string) bool {
	return slices.ContainsFunc(all.PciHostDevices, func(d v1.PciHostDevice) bool { return d.ResourceName == name }) ||
		slices.ContainsFunc(all.MediatedDevices, func(d v1.MediatedHostDevice) bool { return d.ResourceName == name }) ||
		slices.ContainsFunc(all.USB, func(d v1.USBHostDevice) bool { return d.ResourceName == name })
}

// resources are those of all nodes.
func (s *seeing) resources(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for next := ""; ; {
		var list corev1.NodeList
		if err := s.Live.List(ctx, &list, client.Limit(100), client.Continue(next)); err != nil {
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
