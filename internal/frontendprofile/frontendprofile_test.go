package frontendprofile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestInForce: the highest valid version, also after it has gone; nothing is written where nothing has changed.
func TestInForce(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.FrontendProfile{}).Build()
	check := func(want map[string]string) {
		t.Helper()
		for range 2 {
			if _, err := (&Controller{Client: cluster}).Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
		}
		profiles, err := clusterconfig.FrontendProfiles(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, p := range profiles {
			judged := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionInForce)
			got[p.Name] = judged.Reason
			if (judged.Status == metav1.ConditionTrue) != (judged.Reason == v1alpha1.ReasonHighestVersion) || judged.Message == "" {
				t.Errorf("%s: %+v", p.Name, judged)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	add := func(name string, ports int32) *v1alpha1.FrontendProfile {
		t.Helper()
		profile := &v1alpha1.FrontendProfile{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FrontendProfileSpec{FreePorts: &ports}}
		if err := cluster.Create(t.Context(), profile); err != nil {
			t.Fatal(err)
		}
		return profile
	}
	check(map[string]string{})
	add("v1", 1)
	check(map[string]string{"v1": v1alpha1.ReasonHighestVersion})
	second := add("v10", 2)
	add("v9", 3)
	add("v11", 500) // of an API server without the bound
	add("latest", 4)
	check(map[string]string{"v1": v1alpha1.ReasonNewerVersion, "v9": v1alpha1.ReasonNewerVersion, "v10": v1alpha1.ReasonHighestVersion,
		"v11": v1alpha1.ReasonInvalid, "latest": v1alpha1.ReasonInvalid})
	before := &v1alpha1.FrontendProfile{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "v10"}, before); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"v1": v1alpha1.ReasonNewerVersion, "v9": v1alpha1.ReasonNewerVersion, "v10": v1alpha1.ReasonHighestVersion,
		"v11": v1alpha1.ReasonInvalid, "latest": v1alpha1.ReasonInvalid})
	after := &v1alpha1.FrontendProfile{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "v10"}, after); err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("it is written again, and nothing has changed: %v", err)
	}
	if err := cluster.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"v1": v1alpha1.ReasonNewerVersion, "v9": v1alpha1.ReasonHighestVersion, "v11": v1alpha1.ReasonInvalid,
		"latest": v1alpha1.ReasonInvalid})
}
