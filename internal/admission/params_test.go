package admission

import (
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// TestPolicyWithParams: the schema of the paramKind gives params types when the policy is written, and a kind that the cluster does not serve is a warning.
func TestPolicyWithParams(t *testing.T) {
	t.Parallel()
	const text = `{"type": "object", "properties": {"spec": {"type": "object", "properties": {"cores": {"type": "integer"}}}}}`
	var limits spec.Schema
	if err := limits.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		why, expression string
		schema          *spec.Schema
		err             error
		refusal         string
		warning         string
	}{
		{"a field of the schema", "params.spec.cores > 1", &limits, nil, "", ""},
		{"another field", "params.spec.coers > 1", &limits, nil, "undefined field 'coers'", ""},
		{"a kind that is not served", "params.spec.coers > 1", nil, nil, "", "the cluster does not serve kind Limits of example.org/v1"},
		{"a schema that cannot be read", "params.spec.cores > 1", nil, errors.New("no answer"), "no answer", ""},
	} {
		server := &Server{ParamSchema: func(v1alpha1.GuestPolicyParamKind) (*spec.Schema, error) { return test.schema, test.err }}
		raw := `{"metadata": {"name": "p"}, "spec": {"paramKind": {"apiVersion": "example.org/v1", "kind": "Limits"},
			"paramRef": {"name": "a", "parameterNotFoundAction": "Deny"}, "validations": [{"expression": "` + test.expression + `"}]}}`
		given, err := server.validatePolicy(t.Context(), &admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(raw)}})
		if (err == nil) != (test.refusal == "") || err != nil && !strings.Contains(err.Error(), test.refusal) {
			t.Errorf("%s: %v, want '%s'", test.why, err, test.refusal)
		}
		if got := strings.Join(given.warnings, "\n"); (got == "") != (test.warning == "") || !strings.Contains(got, test.warning) {
			t.Errorf("%s: warns %s, want '%s'", test.why, got, test.warning)
		}
	}
}
