package clusterconfig

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, test := range []struct{ name, why, text, failed string }{
		{name: "object", why: "what kubectl get kubevirt -o yaml prints",
			text: "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nspec: {configuration: {cpuModel: Nehalem}}"},
		{name: "section", why: "as it stands in the object", text: "configuration: {cpuModel: Nehalem}"},
		{name: "bare", why: "the configuration itself", text: "cpuModel: Nehalem"},
		{name: "misspelt", why: "a setting that has no effect is a trap", text: "cpuModle: Nehalem", failed: "cpuModle"},
		{name: "wrong value", why: "errors name the path", text: "evictionStrategy: Maybe", failed: "spec.configuration.evictionStrategy"},
		{name: "another kind", why: "the wrong file", text: "kind: VirtualMachine", failed: "VirtualMachine"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster, _, err := Parse([]byte(test.text))
			if test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) {
					t.Errorf("%s: %v, want '%s'", test.why, err, test.failed)
				}
				return
			}
			if err != nil || cluster.Defaults.CPUModel != "Nehalem" {
				t.Errorf("%s: model '%s', %v", test.why, cluster.Defaults.CPUModel, err)
			}
		})
	}
}
