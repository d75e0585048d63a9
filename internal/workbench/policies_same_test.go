package workbench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// labelledNamespace is the namespace of the corpus as the example policies select it.
const labelledNamespace = "{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {example.org/instancetypes: u1, example.org/team: shop}}}\n"

// TestSamePolicyAnswerAsTheWebhook: for every VM and VMI of the corpus and of the examples, and all example policies at once, what 'validate' says is
// what the webhook's handlers say: each violated policy with its message, and every other cause.
func TestSamePolicyAnswerAsTheWebhook(t *testing.T) {
	t.Parallel()
	namespace := filepath.Join(t.TempDir(), "namespace.yaml")
	if err := os.WriteFile(namespace, []byte(labelledNamespace), 0o600); err != nil {
		t.Fatal(err)
	}
	policies := examplePolicies(t)
	compared, refused := 0, 0
	for _, file := range slices.Concat(corpusFiles(t), exampleFiles(t)) {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			all, refusedHere := sameVerdict(t, &Bench{policies: policies}, file, namespace)
			compared, refused = compared+all, refused+refusedHere
		})
	}
	t.Logf("%d objects compared, %d of them refused", compared, refused)
	if compared < 100 || refused < 50 {
		t.Errorf("%d objects compared, %d of them refused: the test looks at the wrong folders", compared, refused)
	}
}

// TestExamplePoliciesOnTheCorpus: no example policy fails on an object that Kiln admits, and each has an object of the corpus to refuse and one to admit:
// the test above has compared both answers.
func TestExamplePoliciesOnTheCorpus(t *testing.T) {
	t.Parallel()
	namespace := filepath.Join(t.TempDir(), "namespace.yaml")
	if err := os.WriteFile(namespace, []byte(labelledNamespace), 0o600); err != nil {
		t.Fatal(err)
	}
	policies := examplePolicies(t)
	violated, judged := map[string]int{}, 0
	for _, file := range corpusFiles(t) {
		files := manifest.Files{Names: []string{file}, Catalog: []string{namespace}}
		if cluster := filepath.Join(filepath.Dir(file), "cluster.yaml"); exists(cluster) {
			files.Catalog = append(files.Catalog, cluster)
		}
		in, err := manifest.Load(files)
		if err != nil {
			t.Fatal(err)
		}
		all, err := (&Bench{policies: policies}).Review(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all.Objects {
			if len(r.Mistakes) > 0 || r.Guest == nil {
				continue
			}
			judged++
			refused := slices.ContainsFunc(r.Verdict.Errors, func(e *field.Error) bool { return e.Origin != policy.RuleDenied && e.Origin != policy.RuleFailed })
			for _, e := range r.Verdict.Errors {
				if e.Origin == policy.RuleFailed && !refused {
					t.Errorf("%s: %s", file, e)
				}
			}
			for name := range violatedBy(r) {
				violated[name]++
			}
		}
	}
	t.Logf("%d objects judged, of which violate: %v", judged, violated)
	for _, p := range *policies {
		if n := violated[p.Name]; n == 0 || n == judged {
			t.Errorf("policy '%s' is violated by %d of %d objects: want one that it refuses, and one that it admits", p.Name, n, judged)
		}
	}
}

// examplePolicies are compiled once for all objects. Those with params are left out: the corpus has no params.
func examplePolicies(t *testing.T) *[]*policy.Policy {
	t.Helper()
	all, err := (&Bench{Policies: []string{"../../examples/policies"}}).policyFiles(t.Context(), manifest.Inputs{Reader: objects.New(nil)})
	all = slices.DeleteFunc(all, func(p *policy.Policy) bool {
		kind, _ := p.Params()
		return kind != nil
	})
	if err != nil || len(all) != 8 {
		t.Fatalf("%d policies: %v", len(all), err)
	}
	return &all
}

// violatedBy returns the names of the policies that an object violates.
func violatedBy(r Reviewed) map[string]bool {
	names := map[string]bool{}
	for _, v := range r.Policies.Violations {
		names[v.Policy] = true
	}
	return names
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
