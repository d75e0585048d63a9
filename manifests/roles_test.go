package manifests_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/poll"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// aggregation is what the labels begin with by which a ClusterRole is added to Kubernetes' own.
const aggregation = "rbac.authorization.k8s.io/aggregate-to-"

// TestManualRoles: with the component, no object has a label of aggregation, and all else is as without it. Then an account with the role edit may do nothing
// with Kiln's kinds, and the binding to Kiln's own role gives it the rights. Without the component it has them by the role edit.
func TestManualRoles(t *testing.T) {
	const whole = "resources: [%[1]s/overlays/apiserver]\n"
	aggregated, manual := kustomized(t, whole), kustomized(t, whole+"components: [%[1]s/manual-roles]\n")
	if strings.Count(aggregated, aggregation) < 6 || strings.Contains(manual, aggregation) {
		t.Fatalf("%d labels of aggregation without the component, %d with it", strings.Count(aggregated, aggregation), strings.Count(manual, aggregation))
	}
	if all, rest := documents(t, aggregated), documents(t, manual); len(all) != len(rest) {
		t.Errorf("%d objects without the component, %d with it", len(all), len(rest))
	}
	p := startPlane(t)
	roles := func(text string) string {
		var out strings.Builder
		for _, object := range documents(t, text) {
			if object.GetKind() != "ClusterRole" {
				continue
			}
			raw, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("---\n" + string(raw) + "\n")
		}
		return out.String()
	}
	may := func(verb, group, resource string) bool {
		review, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
			User: "tenant", ResourceAttributes: &authorization.ResourceAttributes{Namespace: "default", Verb: verb, Group: group, Resource: resource}}})
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: review}
		object.SetAPIVersion("authorization.k8s.io/v1")
		object.SetKind("SubjectAccessReview")
		answer, err := p.admin.Resource(authorization.SchemeGroupVersion.WithResource("subjectaccessreviews")).Create(t.Context(), object, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
		return allowed
	}
	check := func(why string, want bool) {
		t.Helper()
		for _, right := range [][3]string{{"create", "kubevirt.io", "virtualmachines"}, {"get", "kilnvm.io", "guestprofiles"},
			{"get", "kilnvm.io", "guesthardwares"}, {"delete", "snapshot.kubevirt.io", "virtualmachinesnapshots"}} {
			if !poll.Until(time.Minute, func() bool { return may(right[0], right[1], right[2]) == want }) {
				t.Fatalf("%s: the account may %v: %t", why, right, !want)
			}
		}
	}
	p.kubectl(t, "", "create", "rolebinding", "tenant", "--clusterrole=edit", "--user=tenant", "-n", "default")
	p.kubectl(t, roles(aggregated), "apply", "--server-side", "-f", "-")
	check("with the labels", true)
	p.kubectl(t, roles(manual), "apply", "--server-side", "-f", "-")
	check("without the labels", false)
	if !may("create", "", "configmaps") {
		t.Error("the role edit gives no rights at all")
	}
	p.kubectl(t, "", "create", "rolebinding", "vms", "--clusterrole=kiln-edit", "--user=tenant", "-n", "default")
	check("with a binding to kiln-edit", true)
}
