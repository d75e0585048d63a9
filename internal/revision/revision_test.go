package revision

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func draft(t *testing.T, name, memory string) Draft {
	t.Helper()
	d, err := NewDraft("team", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype",
		"metadata": map[string]any{"name": name, "uid": "u", "generation": int64(3)},
		"spec":     map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": memory}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func server(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), v1.AddToScheme(scheme), snapshot.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestWrite(t *testing.T) {
	d, other := draft(t, "s", "1Gi"), draft(t, "s", "2Gi")
	forged := other.Object()
	forged.Name = d.Name
	for _, test := range []struct {
		name, why string
		there     []client.Object
		failed    string
	}{
		{name: "first", why: "a miss creates"},
		{name: "second", why: "another replica was faster", there: []client.Object{d.Object()}},
		{name: "beside another", why: "an edited size is another revision", there: []client.Object{other.Object()}},
		{name: "forged", why: "what is there is not trusted for its name", there: []client.Object{forged}, failed: "cannot be trusted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := server(t, test.there...)
			err := Write(t.Context(), c, d)
			if test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) {
					t.Errorf("%s: %v", test.why, err)
				}
				return
			}
			var got appsv1.ControllerRevision
			if err != nil || c.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: d.Name}, &got) != nil || Verify(&got) != nil {
				t.Errorf("%s: %v, revision %+v", test.why, err, got)
			}
			if got.Labels["instancetype.kubevirt.io/object-name"] != "s" || got.Labels["instancetype.kubevirt.io/object-generation"] != "3" ||
				len(got.OwnerReferences) != 0 {
				t.Errorf("labels %v, owners %v", got.Labels, got.OwnerReferences)
			}
		})
	}
}

func TestVerifyTrustsRevisionsOfKubeVirt(t *testing.T) {
	foreign := draft(t, "s", "1Gi").Object()
	foreign.Name = "vm-s-v1beta1-uid-1"
	if Verify(foreign) == nil {
		t.Error("a revision of nobody, with another content than its name says, was trusted")
	}
	foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "x", UID: "x", Controller: new(true)}}
	if Verify(foreign) == nil {
		t.Error("a revision of a stateful set was trusted")
	}
	foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "vm", UID: "x", Controller: new(true)}}
	if err := Verify(foreign); err != nil {
		t.Errorf("a revision that KubeVirt made for a VM: %v", err)
	}
}

func TestNamesAndLabelsAreLegal(t *testing.T) {
	for _, name := range []string{"s", "u1.small", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253)} {
		d := draft(t, name, "1Gi")
		if problems := validation.IsDNS1123Subdomain(d.Name); len(problems) > 0 {
			t.Errorf("a name of %d characters: %v", len(name), problems)
		}
		for key, value := range d.Labels {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("a name of %d characters: label %s: %v", len(name), key, problems)
			}
		}
	}
}
