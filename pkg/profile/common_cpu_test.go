package profile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"sigs.k8s.io/yaml"
)

// storedWith returns a stored ClusterGuestProfile by the YAML of its spec and of its status.commonCPU.
func storedWith(t testing.TB, spec, cpu string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte("{apiVersion: kilnvm.io/v1alpha1, kind: ClusterGuestProfile, metadata: {name: shared}, spec: "+spec+
		", status: {selected: 1, commonCPU: "+cpu+"}}"), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func checked(t testing.TB, object map[string]any) (*Profile, string) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	p, errs := Check("", raw)
	if len(errs) > 0 {
		return p, errs.ToAggregate().Error()
	}
	return p, ""
}

// TestWithCommonCPU: the CPU of the status becomes a part of the template, as if the author had written it, and only a legal one.
func TestWithCommonCPU(t *testing.T) {
	t.Parallel()
	const haswell = "{model: Haswell, vendor: Intel, features: [aes, avx2, hle], nodes: 3, limitedBy: [{nodes: 1, names: [a]}]}"
	for _, test := range []struct{ why, spec, cpu, want string }{
		{"alone", "{commonCPU: {}}", haswell, "{template: {spec: {domain: {cpu: {model: Haswell, features: [{name: aes, policy: require}, " +
			"{name: avx2, policy: require}, {name: hle, policy: require}]}}}}}"},
		{"beside other fields", "{selector: {}, commonCPU: {nodeSelector: {}}, template: {spec: {hostname: a, domain: {rng: {}, cpu: {cores: 2, " +
			"features: [{name: hle, policy: disable}, {name: pku}]}}}}}", haswell, "{selector: {}, template: {spec: {hostname: a, domain: {rng: {}, " +
			"cpu: {cores: 2, model: Haswell, features: [{name: hle, policy: disable}, {name: pku}, {name: aes, policy: require}, {name: avx2, policy: require}]}}}}}"},
		{"without features", "{commonCPU: {}}", "{model: Haswell}", "{template: {spec: {domain: {cpu: {model: Haswell}}}}}"},
		{"another profile", "{selector: {}}", haswell, ""},
		{"no CPU yet", "{commonCPU: {}}", "{nodes: 0}", ""},
		{"no status", "{commonCPU: {}}", "null", ""},
		{"a mode", "{commonCPU: {}}", "{model: host-passthrough}", ""},
		{"an illegal feature", "{commonCPU: {}}", "{model: Haswell, features: ['a b']}", ""},
		{"a status of another form", "{commonCPU: {}}", "[1]", ""},
		{"a template of another form", "{commonCPU: {}, template: {spec: [1]}}", haswell, ""},
		{"features of another form", "{commonCPU: {}, template: {spec: {domain: {cpu: {features: {}}}}}}", haswell, ""},
		{"two models", "{commonCPU: {}, template: {spec: {domain: {cpu: {model: EPYC}}}}}", haswell, ""},
	} {
		object, unchanged := storedWith(t, test.spec, test.cpu), storedWith(t, test.spec, test.cpu)
		want := unchanged["spec"]
		if test.want != "" {
			want = storedWith(t, test.want, "null")["spec"]
		}
		if diff := cmp.Diff(want, WithCommonCPU(object)["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
		if diff := cmp.Diff(unchanged, object); diff != "" {
			t.Errorf("%s: the stored profile has changed:\n%s", test.why, diff)
		}
	}
	namespaced := storedWith(t, "{commonCPU: {}}", haswell)
	namespaced["kind"] = "GuestProfile"
	if diff := cmp.Diff(namespaced, WithCommonCPU(namespaced)); diff != "" {
		t.Errorf("a GuestProfile has no such field:\n%s", diff)
	}
	one, two, other := storedWith(t, "{commonCPU: {}}", haswell), storedWith(t, "{commonCPU: {}}", strings.Replace(haswell, "nodes: 3", "nodes: 4", 1)),
		storedWith(t, "{commonCPU: {}}", strings.Replace(haswell, ", hle", "", 1))
	if CommonCPUKey(one) != CommonCPUKey(two) || CommonCPUKey(one) == CommonCPUKey(other) || CommonCPUKey(storedWith(t, "{}", haswell)) != "" {
		t.Error("the key is not about the CPU")
	}
}

// TestCommonCPUIsChecked: mistakes beside spec.commonCPU, and a profile that has no CPU yet: no VMI gets it.
func TestCommonCPUIsChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ spec, want string }{
		{"{commonCPU: {nodeSelector: {matchLabels: {pool: a}}}}", ""},
		{"{commonCPU: {nodeSelector: {matchExpressions: [{key: a, operator: Like}]}}}", "spec.commonCPU.nodeSelector: Forbidden"},
		{"{commonCPU: {nodes: {}}}", "spec.commonCPU.nodes: Forbidden: unknown field"},
		{"{commonCPU: {}, template: {spec: {domain: {cpu: {model: EPYC}}}}}", "spec.commonCPU: Forbidden: fills the CPU model"},
		{"{commonCPU: {}, template: {metadata: {annotations: {a: " + strings.Repeat("x", 33<<10) + "}}}}", "spec: Too long: may not be more than 32768 bytes"},
	} {
		p, got := checked(t, storedWith(t, test.spec, "null"))
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%.80s: %s, want %s", test.spec, got, test.want)
		}
		if p != nil && !p.CommonCPUMissing {
			t.Errorf("%s has a CPU", test.spec)
		}
	}
	var features []string
	for i := range 512 {
		features = append(features, fmt.Sprintf("f%023d", i)) // 12 KiB, as many as nodes can have
	}
	large := "{commonCPU: {}, template: {metadata: {annotations: {a: " + strings.Repeat("x", 31<<10) + "}}}}"
	if p, got := checked(t, WithCommonCPU(storedWith(t, large, "{model: EPYC, features: ["+strings.Join(features, ", ")+"]}"))); got != "" || p.CommonCPUMissing {
		t.Errorf("the largest CPU does not fit: %s", got)
	}
	missing, _ := checked(t, storedWith(t, "{selector: {}, commonCPU: {}}", "null"))
	above := readKind(t, "ClusterGuestProfile", "above", "{selector: {}, extends: [{name: shared}]}")
	for _, selected := range []*Profile{missing, above} {
		_, errs := Closure([]*Profile{selected}, []*Profile{missing, above})
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), "ClusterGuestProfile 'shared' has no CPU yet that its nodes have in common") {
			t.Errorf("%s: %v", selected.Name, errs)
		}
		vmi := vmiOf(t, "{}")
		if errs := Fill([]*Profile{missing, above}, vmi, Observer{}); len(errs) == 0 {
			t.Errorf("%s fills %+v", selected.Name, vmi.Spec)
		}
		if got := Judge(selected, []*Profile{missing, above}, config.Default()).WithoutCPU; len(got) != 1 || got[0] != missing {
			t.Errorf("%s: without a CPU are %v", selected.Name, got)
		}
	}
}

