package corpus

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/kilnvm/kiln/test/golden"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rulesDoc is the table of all rules: which there are comes from the code, what they say from the corpus.
const rulesDoc = "../../docs/reference/rules.md"

// judging are the packages besides validate whose errors bear names of rules.
var judging = []string{"../../pkg/admit", "../../pkg/instancetype", "../../pkg/profile", "../../internal/resolve", "../../internal/review"}

// shownElsewhere are rules that files cannot show, with the test that does.
var shownElsewhere = map[string]rule{
	"vm/inference-right": {paths: []string{"spec.instancetype.inferFromVolume", "spec.preference.inferFromVolume"},
		says: "the source of the volume is in a namespace that the user may not read", cases: []string{"internal/admission: TestWhoMayInfer"}},
	"profile/limit":         {paths: []string{"metadata.labels"}, says: "more than 64 profiles count for the VMI", cases: []string{"pkg/profile: TestTooMany"}},
	"profile/object":        {paths: []string{"apiVersion", "kind", "metadata.name"}, says: "not a profile", cases: []string{"pkg/profile: TestCheckObject"}},
	"profile/extends-count": {paths: []string{"spec.extends[].name"}, says: "leads to more than 64 profiles in all", cases: []string{"pkg/profile: TestBounds"}},
	"profile/extends-depth": {paths: []string{"spec.extends[].name"}, says: "leads to more than 16 profiles in a row", cases: []string{"pkg/profile: TestBounds"}},
	"metadata/unknown-field": {paths: []string{"spec.template.metadata", "spec.dataVolumeTemplates[].metadata"},
		says: "a field that no metadata has", cases: []string{"pkg/validate: TestAddedEmbeddedMetadata"}},
	"metadata/type": {paths: []string{"spec.template.metadata", "spec.dataVolumeTemplates[].metadata"},
		says: "a label or annotation that YAML reads as something else than text", cases: []string{"internal/cli: TestWhatAnAPIServerRefusesFirst"}},
	"request/elements": {paths: []string{"*"}, says: "a list or map has more than 512 elements, or dataVolumeTemplates more than 64; nothing else is checked",
		cases: []string{"internal/admission: TestEveryListIsBounded"}},
	"request/parts": {paths: []string{"*"}, says: "an object, or a part of it, has more than 16384 fields and elements; nothing else is checked",
		cases: []string{"internal/admission: TestParts"}},
	"request/quantities": {paths: []string{"*"}, says: "a quantity has more than 100 digits, or an exponent of more than 3; nothing else is checked",
		cases: []string{"internal/admission: TestParts"}},
	"request/depth": {paths: []string{"*"}, says: "objects and lists are nested more than 64 levels deep; nothing else is checked",
		cases: []string{"internal/admission: TestParts"}},
}

// rule is what the corpus shows of one.
type rule struct {
	name  string
	paths []string
	says  string
	// cases whose causes contain it, in order.
	cases            []string
	policies, schema bool
}

// declared are the names of all rules: those that validate lists, and the texts that other errors are marked with.
func declared(t *testing.T) (names []string) {
	t.Helper()
	for _, rule := range validate.Rules() {
		if rule.Until == 0 { // the cases are for the newest KubeVirt; the tables of pkg/validate have the other rules
			names = append(names, rule.Name)
		}
	}
	for _, dir := range judging {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				if method, is := call.Fun.(*ast.SelectorExpr); is && method.Sel.Name == "WithOrigin" {
					literal, is := call.Args[0].(*ast.BasicLit)
					if !is {
						t.Errorf("%s: the name of a rule is no literal, so that it cannot be listed", file)
						return true
					}
					name, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					names = append(names, name)
				}
				return true
			})
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// shown is a case with what it is about and the errors that it leads to.
type shown struct {
	name   string
	object []byte
	errs   field.ErrorList
	warned []string
}

