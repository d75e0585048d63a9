package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
