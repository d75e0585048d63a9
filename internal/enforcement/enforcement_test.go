package enforcement

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestIn: the label goes before the flag, and a value that does not exist does not.
func TestIn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ general, label, want, wrong string }{
		{Enforce, "", Enforce, ""}, {Warn, "", Warn, ""},
		{Warn, "enabled", Enforce, ""}, {Enforce, "enabled", Enforce, ""},
		{Warn, "warn", Warn, ""}, {Enforce, "warn", Warn, ""},
		{Enforce, "disabled", Warn, ""},
		{Enforce, "Warn", Enforce, "'Warn'"}, {Warn, "Warn", Warn, "'Warn'"}, {Warn, "true", Warn, "'true'"},
	} {
		namespace := &metav1.ObjectMeta{Name: "a"}
		if test.label != "" {
			namespace.Labels = map[string]string{"kilnvm.io/admission": test.label}
		}
		if got, wrong := In(namespace, test.general); got != test.want || wrong != test.wrong {
			t.Errorf("%s, '%s': %s, %s", test.general, test.label, got, wrong)
		}
		refuses, err := metav1.LabelSelectorAsSelector(RefusingNamespaces(test.general))
		if err != nil || refuses.Matches(labels.Set(namespace.Labels)) != (test.want == Enforce) {
			t.Errorf("%s, '%s': %s selects %v", test.general, test.label, refuses, namespace.Labels)
		}
	}
	if got, wrong := In(&metav1.ObjectMeta{Labels: map[string]string{"kilnvm.io/admission": ""}}, Warn); got != Warn || wrong != "''" {
		t.Errorf("an empty value: %s, %s", got, wrong)
	}
	for value, fine := range map[string]bool{Enforce: true, Warn: true, "warn": false, "": false} {
		if err := CheckValue(value); (err == nil) != fine {
			t.Errorf("'%s': %v", value, err)
		}
	}
}

// TestJudges: which namespaces are judged, by selection and label. Namespaces of the system are not, whatever their label is.
func TestJudges(t *testing.T) {
	t.Parallel()
	for selection, want := range map[string]map[string]bool{
		OptOut: {"": true, "enabled": true, "warn": true, "disabled": false, "no": true},
		OptIn:  {"": false, "enabled": true, "warn": true, "disabled": false, "no": false},
	} {
		n := Namespaces{Selection: selection, Kiln: "kiln-7", KubeVirt: "virt"}
		if err := n.Validate(); err != nil {
			t.Error(err)
		}
		for label, judged := range want {
			for name, system := range map[string]bool{"team": false, "kiln-system": false, "kube-system": true, "kube-public": true, "kube-node-lease": true,
				"kiln-7": true, "virt": true} {
				namespace := &metav1.ObjectMeta{Name: name}
				if label != "" {
					namespace.Labels = map[string]string{"kilnvm.io/admission": label}
				}
				if got := n.Judges(namespace); got != (judged && !system) {
					t.Errorf("%s: '%s' with '%s' is judged: %v", selection, name, label, got)
				}
			}
		}
	}
	if (Namespaces{Selection: "optIn"}).Validate() == nil {
		t.Error("a selection that does not exist")
	}
}

// TestJudgesNamed: a namespace that the cache lacks is read from the API server, one that is gone is left alone, and an error is no answer.
func TestJudgesNamed(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	empty, full := fake.NewClientBuilder().WithScheme(scheme).Build(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}).Build()
	broken := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no answer")
		},
	}).Build()
	n := Namespaces{Selection: OptOut}
	for _, test := range []struct {
		why          string
		cached, live client.Reader
		name         string
		want, failed bool
	}{
		{"a namespace of the cache", full, broken, "new", true, false},
		{"a new one", empty, full, "new", true, false},
		{"none", empty, full, "gone", false, false},
		{"no answer", empty, broken, "new", false, true},
	} {
		if got, err := n.JudgesNamed(t.Context(), test.cached, test.live, test.name); got != test.want || (err != nil) != test.failed {
			t.Errorf("%s: %v, %v", test.why, got, err)
		}
	}
}
