package manifests_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guestpolicy"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestBesideKubeVirt: overlay beside-kubevirt on an API server with definitions as KubeVirt has them. Nobody answers for Kiln at first: everything is
// admitted, except pods that need the hook. With a GuestPolicy that denies, KubeVirt goes on, and VMs and VMIs that somebody else has written wait. Then
// somebody answers. The pods of component beside-kubevirt/plugin are among it.
func TestBesideKubeVirt(t *testing.T) {
	p := startPlane(t)
	p.kubectl(t, kubeVirtsDefinitions(t), "apply", "--server-side", "-f", "-")
	p.established(t)
	p.grantWriters(t)
	p.grantCatalog(t)
	p.grantPods(t)
	for _, object := range []string{aVM("web", "Always"), aVM("old", "Halted"), aVMI("web", ""), aVMI("bare", ""), aRecordedVMI("recorded"),
		anInstancetype("u0.old"), anInstancetype("u0.kept")} {
		p.kubectl(t, object, "create", "-f", "-")
	}
	p.kubectl(t, "", "label", "virtualmachineclusterinstancetype", "u0.kept", "kilnvm.io/keep-while-used=true")
	before := p.kubectl(t, "", "get", "crd", "-l", "kilnvm.io/uninstall!=keep", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
	p.kubectl(t, "", "apply", "--server-side", "-k", "overlays/beside-kubevirt")
	if after := p.kubectl(t, "", "get", "crd", "-l", "kilnvm.io/uninstall!=keep", "-o", "jsonpath={.items[*].metadata.resourceVersion}"); after != before {
		t.Errorf("definitions of KubeVirt's are changed: resource versions %s, then %s", before, after)
	}
	configurations := slices.DeleteFunc(documents(t, kustomized(t, withPlugin)), func(object *unstructured.Unstructured) bool {
		return !strings.HasSuffix(object.GetKind(), "WebhookConfiguration")
	})
	for _, object := range configurations {
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		p.kubectl(t, string(raw), "apply", "--server-side", "-f", "-")
	}
	readBack(t, p, configurations)
	eventually(t, "the webhook of pods is asked", func() bool {
		_, err := p.try("", aPod("virt-launcher", "", recorded), "create", "--dry-run=server", "--as="+virtController, "--as-group="+writersGroup, "-f", "-")
		return err != nil
	})
	for _, write := range slices.Concat(kubeVirtWrites, othersWrite, podWrites) {
		write.waits = write.waits && slices.Equal(write.asked, mutatesPod)
		write.while(t, p, "Kiln is down", nil)
	}
	denyAll(t, p)
	eventually(t, "the webhooks of a policy are asked", func() bool {
		_, err := p.try("", aVM("probe", "Halted"), "create", "--dry-run=server", "-f", "-")
		return err != nil
	})
	for _, write := range slices.Concat(kubeVirtWrites, othersWrite, podWrites) {
		write.while(t, p, "Kiln is down and a policy denies", nil)
	}
	p.kubectl(t, "", "patch", "validatingwebhookconfiguration/kiln-policies", "--type=merge", `-p={"webhooks":null}`)
	asked := &recorder{}
	server := httptest.NewTLSServer(asked)
	defer server.Close()
	answeredBy(t, p, configurations, server)
	eventually(t, "the API server calls the recorder", func() bool {
		_, err := p.try("", aVM("probe", "Halted"), "create", "--dry-run=server", "-f", "-")
		return err == nil && len(asked.asked()) == 2
	})
	for _, write := range slices.Concat(kubeVirtWrites, othersWrite, podWrites) {
		write.while(t, p, "Kiln answers", asked)
	}
}

// denyAll writes the webhooks of kiln-policies, as the controller does while a GuestPolicy denies.
func denyAll(t *testing.T, p plane) {
	t.Helper()
	var of admissionv1.ValidatingWebhookConfiguration
	if err := json.Unmarshal([]byte(p.kubectl(t, "", "get", "validatingwebhookconfiguration/kiln-validating", "-o", "json")), &of); err != nil {
		t.Fatal(err)
	}
	closed := guestpolicy.FailClosed(of.Webhooks, []v1alpha1.GuestPolicy{{}})
	if len(closed) != 7 {
		t.Fatalf("%d webhooks of a policy that denies, want VMs, VMIs and five kinds with templates", len(closed))
	}
	patch, err := json.Marshal(map[string]any{"webhooks": closed})
	if err != nil {
		t.Fatal(err)
	}
	p.kubectl(t, "", "patch", "validatingwebhookconfiguration/kiln-policies", "--type=merge", "-p="+string(patch))
}

// while does the request, and compares who was asked; nil where nobody answers.
func (w request) while(t *testing.T, p plane, what string, asked *recorder) {
	t.Helper()
	if asked != nil {
		asked.asked()
	}
	started := time.Now()
	out, err := p.try("", w.input, append(slices.Clone(w.args), "--dry-run=server", "--as="+w.by, "--as-group="+writersGroup)...)
	if refused := err != nil; refused != (w.waits && asked == nil) || refused && !strings.Contains(out, "failed calling webhook") {
		t.Errorf("%s, %s by %s: refused %t: %s", what, w.why, w.by, refused, out)
	}
	if asked == nil {
		t.Logf("%s: %s, %s", what, w.why, time.Since(started).Round(10*time.Millisecond))
		return
	}
	var paths []string
	for _, call := range asked.asked() {
		paths = append(paths, strings.Fields(call)[0])
	}
	if diff := cmp.Diff(w.asked, paths); diff != "" {
		t.Errorf("%s, %s by %s: asked -want +got\n%s", what, w.why, w.by, diff)
	}
}

// TestBesideKubeVirtConditions: the component beside-kubevirt adds conditions to the webhooks, and removes none. Its timeouts are at most 2 seconds.
func TestBesideKubeVirtConditions(t *testing.T) {
	hooks := func(base string) map[string]map[string]any {
		all := map[string]map[string]any{}
		for _, object := range documents(t, built(t, base)) {
			if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
				listed, _ := object.Object["webhooks"].([]any)
				for _, hook := range listed {
					hook := hook.(map[string]any)
					all[hook["name"].(string)] = hook
				}
			}
		}
		return all
	}
	base, now := hooks("overlays/rotation"), hooks("overlays/beside-kubevirt")
	for name, hook := range now {
		if of, is := strings.CutPrefix(name, "kubevirt."); is {
			for field := range base[of] {
				other := []string{"name", "failurePolicy", "matchConditions", "namespaceSelector", "rules", "timeoutSeconds"}
				if !slices.Contains(other, field) && !cmp.Equal(base[of][field], hook[field]) {
					t.Errorf("%s: %s is %v, and '%s' has %v", name, field, hook[field], of, base[of][field])
				}
			}
			continue
		}
		if name == "running.virtualmachineinstances.mutate.kilnvm.io" { // only beside KubeVirt
			continue
		}
		conditions, _ := base[name]["matchConditions"].([]any)
		has, _ := hook["matchConditions"].([]any)
		for _, condition := range conditions {
			if !slices.ContainsFunc(has, func(is any) bool { return cmp.Equal(is, condition) }) {
				t.Errorf("%s lacks %v", name, condition)
			}
		}
		if seconds := hook["timeoutSeconds"].(float64); seconds > 2 {
			t.Errorf("%s: a create waits %v s for it", name, seconds)
		}
		changed := []string{"matchConditions", "failurePolicy", "namespaceSelector", "timeoutSeconds"}
		hook, is := without(hook, changed...), without(base[name], changed...)
		if diff := cmp.Diff(is, hook); diff != "" {
			t.Errorf("%s: -rotation +beside-kubevirt\n%s", name, diff)
		}
	}
	if len(now) != len(base)+3-6 {
		t.Errorf("%d webhooks of %d, want three more and six less", len(now), len(base))
	}
}

