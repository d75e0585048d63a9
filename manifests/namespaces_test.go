package manifests_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/enforcement"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestSelectors: the API server asks about the namespaces that package enforcement says are judged, by each webhook and each policy, and the rules of component
// fail-open refuse in those in which admission refuses. The policies kiln-uninstall and kiln-shared-revisions protect what Kiln made, in whatever namespace.
func TestSelectors(t *testing.T) {
	for _, test := range []struct{ components, selection, enforced string }{
		{"", enforcement.OptOut, enforcement.Enforce},
		{"beside-kubevirt/opt-in", enforcement.OptIn, enforcement.Enforce},
		{"beside-kubevirt/warn", enforcement.OptOut, enforcement.Warn},
		{"beside-kubevirt/opt-in beside-kubevirt/warn", enforcement.OptIn, enforcement.Warn},
	} {
		components := "%[1]s/beside-kubevirt, %[1]s/beside-kubevirt/plugin"
		for component := range strings.FieldsSeq(test.components) {
			components += ", %[1]s/" + component
		}
		judges := enforcement.Namespaces{Selection: test.selection, Kiln: "kiln-7", KubeVirt: "virt-7"}
		found := map[string]int{}
		for _, object := range documents(t, kustomized(t, "resources: [%[1]s/overlays/fail-open]\ncomponents: ["+components+", %[1]s/namespace]\n"+
			"configMapGenerator: [{name: kiln-namespaces, literals: [system=kiln-7, launchers=machines-7, kubevirt=virt-7]}]\n")) {
			switch object.GetKind() {
			case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
				hooks, _ := object.Object["webhooks"].([]any) // the controller writes the webhooks of kiln-policies
				for _, hook := range hooks {
					hook := hook.(map[string]any)
					found[object.GetKind()]++
					compareSelector(t, fmt.Sprint(test, " ", hook["name"]), hook["namespaceSelector"], judges.Judges)
				}
			case "ValidatingAdmissionPolicyBinding":
				found[object.GetKind()]++
				selector, selects, _ := unstructured.NestedMap(object.Object, "spec", "matchResources", "namespaceSelector")
				name, where := object.GetName(), fmt.Sprint(test, " ", object.GetName())
				switch {
				case name == "kiln-uninstall", name == "kiln-shared-revisions", name == "kiln-parameters":
					if selects {
						t.Errorf("%s: it is not everywhere", where)
					}
				case slices.Contains(keptBeside, name):
					compareSelector(t, where, selector, judges.Judges)
				default:
					compareSelector(t, where, selector, func(namespace metav1.Object) bool {
						value, _ := enforcement.In(namespace, test.enforced)
						return judges.Judges(namespace) && value == enforcement.Enforce
					})
					rules, limited, _ := unstructured.NestedSlice(object.Object, "spec", "matchResources", "resourceRules")
					ofCluster := slices.Contains([]string{"kiln-instancetypes", "kiln-lifecycle", "kiln-preferences"}, name)
					if want := ofCluster && test.enforced == enforcement.Warn; limited != want || want && rules[0].(map[string]any)["scope"] != "Namespaced" {
						t.Errorf("%s: objects of the cluster are refused: %v", where, rules)
					}
				}
			}
		}
		if found["ValidatingAdmissionPolicyBinding"] < 10 || found["ValidatingWebhookConfiguration"] < 8 || found["MutatingWebhookConfiguration"] < 6 {
			t.Errorf("%v: found %v", test, found)
		}
	}
}

// compareSelector compares a selector with what it should select.
func compareSelector(t *testing.T, where string, selector any, want func(metav1.Object) bool) {
	t.Helper()
	given, _ := selector.(map[string]any)
	var typed metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(given, &typed, true); err != nil {
		t.Fatal(where, err)
	}
	matcher, err := metav1.LabelSelectorAsSelector(&typed)
	if err != nil || len(given) == 0 {
		t.Fatal(where, given, err)
	}
	for _, name := range []string{"team", "kubevirt", "kiln-system", "kube-system", "kube-public", "kube-node-lease", "kiln-7", "virt-7"} {
		for _, label := range []string{"", "enabled", "warn", "disabled"} {
			namespace := &metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}
			if label != "" {
				namespace.Labels["kilnvm.io/admission"] = label
			}
			if got := matcher.Matches(labels.Set(namespace.Labels)); got != want(namespace) {
				t.Errorf("%s: namespace '%s' with '%s' is selected: %t", where, name, label, got)
			}
		}
	}
}