// TestRequiredFeaturesBelongToTheModel: a VMI with another CPU model gets no features that a profile requires beside its own model, but those that it disables.
func TestRequiredFeaturesBelongToTheModel(t *testing.T) {
	t.Parallel()
	both := read(t, "both", `{selector: {}, template: {spec: {domain: {cpu: {model: Haswell, features: [{name: aes, policy: require}, {name: avx2},
		{name: hle, policy: disable}, {name: rtm, policy: forbid}]}}}}}`)
	plain := read(t, "plain", `{selector: {}, priority: -1, template: {spec: {domain: {cpu: {features: [{name: pku, policy: require}]}}}}}`)
	base := read(t, "base", `{template: {spec: {domain: {cpu: {model: Haswell, features: [{name: aes, policy: require}]}}}}}`)
	child := read(t, "child", `{selector: {}, extends: [{name: base}], template: {spec: {domain: {cpu: {model: Penryn}}}}}`)
	for _, test := range []struct {
		why, vmi, want string
		all            []*Profile
	}{
		{"no model", "{}", "{model: Haswell, features: [{name: aes, policy: require}, {name: avx2}, {name: hle, policy: disable}, {name: rtm, policy: forbid}, " +
			"{name: pku, policy: require}]}", []*Profile{both, plain}},
		{"the same model", "{spec: {domain: {cpu: {model: Haswell}}}}", "{model: Haswell, features: [{name: aes, policy: require}, {name: avx2}, " +
			"{name: hle, policy: disable}, {name: rtm, policy: forbid}]}", []*Profile{both}},
		{"another model", "{spec: {domain: {cpu: {model: Penryn}}}}", "{model: Penryn, features: [{name: hle, policy: disable}, {name: rtm, policy: forbid}, " +
			"{name: pku, policy: require}]}", []*Profile{both, plain}},
		{"another model with a feature", "{spec: {domain: {cpu: {model: host-model, features: [{name: aes}]}}}}", "{model: host-model, features: [{name: aes}, " +
			"{name: hle, policy: disable}, {name: rtm, policy: forbid}]}", []*Profile{both}},
		{"a profile with another model than its base", "{}", "{model: Penryn}", []*Profile{child, base}},
	} {
		vmi := vmiOf(t, test.vmi)
		if errs := Fill(test.all, vmi, Observer{}); len(errs) > 0 {
			t.Fatal(errs)
		}
		if diff := cmp.Diff(vmiOf(t, "{spec: {domain: {cpu: "+test.want+"}}}").Spec.Domain.CPU, vmi.Spec.Domain.CPU); diff != "" {
			t.Errorf("%s (-want +VMI):\n%s", test.why, diff)
		}
	}
}
