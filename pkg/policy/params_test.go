package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// limits is the schema of kind Limits, as a CustomResourceDefinition has it.
const limits = `{type: object, properties: {apiVersion: {type: string}, kind: {type: string}, metadata: {type: object},
  spec: {type: object, properties: {
    cores: {type: integer}, ratio: {type: number}, until: {type: string, format: date-time}, any: {x-kubernetes-int-or-string: true},
    classes: {type: array, maxItems: 16, items: {type: string, maxLength: 63}}, teams: {type: object, additionalProperties: {type: integer}},
    free: {type: object, x-kubernetes-preserve-unknown-fields: true}, odd: {type: object, properties: {a-b: {type: integer}}}}}}}`

// schemaOf reads a schema.
func schemaOf(t testing.TB, text string) *spec.Schema {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	read := &spec.Schema{}
	if err == nil {
		err = read.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// object reads an untyped object.
func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	read := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = read.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// returning is a source of these params, or of an error.
func returning(err error, all ...*unstructured.Unstructured) policy.ParamSource {
	return func(v1alpha1.GuestPolicyParamKind, v1alpha1.GuestPolicyParamRef, string) ([]*unstructured.Unstructured, error) {
		return all, err
	}
}

const (
	ofLimits     = "paramKind: {apiVersion: example.org/v1, kind: Limits}, paramRef: {name: limits, parameterNotFoundAction: Deny}"
	ofConfigMaps = "paramKind: {apiVersion: v1, kind: ConfigMap}, paramRef: {selector: {}, parameterNotFoundAction: Allow}"
)

// TestParamsAreTyped: a field that the schema does not have, and a wrong type, are errors when the policy is written. What has no schema has no types.
func TestParamsAreTyped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ of, expression, mistake string }{
		{ofLimits, "guest.spec.domain.cpu.cores <= params.spec.cores", ""},
		{ofLimits, "params.spec.coers > 1", "undefined field 'coers'"},
		{ofLimits, "params.spec.cores == 'many'", "no matching overload"},
		{ofLimits, "params.spec.until == '2026-01-01T00:00:00Z' && timestamp(params.spec.until) < timestamp('2027-01-01T00:00:00Z')", ""},
		{ofLimits, "params.spec.classes.exists(c, c == 'gold') && params.spec.teams['web'] == 1 && params.spec.teams.all(k, k != '')", ""},
		{ofLimits, "params.spec.classes[0] == 1", "no matching overload"},
		{ofLimits, "params.spec.free.anything == 1 && params.spec.odd['a-b'] == 1 && params.spec.any == 'x' && params.spec.ratio > 1", ""},
		{ofLimits, "params.metadata.labels['tier'] == 'gold' && params.metadata.namespace == 'shop' && params.kind == 'Limits'", ""},
		{ofLimits, "params.metadata.lables['tier'] == 'gold'", "undefined field 'lables'"},
		{ofConfigMaps, "params.data['cores'] == '4'", ""},
		{ofConfigMaps, "params.spec.cores == 4", "undefined field 'spec'"},
		{"paramKind: {apiVersion: example.org/v1, kind: Other}, paramRef: {name: a, parameterNotFoundAction: Allow}", "params.spec.anything == 4", ""},
		{"failurePolicy: Fail", "params == null", "undeclared reference to 'params'"},
	} {
		written := read(t, "p", fmt.Sprintf("{%s, validations: [{expression: %q}]}", test.of, test.expression))
		var schema *spec.Schema
		if test.of == ofLimits {
			schema = schemaOf(t, limits)
		}
		_, errs := policy.CompileTyped(written, schema)
		if text := fmt.Sprint(errs); test.mistake == "" && len(errs) > 0 || !strings.Contains(text, test.mistake) {
			t.Errorf("%s: %s, want '%s'", test.expression, text, test.mistake)
		}
	}
}

// TestParamForm: paramKind and paramRef have the rules of a ValidatingAdmissionPolicy, and a Secret is no param.
func TestParamForm(t *testing.T) {
	t.Parallel()
	const kind = "paramKind: {apiVersion: v1, kind: ConfigMap}, "
	for _, test := range [][2]string{
		{kind + "paramRef: {name: a, parameterNotFoundAction: Allow}", ""},
		{"paramKind: {apiVersion: v1, kind: Secret}, paramRef: {name: a, parameterNotFoundAction: Allow}", "a Secret is no param"},
		{"paramKind: {apiVersion: a/b/c, kind: A}, paramRef: {name: a, parameterNotFoundAction: Allow}", "must be GROUP/VERSION"},
		{"paramRef: {name: a, parameterNotFoundAction: Allow}", "spec.paramKind: Required value"},
		{"paramKind: {apiVersion: v1, kind: ConfigMap}", "spec.paramRef: Required value"},
		{kind + "paramRef: {name: a, selector: {}, parameterNotFoundAction: Allow}", "one of name and selector"},
		{kind + "paramRef: {parameterNotFoundAction: Allow}", "one of name and selector"},
		{kind + "paramRef: {name: a}", "spec.paramRef.parameterNotFoundAction: Unsupported"},
		{kind + "paramRef: {selector: {matchExpressions: [{key: a, operator: X}]}, parameterNotFoundAction: Allow}", "spec.paramRef.selector"},
	} {
		of, mistake := test[0], test[1]
		_, errs := policy.Compile(read(t, "p", "{"+of+", validations: [{expression: 'true'}]}"))
		if text := fmt.Sprint(errs); (mistake == "") != (len(errs) == 0) || !strings.Contains(text, mistake) {
			t.Errorf("%s: %s, want '%s'", of, text, mistake)
		}
	}
}

