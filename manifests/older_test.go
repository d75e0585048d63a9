package manifests_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// oldest is the CEL of the oldest API server that docs/reference/support.md names. An API server of 1.34 takes in new objects only what the one before it
// knows, so that it can be rolled back.
var oldest = version.MajorMinor(1, 33)

// authorized are the variables of expressions without parameters.
var authorized = plugin.OptionalVariableDeclarations{HasAuthorizer: true}

// expression is one of a manifest. Those with a name are variables.
type expression struct{ name, text string }

func (e expression) GetExpression() string    { return e.text }
func (e expression) GetName() string          { return e.name }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }
func (e expression) in(where string) string   { return fmt.Sprintf("%s: %.80s", where, e.text) }

// TestExpressionsOfOlderServers: no policy, match condition or rule of a definition needs functions that the oldest API server lacks.
func TestExpressionsOfOlderServers(t *testing.T) {
	counts := map[string]int{}
	for _, object := range written(t) {
		counts[object.GetKind()]++
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy":
			var policy admissionregistrationv1.ValidatingAdmissionPolicy
			convert(t, object, &policy)
			for where, err := range ofPolicy(t, &policy) {
				t.Errorf("%s: %s: %v", object.GetName(), where, err)
			}
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
			for _, hook := range hooks {
				conditions, _, _ := unstructured.NestedSlice(hook.(map[string]any), "matchConditions")
				for _, condition := range conditions {
					text, _ := condition.(map[string]any)["expression"].(string)
					if err := compile(compiler(t), expression{text: text}, authorized); err != nil {
						t.Errorf("%s: %v", object.GetName(), err)
					}
				}
			}
		case "CustomResourceDefinition":
			rules(object.Object, func(rule string) {
				counts["rule"]++
				if _, issues := self(t).Compile(rule); issues.Err() != nil {
					t.Errorf("%s: %s: %v", object.GetName(), rule, issues.Err())
				}
			})
		}
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "rule"} {
		if counts[kind] == 0 {
			t.Errorf("no %s was found, so nothing was shown", kind)
		}
	}
	if err := compile(compiler(t), expression{text: "[[1], [2]].flatten() == [1, 2]"}, authorized); err == nil {
		t.Error("a function of Kubernetes 1.34 is known, so that nothing was shown")
	}
}

// written are all objects of the folders that are installed.
func written(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, dir := range []string{"policies", "webhook", "crds"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" || entry.Name() == "kustomization.yaml" || strings.Contains(path, "patches") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, object := range documents(t, string(text)) {
				if object.Object != nil {
					all = append(all, object)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func convert(t *testing.T, from *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into); err != nil {
		t.Fatal(err)
	}
}

func compiler(t *testing.T) *plugin.CompositedCompiler {
	t.Helper()
	c, err := plugin.NewCompositedCompiler(environment.MustBaseEnvSet(oldest))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// compile compiles an expression; one with a name can be used by the next ones.
func compile(c *plugin.CompositedCompiler, e expression, options plugin.OptionalVariableDeclarations) error {
	result := c.CompileCELExpression(e, options, environment.NewExpressions)
	if e.name != "" && result.Error == nil {
		result = c.CompileAndStoreVariable(e, options, environment.NewExpressions)
	}
	if result.Error != nil {
		return result.Error
	}
	return nil
}

// ofPolicy compiles the expressions of a policy as an API server does, and returns the errors by what they are about.
func ofPolicy(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy) map[string]error {
	t.Helper()
	c, errs, options := compiler(t), map[string]error{}, authorized
	options.HasParams = policy.Spec.ParamKind != nil
	check := func(where string, e expression) {
		if e.text == "" {
			return
		}
		if err := compile(c, e, options); err != nil {
			errs[e.in(where)] = err
		}
	}
	for _, condition := range policy.Spec.MatchConditions {
		check("match condition", expression{text: condition.Expression})
	}
	for _, variable := range policy.Spec.Variables {
		check("variable", expression{name: variable.Name, text: variable.Expression})
	}
	for _, validation := range policy.Spec.Validations {
		check("validation", expression{text: validation.Expression})
		check("message", expression{text: validation.MessageExpression})
	}
	for _, annotation := range policy.Spec.AuditAnnotations {
		check("audit annotation", expression{text: annotation.ValueExpression})
	}
	return errs
}

// self is the environment of rules of definitions, without the types of their schemas.
func self(t *testing.T) *cel.Env {
	t.Helper()
	set, err := environment.MustBaseEnvSet(oldest).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("self", cel.DynType), cel.Variable("oldSelf", cel.DynType)},
	})
	if err != nil {
		t.Fatal(err)
	}
	env, err := set.Env(environment.NewExpressions)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// rules yields the rules of a definition, wherever its schemas have them.
func rules(value any, yield func(string)) {
	switch value := value.(type) {
	case []any:
		for _, part := range value {
			rules(part, yield)
		}
	case map[string]any:
		validations, _ := value["x-kubernetes-validations"].([]any)
		for _, validation := range validations {
			if rule, ok := validation.(map[string]any)["rule"].(string); ok {
				yield(rule)
			}
		}
		for _, part := range value {
			rules(part, yield)
		}
	}
}
