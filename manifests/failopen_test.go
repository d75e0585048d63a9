package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kept are the policies of every installation. All others repeat rules of the webhook.
var kept = []string{"kiln-guest-hardware", "kiln-guest-hardware-status", "kiln-uninstall", "kiln-launchers", "kiln-revision-writers", "kiln-statuses",
	"kiln-devices", "kiln-guest-pods", "kiln-guest-pod-status", "kiln-snapshot-contents", "kiln-parameters", "kiln-shared-revisions"}

// keptBeside are the kept policies of the overlay beside-kubevirt: KubeVirt has its own rules about statuses, launchers, pods, devices and snapshots.
var keptBeside = []string{"kiln-guest-hardware", "kiln-guest-hardware-status", "kiln-uninstall", "kiln-revision-writers", "kiln-parameters",
	"kiln-shared-revisions"}

// TestFailurePolicies: as installed, everything that the webhook would have to judge waits for it, and no rule is judged twice. Deletions wait only with the
// label that keeps an object. With component fail-open VMs do not wait, and the rules are there as policies. Beside KubeVirt only Kiln's own kinds, kept
// objects and pods that need the hook wait.
func TestFailurePolicies(t *testing.T) {
	for _, test := range []struct {
		overlay    string
		components string
		kept       []string
		// waiting are the webhooks without which nothing is written; nil for all.
		waiting []string
		rules   bool
	}{
		{overlay: "rotation", kept: kept},
		{overlay: "cert-manager", kept: kept},
		{overlay: "beside-kubevirt", kept: keptBeside, waiting: []string{
			"exceptions.mutate.kilnvm.io", "exceptions.validate.kilnvm.io", "guestpolicies.validate.kilnvm.io", "guestprofiles.validate.kilnvm.io",
			"kept.deletions.validate.kilnvm.io"}},
		{overlay: "beside-kubevirt", components: "%[1]s/beside-kubevirt/plugin", kept: keptBeside, waiting: []string{
			"exceptions.mutate.kilnvm.io", "exceptions.validate.kilnvm.io", "guestpolicies.validate.kilnvm.io",
			"guestprofiles.validate.kilnvm.io", "kept.deletions.validate.kilnvm.io", "kubevirt.pods.mutate.kilnvm.io"}},
		{overlay: "fail-open", components: "%[1]s/beside-kubevirt", kept: keptBeside, rules: true, waiting: []string{
			"exceptions.mutate.kilnvm.io", "exceptions.validate.kilnvm.io", "guestpolicies.validate.kilnvm.io",
			"guestprofiles.validate.kilnvm.io", "kept.deletions.validate.kilnvm.io"}},
		{overlay: "fail-open", kept: kept, rules: true, waiting: []string{
			"exceptions.mutate.kilnvm.io", "exceptions.validate.kilnvm.io", "guestpolicies.validate.kilnvm.io",
			"guestprofiles.validate.kilnvm.io", "kept.deletions.validate.kilnvm.io", "virtualmachineinstances.mutate.kilnvm.io",
			"restores.mutate.kilnvm.io", "restores.validate.kilnvm.io", "clones.mutate.kilnvm.io", "clones.validate.kilnvm.io"}},
	} {
		all := documents(t, kustomized(t, "resources: [%[1]s/overlays/"+test.overlay+"]\ncomponents: ["+test.components+"]\n"))
		var policies, rules, waiting, others []string
		for _, object := range all {
			switch object.GetKind() {
			case "ValidatingAdmissionPolicy":
				policies = append(policies, object.GetName())
				if of, _, _ := unstructured.NestedString(object.Object, "spec", "failurePolicy"); of != "Fail" {
					t.Errorf("%s: policy '%s' has failurePolicy '%s'", test.overlay, object.GetName(), of)
				}
			case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
				hooks, _ := object.Object["webhooks"].([]any)
				for _, hook := range hooks {
					hook := hook.(map[string]any)
					if hook["failurePolicy"] == "Fail" {
						waiting = append(waiting, hook["name"].(string))
					} else {
						others = append(others, hook["name"].(string))
					}
				}
			}
		}
		rules = slices.DeleteFunc(slices.Clone(policies), func(name string) bool { return slices.Contains(test.kept, name) })
		if len(policies)-len(rules) != len(test.kept) || (len(rules) > 0) != test.rules {
			t.Errorf("%s: policies %v", test.overlay, policies)
		}
		if test.waiting == nil {
			test.waiting = slices.Clone(waiting)
			others = slices.DeleteFunc(others, func(name string) bool { return name == "deletions.validate.kilnvm.io" })
			if len(others) > 0 {
				t.Errorf("%s: what '%s' would judge does not wait", test.overlay, strings.Join(others, "', '"))
			}
		}
		slices.Sort(waiting)
		slices.Sort(test.waiting)
		if diff := cmp.Diff(test.waiting, waiting); diff != "" {
			t.Errorf("%s: webhooks that are waited for: -want +got\n%s", test.overlay, diff)
		}
	}
}

// TestEveryPolicyIsInstalled: a file that no kustomization lists would be read by people alone.
func TestEveryPolicyIsInstalled(t *testing.T) {
	for _, dir := range []string{"policies/kept", "policies/rules"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		listed, _, err := unstructured.NestedStringSlice(documents(t, string(text))[0].Object, "resources")
		if err != nil || len(listed) != len(files)-1 {
			t.Errorf("'%s' has %d files beside its kustomization, which lists %v: %v", dir, len(files)-1, listed, err)
		}
	}
}
