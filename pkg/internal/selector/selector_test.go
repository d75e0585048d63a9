package selector

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestCompatible(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"{}", "{matchLabels: {os: linux}}", true},
		{"{matchLabels: {os: linux}}", "{matchLabels: {tier: db}}", true},
		{"{matchLabels: {os: linux}}", "{matchLabels: {os: windows}}", false},
		{"{matchLabels: {os: linux}}", "{matchExpressions: [{key: os, operator: NotIn, values: [linux]}]}", false},
		{"{matchLabels: {os: linux}}", "{matchExpressions: [{key: os, operator: DoesNotExist}]}", false},
		{"{matchExpressions: [{key: os, operator: In, values: [a, b]}]}", "{matchExpressions: [{key: os, operator: In, values: [b, c]}]}", true},
		{"{matchExpressions: [{key: os, operator: NotIn, values: [a]}]}", "{matchExpressions: [{key: os, operator: DoesNotExist}]}", true},
		{"{}", "{matchExpressions: [{key: os, operator: Exists}, {key: os, operator: DoesNotExist}]}", false},
	} {
		a, b := Of(parsed(t, test.a)), Of(parsed(t, test.b))
		if a.Compatible(b) != test.want || b.Compatible(a) != test.want {
			t.Errorf("%s and %s: %t and %t, want %t", test.a, test.b, a.Compatible(b), b.Compatible(a), test.want)
		}
	}
}

func parsed(t *testing.T, text string) *metav1.LabelSelector {
	t.Helper()
	given := &metav1.LabelSelector{}
	if err := yaml.UnmarshalStrict([]byte(text), given); err != nil {
		t.Fatal(err)
	}
	return given
}