// TestJudgeWithParams: the policy is evaluated once for each param, names the one that it is violated by, and fails or does not judge if no param exists.
func TestJudgeWithParams(t *testing.T) {
	t.Parallel()
	of := func(name, cores string) *unstructured.Unstructured {
		return object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+", namespace: shop}, data: {cores: '"+cores+"'}}")
	}
	const rest = `, matchConditions: [{name: applies, expression: "params.data.?cores.orValue('') != 'none'"}],
	  variables: [{name: most, expression: "int(params.data['cores'])"}],
	  validations: [{expression: 'guest.spec.domain.cpu.cores <= variables.most', messageExpression: '"at most " + params.data["cores"]'}],
	  auditAnnotations: [{key: most, valueExpression: 'params.data["cores"]'}]}`
	required := strings.Replace(ofConfigMaps, "Allow", "Deny", 1)
	for _, test := range []struct {
		why, spec string
		source    policy.ParamSource
		errors    []string
		selected  int
		audit     string
	}{
		{"one that allows", ofConfigMaps, returning(nil, of("a", "2")), nil, 1, "2"},
		{"one that refuses", ofConfigMaps, returning(nil, of("a", "1")), []string{"GuestPolicy 'p' with ConfigMap shop/a: at most 1"}, 1, "1"},
		{"two of three refuse", ofConfigMaps, returning(nil, of("a", "1"), of("b", "0"), of("c", "2")),
			[]string{"with ConfigMap shop/a: at most 1", "with ConfigMap shop/b: at most 0"}, 1, "1, 0, 2"},
		{"one for which a condition is false", ofConfigMaps, returning(nil, of("a", "none")), nil, 0, ""},
		{"one that the expressions cannot read", ofConfigMaps, returning(nil, of("a", "many")),
			[]string{"GuestPolicy 'p' with ConfigMap shop/a failed: spec.validations[0].expression"}, 1, "many"},
		{"none, and Allow", ofConfigMaps, returning(nil), nil, 0, ""},
		{"none, and Deny", required, returning(nil), []string{"GuestPolicy 'p' failed: spec.paramRef: there is no "}, 1, ""},
		{"none, Deny and Ignore", required + ", failurePolicy: Ignore", returning(nil), nil, 1, ""},
		{"unreadable ones", ofConfigMaps, returning(errors.New("forbidden")), []string{"GuestPolicy 'p' failed: spec.paramRef: forbidden"}, 1, ""},
		{"no source", ofConfigMaps, nil, []string{"cannot be read here"}, 1, ""},
		{"too many", ofConfigMaps, returning(nil, make([]*unstructured.Unstructured, 65)...), []string{"it selects 65 objects, at most 64"}, 1, ""},
	} {
		request := small()
		request.Params = test.source
		result := policy.Judge(nil, []*policy.Policy{compile(t, "p", "{"+test.spec+rest)}, request)
		if len(result.Errors) != len(test.errors) || len(result.Selected) != test.selected || result.Audit["p/most"] != test.audit {
			t.Errorf("%s: %v, selected %q, audit %q", test.why, result.Errors, result.Selected, result.Audit)
			continue
		}
		for i, want := range test.errors {
			if !strings.Contains(result.Errors[i].Detail, want) {
				t.Errorf("%s: %s, want '%s'", test.why, result.Errors[i].Detail, want)
			}
		}
	}
	// The source is asked for the namespace of the object.
	request, asked := small(), ""
	request.Params = func(kind v1alpha1.GuestPolicyParamKind, ref v1alpha1.GuestPolicyParamRef, namespace string) ([]*unstructured.Unstructured, error) {
		asked = fmt.Sprint(kind, ref.ParameterNotFoundAction, namespace)
		return nil, nil
	}
	policy.Judge(nil, []*policy.Policy{compile(t, "p", "{"+ofConfigMaps+rest)}, request)
	if want := "{v1 ConfigMap}Allowshop"; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
}

// BenchmarkJudgeWithParams measures 50 policies with params on a VM with two disks, beside the same policies without.
func BenchmarkJudgeWithParams(b *testing.B) {
	param := object(b, "{apiVersion: example.org/v1, kind: Limits, metadata: {name: limits, namespace: shop},\n"+
		"  spec: {cores: 8, classes: [u1, c1], teams: {web: 4}}}")
	schema := schemaOf(b, limits)
	for _, bench := range []struct{ name, params, expression string }{
		{"params", ofLimits + ", ",
			"guest.spec.domain.cpu.cores <= params.spec.cores && params.spec.classes.exists(c, instancetype.metadata.name.startsWith(c + '.'))"},
		{"none", "", "guest.spec.domain.cpu.cores <= 8 && ['u1', 'c1'].exists(c, instancetype.metadata.name.startsWith(c + '.'))"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var all []*policy.Policy
			for i := range 50 {
				written := fmt.Sprintf("{%svalidations: [{expression: %q}]}", bench.params, bench.expression)
				compiled, errs := policy.CompileTyped(read(b, fmt.Sprintf("p%d", i), written), schema)
				if len(errs) > 0 {
					b.Fatal(errs)
				}
				all = append(all, compiled)
			}
			request := small()
			request.Params = returning(nil, param)
			b.ReportAllocs()
			for b.Loop() {
				if result := policy.Judge(nil, all, request); len(result.Errors) > 0 || len(result.Selected) != 50 {
					b.Fatal(result.Errors, result.Selected)
				}
			}
		})
	}
}
