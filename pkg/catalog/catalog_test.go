package catalog

import (
	"os"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/test/samples"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// objects reads documents. One without a kind is an instancetype of the cluster, one with 'kind: p' a preference of it.
func objects(t testing.TB, documents ...string) (all []*Object) {
	t.Helper()
	for _, document := range documents {
		var head struct {
			Kind     string            `json:"kind"`
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatal(err)
		}
		o := &Object{Kind: head.Kind, ObjectMeta: head.Metadata}
		switch head.Kind {
		case "":
			o.Kind = instancetype.Kinds.Cluster
		case "p":
			o.Kind = instancetype.PreferenceKinds.Cluster
		}
		if o.Kind == instancetype.Kinds.Cluster || o.Kind == instancetype.Kinds.Namespaced {
			o.Instancetype = specOf[v1beta1.VirtualMachineInstancetypeSpec](t, document)
		} else {
			o.Preference = specOf[v1beta1.VirtualMachinePreferenceSpec](t, document)
		}
		all = append(all, o)
	}
	return all
}

func specOf[T any](t testing.TB, document string) *T {
	t.Helper()
	var object struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       T              `json:"spec"`
	}
	if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return &object.Spec
}

// whole is a catalog of a set of samples.
func whole(t testing.TB, set samples.Set) []*Object {
	t.Helper()
	var documents []string
	for _, file := range []string{"cluster-instancetypes.yaml", "cluster-preferences.yaml"} {
		raw, err := os.ReadFile(set.Path("catalog", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(raw), "\n---\n") {
			if strings.TrimSpace(document) != "" {
				documents = append(documents, document)
			}
		}
	}
	return objects(t, documents...)
}

// TestContent: two specs are one if they mean the same.
func TestContent(t *testing.T) {
	for _, test := range []struct {
		why  string
		a, b string
		same bool
	}{
		{"one amount in two forms", "spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}", "spec: {cpu: {guest: 1}, memory: {guest: 1024Mi}}", true},
		{"a ceiling in two forms", "spec: {cpu: {guest: 1}, memory: {guest: 1Gi, maxGuest: 2Gi}}",
			"spec: {cpu: {guest: 1}, memory: {guest: 1Gi, maxGuest: 2048Mi}}", true},
		{"requirements in two forms", "{kind: p, spec: {requirements: {memory: {guest: 1.5Gi}}}}",
			"{kind: p, spec: {requirements: {memory: {guest: 1536Mi}}}}", true},
		{"metadata does not count", "{metadata: {name: a}, spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}}", "spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}", true},
		{"a byte more", "spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}", "spec: {cpu: {guest: 1}, memory: {guest: 1073741825}}", false},
		{"an empty object is a value", "spec: {cpu: {guest: 1, realtime: {}}, memory: {guest: 1Gi}}", "spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}", false},
		{"false is a value", "{kind: p, spec: {devices: {preferredDisableHotplug: false}}}", "{kind: p, spec: {devices: {}}}", false},
	} {
		both := objects(t, test.a, test.b)
		if same := both[0].specContent() == both[1].specContent(); same != test.same {
			t.Errorf("%s: same is %t\n%s\n%s", test.why, same, both[0].specContent(), both[1].specContent())
		}
	}
}

// TestFits: the short question has the answer of the engine, for every pair of a catalog.
func TestFits(t *testing.T) {
	for _, set := range samples.Sets(t) {
		instancetypes, preferences := splitByKind(whole(t, set))
		engine := trials{cluster: config.Default()}
		refused := 0
		for _, i := range instancetypes {
			for _, p := range preferences {
				m := trialVM{Set: Pair(i, p), architecture: architecturesOf(p)[0]}
				_, errs := engine.bootVM(m, nil)
				short := false
				for _, err := range errs {
					short = short || err.Field == "spec.instancetype" && strings.Contains(err.Detail, "requires") || strings.Contains(err.Detail, "spreads vCPUs")
				}
				if fits := instancetype.Fits(m.Set); fits == short {
					t.Fatalf("%s with %s: fits is %t, and the engine says %v", i.Name, p.Name, fits, errs)
				}
				if short {
					refused++
				}
			}
		}
		if refused == 0 {
			t.Errorf("%s: every instancetype meets every preference, so that nothing is compared", set.Name)
		}
	}
}
