package revision

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOthersRevisionsStay: the collector deletes no revisions of KubeVirt and of StatefulSets.
func TestOthersRevisionsStay(t *testing.T) {
	foreign, owned := draft(t, "s", "1Gi").Object(), draft(t, "s", "2Gi").Object()
	foreign.Name, owned.Name = "a-s-v1beta1-7f1a7c9e-5bd4-4a6e-9d54-0a1b2c3d4e5f-1", "a-s-v1beta1-7f1a7c9e-5bd4-4a6e-9d54-0a1b2c3d4e5f-2"
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "a", UID: "u"}}
	c := server(t, foreign, owned)
	collector, clock := collector(c)
	for range 3 {
		if err := collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Time = clock.Add(MinGrace)
	}
	var left appsv1.ControllerRevisionList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 2 || len(left.Items[0].OwnerReferences)+len(left.Items[1].OwnerReferences) != 1 {
		t.Errorf("%d left, %v", len(left.Items), err)
	}
}

// TestSharedRevisionsHaveNoOwner: a VM that KubeVirt made the owner of a revision takes it away from no other VM. One that none uses is collected.
func TestSharedRevisionsHaveNoOwner(t *testing.T) {
	used, unused := draft(t, "s", "1Gi"), draft(t, "s", "2Gi")
	var objects []client.Object
	for _, d := range []Draft{used, unused} {
		owned := d.Object()
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "gone", UID: "u"}}
		objects = append(objects, owned)
	}
	c := server(t, append(objects, &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "team",
		Annotations: map[string]string{v1alpha1.AnnotationPins: `{"instancetype":"` + used.Name + `"}`}}})...)
	collector, clock := collector(c)
	for collections := range 3 {
		if err := collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		var left appsv1.ControllerRevisionList
		if err := c.List(t.Context(), &left); err != nil {
			t.Fatal(err)
		}
		for _, r := range left.Items {
			if len(r.OwnerReferences) > 0 || collections == 2 && r.Name != used.Name {
				t.Errorf("collection %d left %s with owners %v", collections, r.Name, r.OwnerReferences)
			}
		}
		if len(left.Items) == 0 {
			t.Error("the revision that is used is gone")
		}
		clock.Time = clock.Add(MinGrace)
	}
}
