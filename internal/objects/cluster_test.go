package objects

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestPatchesNoticeOtherWriters: a patch of the current version is written, and a patch of an older version is a conflict.
func TestPatchesNoticeOtherWriters(t *testing.T) {
	key := types.NamespacedName{Namespace: "team", Name: "web"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	c := fake.NewClientBuilder().WithObjects(claim).WithStatusSubresource(claim).Build()
	before, err := GetOrNil(t.Context(), c, key, &corev1.PersistentVolumeClaim{})
	if err != nil || before == nil {
		t.Fatal(before, err)
	}
	labelled := before.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	if err := Patch(t.Context(), c, labelled, before); err != nil {
		t.Fatal(err)
	}
	bound := before.DeepCopy()
	bound.Status.Phase = corev1.ClaimBound
	if err := PatchStatus(t.Context(), c, bound, before); !apierrors.IsConflict(err) {
		t.Errorf("a status of an older version: %v", err)
	}
	if err := Patch(t.Context(), c, before.DeepCopy(), before); !apierrors.IsConflict(err) {
		t.Errorf("labels of an older version: %v", err)
	}
	bound = labelled.DeepCopy()
	bound.Status.Phase = corev1.ClaimBound
	if err := PatchStatus(t.Context(), c, bound, labelled); err != nil {
		t.Fatal(err)
	}
	if now, err := GetOrNil(t.Context(), c, key, &corev1.PersistentVolumeClaim{}); err != nil || now.Status.Phase != corev1.ClaimBound || now.Labels["a"] != "b" {
		t.Errorf("%+v %v", now, err)
	}
	key.Name = "gone"
	if missing, err := GetOrNil(t.Context(), c, key, &corev1.PersistentVolumeClaim{}); missing != nil || err != nil {
		t.Errorf("an object that does not exist: %v %v", missing, err)
	}
}

// TestDeletesNoticeOtherWriters: an object that has changed is deleted only by DeleteSame, and an object that was created again by neither function.
func TestDeletesNoticeOtherWriters(t *testing.T) {
	stored := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "1", ResourceVersion: "7"}}
	changed, recreated := stored.DeepCopy(), stored.DeepCopy()
	changed.ResourceVersion, recreated.UID = "6", "0"
	for why, test := range map[string]struct {
		read            *corev1.PersistentVolumeClaim
		unchanged, same bool
	}{"unchanged": {stored, true, true}, "changed since": {changed, false, true}, "created again": {recreated, false, false}} {
		for deleted, remove := range map[*bool]func(client.Client) error{
			&test.unchanged: func(c client.Client) error { return DeleteUnchanged(t.Context(), c, test.read.DeepCopy()) },
			&test.same:      func(c client.Client) error { return DeleteSame(t.Context(), c, test.read.DeepCopy()) },
		} {
			// The fake client compares resource versions, and no UIDs.
			compareUID := func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				if uid := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions.UID; uid == nil || *uid != stored.UID {
					return apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), object.GetName(), nil)
				}
				return to.Delete(ctx, object, options...)
			}
			c := fake.NewClientBuilder().WithObjects(stored.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{Delete: compareUID}).Build()
			if err := remove(c); (err == nil) != *deleted || err != nil && !apierrors.IsConflict(err) {
				t.Errorf("%s: %v, want deleted %t", why, err, *deleted)
			} else if err == nil && remove(c) != nil {
				t.Errorf("%s: an object that is gone is an error", why)
			}
		}
	}
}
