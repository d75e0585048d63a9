package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/guestpolicy"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchObjects starts the informers that admission reads, so that the first request does not wait for them, and compiles the policies before the process is
// ready. Instancetypes, preferences and profiles are read untyped, because a revision has the digest of the stored object, with the fields of a newer API.
func watchObjects(ctx context.Context, mgr ctrl.Manager) (*guestpolicy.Set, error) {
	objects := append([]client.Object{&appsv1.ControllerRevision{}, &v1.VirtualMachineInstancePreset{}}, resolve.ProfileObjects()...)
	for _, kind := range instancetype.CatalogKinds() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind))
		objects = append(objects, object)
	}
	for _, object := range objects {
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
			return nil, fmt.Errorf("watching %T %s: %w; are the CustomResourceDefinitions of manifests/crds installed?",
				object, object.GetObjectKind().GroupVersionKind().Kind, err)
		}
	}
	policies, err := guestpolicy.NewSet(mgr.GetConfig(), mgr.GetHTTPClient(), mgr.GetRESTMapper(), ctrl.Log.WithName("policies"))
	if err != nil {
		return nil, err
	}
	return policies, errors.Join(policies.Follow(ctx, mgr.GetCache()), mgr.AddReadyzCheck("policies", policies.Ready))
}