// TestNamespacesOnServer: an API server asks Kiln, and has policy kiln-revision-writers judge, only in namespaces that are judged, by overlay and component.
func TestNamespacesOnServer(t *testing.T) {
	p := startPlane(t)
	p.kubectl(t, kubeVirtsDefinitions(t), "apply", "--server-side", "-f", "-")
	p.kubectl(t, "", "apply", "--server-side", "-k", "overlays/beside-kubevirt")
	p.established(t)
	labelled := map[string]string{"none": "", "on": "enabled", "shadow": "warn", "off": "disabled", "kube-system": "enabled"}
	for name, label := range labelled {
		if name != "kube-system" {
			p.kubectl(t, "", "create", "namespace", name)
		}
		if label != "" {
			p.kubectl(t, "", "label", "namespace", name, "kilnvm.io/admission="+label)
		}
	}
	p.kubectl(t, "", "create", "namespace", "kubevirt")
	p.kubectl(t, "", "create", "clusterrole", "deleters", "--verb=get,delete", "--resource=controllerrevisions.apps")
	p.kubectl(t, "", "create", "clusterrolebinding", "deleters", "--clusterrole=deleters", "--user="+virtController)
	shared := `{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "size-` + strings.Repeat("a", 26) + `", "namespace": "off",
		"labels": {"kilnvm.io/object-name": "a"}}, "revision": 1, "data": {}}`
	eventually(t, "nobody deletes a shared revision where Kiln is absent", func() bool {
		_, _ = p.try("", shared, "create", "-f", "-")
		out, err := p.try("", shared, "delete", "-f", "-", "--dry-run=server", "--as="+virtController)
		return err != nil && strings.Contains(out, "VMs may be pinned to it")
	})
	asked := &recorder{}
	server := httptest.NewTLSServer(asked)
	defer server.Close()
	for selection, judged := range map[string][]string{"": {"none", "on", "shadow"}, "[%[1]s/beside-kubevirt/opt-in]": {"on", "shadow"}} {
		all := documents(t, kustomized(t, "resources: [%[1]s/overlays/beside-kubevirt]\ncomponents: "+strings.ReplaceAll(selection+"[]", "][]", "]")+"\n"))
		var configurations []*unstructured.Unstructured
		for _, object := range all {
			switch {
			case strings.HasSuffix(object.GetKind(), "WebhookConfiguration"):
				configurations = append(configurations, object)
			case object.GetKind() == "ValidatingAdmissionPolicyBinding":
				raw, err := object.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				p.kubectl(t, string(raw), "apply", "--server-side", "--force-conflicts", "-f", "-")
				read := documents(t, p.kubectl(t, "", "get", object.GetKind(), object.GetName(), "-o", "yaml"))[0]
				if diff := cmp.Diff(object.Object["spec"], read.Object["spec"]); diff != "" {
					t.Errorf("%s: -applied +read\n%s", object.GetName(), diff)
				}
			}
		}
		answeredBy(t, p, configurations, server)
		create := func(namespace, object string) (string, error) {
			return p.try("", strings.Replace(object, `"default"`, fmt.Sprintf("%q", namespace), 1), "create", "--dry-run=server", "-f", "-")
		}
		const revision = `{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r", "namespace": "default",
			"labels": {"kilnvm.io/object-name": "a"}}, "revision": 1, "data": {}}`
		eventually(t, "the API server has the selectors", func() bool {
			asked.asked()
			_, err := create("on", aVM("probe", "Halted"))
			_, other := create("none", aVM("probe", "Halted"))
			_, denied := create("on", revision)
			_, deniedOther := create("none", revision)
			return err == nil && other == nil && len(asked.asked()) == 2*(len(judged)-1) &&
				denied != nil && (deniedOther != nil) == slices.Contains(judged, "none")
		})
		for _, namespace := range []string{"none", "on", "shadow", "off", "kube-system", "kubevirt", "kiln-system"} {
			is := slices.Contains(judged, namespace)
			asked.asked()
			if out, err := create(namespace, aVM("a", "Halted")); err != nil || (len(asked.asked()) == 2) != is {
				t.Errorf("%s: a VM in namespace '%s': %v %s", selection, namespace, err, out)
			}
			if out, err := create(namespace, revision); (err != nil) != is || is && !strings.Contains(out, "may not write revisions") {
				t.Errorf("%s: a revision in namespace '%s': %v %s", selection, namespace, err, out)
			}
		}
		if _, err := p.try("", anInstancetype("x1.large"), "create", "--dry-run=server", "-f", "-"); err != nil || len(asked.asked()) != 1 {
			t.Errorf("%s: an object of the cluster is not judged: %v", selection, err)
		}
	}
}
