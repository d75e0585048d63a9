package manifests_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/test/load/creates"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

var ruleOf = regexp.MustCompile(`\(rule ([a-z0-9/-]+)\)`)

// policyRules are the rules that policies of this server keep. A policy whose expressions do not fit their kinds warns.
func policyRules(t *testing.T, p plane) (rules []string) {
	t.Helper()
	for _, policy := range documents(t, p.kubectl(t, "", "get", "validatingadmissionpolicies", "-o", "yaml"))[0].Object["items"].([]any) {
		content := raw(t, &unstructured.Unstructured{Object: policy.(map[string]any)})
		for _, match := range ruleOf.FindAllSubmatch(content, -1) {
			rules = append(rules, string(match[1]))
		}
		warnings, _, _ := unstructured.NestedSlice(policy.(map[string]any), "status", "typeChecking", "expressionWarnings")
		for _, warning := range warnings {
			t.Errorf("policy: %v", warning)
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// usual: of a VM as most are written, the API server evaluates match conditions alone, since all of the rules take several times as long. It counts a
// condition when that leaves an object out.
func usual(t *testing.T, p plane) {
	leftOut := func() map[string]string {
		counts := map[string]string{}
		for _, match := range leftOutCount.FindAllStringSubmatch(p.kubectl(t, "", "get", "--raw", "/metrics"), -1) {
			counts[match[1]] = match[2]
		}
		return counts
	}
	load := creates.Kind{Namespace: "default", Instancetype: "u1.small", Preference: "linux", Strategy: v1.RunStrategyHalted}
	right := kinds()[1]
	for why, vm := range map[string]any{"the VM of the load": load.VM("usual"), "the right one of these tests": right.object(t, right.right)} {
		text, err := json.Marshal(vm)
		if err != nil {
			t.Fatal(err)
		}
		before := leftOut()
		p.kubectl(t, string(text), "create", "--dry-run=server", "-f", "-")
		after := leftOut()
		for _, policy := range []string{"kiln-virtualmachineinstances", "kiln-disks", "kiln-networks", "kiln-virtualmachines"} {
			if after[policy] == before[policy] {
				t.Errorf("%s: policy '%s' judges it", why, policy)
			}
		}
	}
}

var leftOutCount = regexp.MustCompile(
	`apiserver_admission_match_condition_evaluation_seconds_count[{]kind="policy",name="([a-z-]+)",operation="CREATE",type="validate"[}] ([0-9]+)`)
