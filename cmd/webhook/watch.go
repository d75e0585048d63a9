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

// watch starts the informers that admission reads before the first request comes, which would wait for them. Instancetypes, preferences and profiles
// are read untyped: a revision is hashed from the object as it is stored, with the fields that a newer API has. The
// policies are compiled before the process is ready.
func watch(ctx context.Context, mgr ctrl.Manager) (*guestpolicy.Set, error) {
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
	policies := &guestpolicy.Set{Log: ctrl.Log.WithName("policies")}
	return policies, errors.Join(policies.Follow(ctx, mgr.GetCache()), mgr.AddReadyzCheck("policies", policies.Ready))
}
