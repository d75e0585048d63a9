package manifests_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withPlugin is what an administrator applies who has KubeVirt's plugins ask Kiln's hook.
const withPlugin = "resources: [%[1]s/overlays/beside-kubevirt]\ncomponents: [%[1]s/beside-kubevirt/plugin]\n"

// TestPlugin: component beside-kubevirt/plugin adds the Plugin, two webhooks of pods that differ in what happens while nobody answers, and the protocol.
func TestPlugin(t *testing.T) {
	base, now := documents(t, built(t, "overlays/beside-kubevirt")), documents(t, kustomized(t, withPlugin))
	if len(now) != len(base)+1 {
		t.Errorf("%d objects of %d, want one more", len(now), len(base))
	}
	var hooks []map[string]any
	for _, object := range now {
		i := slices.IndexFunc(base, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == object.GetKind() && o.GetName() == object.GetName()
		})
		switch {
		case object.GetKind() == "Plugin":
			for _, hook := range object.Object["spec"].(map[string]any)["domainHooks"].([]any) {
				if path := hook.(map[string]any)["sidecar"].(map[string]any)["socketPath"]; path != virtcontroller.HookSocket {
					t.Errorf("the Plugin has socket %v, want %s", path, virtcontroller.HookSocket)
				}
			}
		case object.GetName() == "kiln-mutating":
			for _, hook := range object.Object["webhooks"].([]any) {
				if hook := hook.(map[string]any); strings.HasSuffix(hook["name"].(string), "pods.mutate.kilnvm.io") {
					hooks = append(hooks, hook)
				}
			}
			hooks := func(o *unstructured.Unstructured) int { return len(o.Object["webhooks"].([]any)) }
			if hooks(object) != hooks(base[i])+2 {
				t.Errorf("%d webhooks of %d", hooks(object), hooks(base[i]))
			}
		case object.GetName() == "kiln-webhook" && object.GetKind() == "Deployment":
			text := fmt.Sprint(object.Object)
			if !strings.Contains(text, "map[name:HOOK_PROTOCOL value:Plugin]") || !strings.Contains(text, "--hook-protocol=$(HOOK_PROTOCOL)") {
				t.Errorf("the webhook lacks the flag of the protocol: %s", text)
			}
		default:
			if diff := cmp.Diff(base[i].Object, object.Object); diff != "" {
				t.Errorf("%s '%s': -without +with the component\n%s", object.GetKind(), object.GetName(), diff)
			}
		}
	}
	if len(hooks) != 2 || hooks[0]["failurePolicy"] == hooks[1]["failurePolicy"] {
		t.Fatalf("webhooks of pods: %v", hooks)
	}
	for field, of := range hooks[0] {
		if !slices.Contains([]string{"name", "failurePolicy", "matchConditions"}, field) && !cmp.Equal(of, hooks[1][field]) {
			t.Errorf("%s: %v and %v", field, of, hooks[1][field])
		}
	}
}

// grantPods lets the group of writers create pods of the account that the namespace has by default.
func (p plane) grantPods(t *testing.T) {
	t.Helper()
	p.kubectl(t, "", "create", "clusterrole", "podders", "--verb=create", "--resource=pods")
	p.kubectl(t, "", "create", "clusterrolebinding", "podders", "--clusterrole=podders", "--group="+writersGroup)
	p.kubectl(t, `{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}`, "apply", "-f", "-")
}