// everything judges all cases of the corpus.
func everything(t *testing.T) (all []shown) {
	t.Helper()
	cases, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		admitted, err := c.Admit(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		all = append(all, shown{c.Name, c.applied, admitted.Verdict.Errors, admitted.Verdict.Warnings})
	}
	requests, err := LoadRequests(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		verdict, err := r.Judge(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		all = append(all, shown{requestsDir + "/" + r.Name, r.Object, verdict.Errors, verdict.Warnings})
	}
	return all
}

// index is a rule by name, from the cases.
func index(t *testing.T, all []shown) map[string]*rule {
	t.Helper()
	schemas, policies, rules := readSchemas(t), readPolicies(t), map[string]*rule{}
	for _, name := range declared(t) {
		r := shownElsewhere[name]
		r.name, r.policies = name, policies[name]
		rules[name] = &r
	}
	for name := range policies {
		if rules[name] == nil {
			t.Errorf("a policy keeps rule '%s', which the engine does not have", name)
		}
	}
	for _, c := range all {
		for _, err := range c.errs {
			r := rules[err.Origin]
			if r == nil {
				t.Errorf("%s: an error without the name of a rule: %v", c.name, err)
				continue
			}
			if !slices.Contains(r.cases, c.name) {
				r.cases = append(r.cases, c.name)
			}
			r.says = cmp.Or(r.says, says(err))
			r.schema = r.schema || schemas.refuses(c.object, err.Field)
			r.paths = append(r.paths, general(err.Field))
		}
	}
	for r := range maps.Values(rules) {
		slices.Sort(r.paths)
		r.paths = slices.Compact(r.paths)
	}
	return rules
}

// says is what an error tells, without the value.
func says(err *field.Error) string {
	if err.Detail != "" && err.Type != field.ErrorTypeDuplicate {
		return err.Detail
	}
	return strings.ToLower(err.Type.String())
}

var (
	position = regexp.MustCompile(`\[\d+\]`)
	key      = regexp.MustCompile(`\[[^\]]+\]`)
)

// general is a path for all positions of a list and for all VMIs.
func general(path string) string {
	path = key.ReplaceAllString(position.ReplaceAllString(path, "[]"), "[key]")
	return strings.TrimPrefix(path, "spec.template.")
}

// TestRules: each rule has a case that it refuses, and the table says so. That cases need the rules is for TestEachJudgeMatters of
// pkg/validate to show.
func TestRules(t *testing.T) {
	rules := index(t, everything(t))
	var text strings.Builder
	text.WriteString(rulesHead)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		if len(r.cases) == 0 {
			t.Errorf("rule '%s' refuses nothing in the corpus: add a case", name)
			continue
		}
		fmt.Fprintf(&text, "| %s | `%s` | %s | %s | %s | %s |\n",
			r.name, strings.Join(r.paths, "`, `"), cell(r.says), r.kept(), validate.KubeVirtOn(r.name), r.cases[0])
	}
	if t.Failed() {
		return
	}
	golden.Compare(t, rulesDoc, text.String())
}

func (r *rule) kept() string {
	by := []string{"engine"}
	if r.policies {
		by = append(by, "policy")
	}
	if r.schema {
		by = append(by, "schema")
	}
	return strings.Join(by, ", ")
}

// cell is a text in a table.
func cell(text string) string {
	const most = 110
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text) // in a table of Markdown
}

const rulesHead = `# Rules

Every rule of validation, in the order of names. 'make golden' writes this file from the code and the corpus.

The *engine* keeps all of them: in the webhook, and in 'kubectl kiln validate'. A *policy* (manifests/policies) and the
*schema* of the kind also hold without the webhook; the policies in manifests/policies/rules are part of the overlay fail-open only. Paths start at a VMI; in
a VM they are below 'spec.template'. *KubeVirt* is what KubeVirt 1.9 does with the objects that the rule refuses: it refuses them, refuses only the VMI when
the VM starts, refuses some, or admits them. The last column is a case in test/corpus that the rule refuses, alone or with others, or a test.

| rule | field | says | kept by | KubeVirt | case |
|---|---|---|---|---|---|
`