func without(of map[string]any, keys ...string) map[string]any {
	rest := map[string]any{}
	for k, v := range of {
		if !slices.Contains(keys, k) {
			rest[k] = v
		}
	}
	return rest
}

// kubeVirtsDefinitions returns the definitions of KubeVirt's kinds like the definitions of KubeVirt v1.9.0, as far as they matter for admission: VMIs have no
// status subresource. Kiln does not protect them.
func kubeVirtsDefinitions(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, definition := range documents(t, built(t, "crds")) {
		if !strings.HasSuffix(definition.GetName(), "kubevirt.io") {
			continue
		}
		definition.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "virt-operator"})
		if definition.GetName() == "virtualmachineinstances.kubevirt.io" {
			for _, version := range definition.Object["spec"].(map[string]any)["versions"].([]any) {
				delete(version.(map[string]any)["subresources"].(map[string]any), "status")
			}
		}
		raw, err := definition.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
		all.WriteString("\n---\n")
	}
	return all.String()
}

// readBack compares configurations that were applied with what the server has stored.
func readBack(t *testing.T, p plane, configurations []*unstructured.Unstructured) {
	t.Helper()
	for _, want := range configurations {
		if want.Object["webhooks"] == nil {
			continue // the controller writes them
		}
		got := documents(t, p.kubectl(t, "", "get", want.GetKind(), want.GetName(), "-o", "yaml"))[0]
		if diff := cmp.Diff(want.Object["webhooks"], got.Object["webhooks"]); diff != "" {
			t.Errorf("%s: -applied +read\n%s", want.GetName(), diff)
		}
	}
}

// answeredBy has a server on this machine answer for the webhooks.
func answeredBy(t *testing.T, p plane, configurations []*unstructured.Unstructured, server *httptest.Server) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, configuration := range configurations {
		if configuration.Object["webhooks"] == nil {
			continue
		}
		for _, hook := range configuration.Object["webhooks"].([]any) {
			client := hook.(map[string]any)["clientConfig"].(map[string]any)
			path := client["service"].(map[string]any)["path"].(string)
			hook.(map[string]any)["clientConfig"] = map[string]any{
				"url": server.URL + path, "caBundle": base64.StdEncoding.EncodeToString(ca)}
		}
		raw, err := configuration.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		p.kubectl(t, string(raw), "replace", "-f", "-")
	}
}

// grantCatalog lets the group of writers write the catalog of the cluster.
func (p plane) grantCatalog(t *testing.T) {
	t.Helper()
	p.kubectl(t, "", "create", "clusterrole", "catalogers", "--verb=get,create,delete", "--resource=virtualmachineclusterinstancetypes.instancetype.kubevirt.io")
	p.kubectl(t, "", "create", "clusterrolebinding", "catalogers", "--clusterrole=catalogers", "--group="+writersGroup)
}
