package manifests_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// hostProfiles: the API server refuses the selectors that a launcher could not read, and no others.
func hostProfiles(t *testing.T, p plane) {
	name253, name63 := strings.Repeat("a.", 126)+"a", strings.Repeat("a", 63)
	for _, c := range []struct{ why, selector, field string }{
		{"selects all", "{}", ""},
		{"each operator", "{matchExpressions: [{key: a, operator: In, values: [b, '']}, {key: a, operator: NotIn, values: [b]}, {key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}", ""},
		{"empty values where none belong", "{matchExpressions: [{key: a, operator: Exists, values: []}]}", ""},
		{"the longest names", "{matchLabels: {" + name253 + "/" + name63 + ": " + name63 + "}, matchExpressions: [{key: " + name253 + "/" + name63 + ", operator: In, values: [" + name63 + "]}]}", ""},
		{"an operator that there is not", "{matchExpressions: [{key: a, operator: Like}]}", "matchExpressions[0].operator"},
		{"an operator in lower case", "{matchExpressions: [{key: a, operator: in, values: [b]}]}", "matchExpressions[0].operator"},
		{"In without values", "{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: In}]}", "matchExpressions[1].values"},
		{"NotIn with an empty list", "{matchExpressions: [{key: a, operator: NotIn, values: []}]}", "matchExpressions[0].values"},
		{"Exists with values", "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}", "matchExpressions[0].values"},
		{"DoesNotExist with values", "{matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]}", "matchExpressions[0].values"},
		{"a key with a blank", "{matchExpressions: [{key: a b, operator: Exists}]}", "matchExpressions[0].key"},
		{"no key", "{matchExpressions: [{key: '', operator: Exists}]}", "matchExpressions[0].key"},
		{"a prefix in capitals", "{matchExpressions: [{key: Example.com/a, operator: Exists}]}", "matchExpressions[0].key"},
		{"two prefixes", "{matchExpressions: [{key: a/b/c, operator: Exists}]}", "matchExpressions[0].key"},
		{"a name that is too long", "{matchExpressions: [{key: " + name63 + "a, operator: Exists}]}", "matchExpressions[0].key"},
		{"a prefix that is too long", "{matchExpressions: [{key: " + name253 + "a/b, operator: Exists}]}", "matchExpressions[0].key"},
		{"a value with a blank", "{matchExpressions: [{key: a, operator: In, values: [b, c d]}]}", "matchExpressions[0].values"},
		{"a value that is too long", "{matchExpressions: [{key: a, operator: In, values: [" + name63 + "a]}]}", "matchExpressions[0].values"},
		{"a label's key with a blank", "{matchLabels: {a b: c}}", "matchLabels"},
		{"a label's value that ends wrongly", "{matchLabels: {a: b-}}", "matchLabels"},
		{"a label's value that is too long", "{matchLabels: {a: " + name63 + "a}}", "matchLabels"},
	} {
		for _, selector := range []string{"vmSelector", "nodeSelector"} {
			object := "{apiVersion: kilnvm.io/v1alpha1, kind: HostProfile, metadata: {name: a}, spec: {" + selector + ": " + c.selector + "}}"
			var profile v1alpha1.HostProfile
			if err := yaml.UnmarshalStrict([]byte(object), &profile); err != nil {
				t.Fatal(err)
			}
			mistakes := backend.Unreadable(&profile.Spec, field.NewPath("spec"))
			out, err := p.try("", object, "create", "--dry-run=server", "-f", "-")
			if (err != nil) != (c.field != "") || (len(mistakes) > 0) != (c.field != "") {
				t.Errorf("%s, %s: the API server: %v, %s; a launcher: %v; want it refused: %t", c.why, selector, err, out, mistakes, c.field != "")
			}
			if c.field != "" && !strings.Contains(out, "spec."+selector+"."+c.field) {
				t.Errorf("%s, %s: the API server does not name %s: %s", c.why, selector, c.field, out)
			}
		}
	}
}
