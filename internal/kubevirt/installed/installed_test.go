package installed

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func named[T client.Object](object T, namespace, name string) T {
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func cluster(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), appsv1.AddToScheme(scheme), metav1.AddMetaToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
}

// TestDecide: who makes VMIs, by the flag and by what is installed.
func TestDecide(t *testing.T) {
	object, deployment := named(&v1.KubeVirt{}, "cnv", "kubevirt"), named(&appsv1.Deployment{}, "cnv", "virt-controller")
	elsewhere := named(&appsv1.Deployment{}, "shop", "virt-controller")
	moved, movedDeployment := named(&v1.KubeVirt{}, "virt", "kubevirt"), named(&appsv1.Deployment{}, "virt", "virt-controller")
	for _, test := range []struct {
		why, guests string
		installed   []client.Object
		kubevirt    bool
		refused     string
	}{
		{"nothing", Auto, nil, false, ""},
		{"KubeVirt", Auto, []client.Object{object, deployment}, true, ""},
		{"a configuration alone", Auto, []client.Object{object}, false, ""},
		{"a tenant's Deployment of that name", Auto, []client.Object{object, elsewhere}, false, ""},
		{"Kiln alone", Kiln, []client.Object{object}, false, ""},
		{"two makers", Kiln, []client.Object{object, deployment}, false, "namespace 'cnv' makes VMIs too"},
		{"KubeVirt by the flag", KubeVirt, []client.Object{object, deployment}, true, ""},
		{"KubeVirt that comes later", KubeVirt, nil, true, ""},
		{"an unknown value", "both", nil, false, "--guests is 'both'"},
		{"KubeVirt in a namespace that nobody named", Auto, []client.Object{moved, movedDeployment}, false, "in namespace 'virt', and --kubevirt-namespace is 'cnv'"},
		{"the same, by the flag", KubeVirt, []client.Object{moved, movedDeployment}, false, "in namespace 'virt'"},
	} {
		m := &Makers{Guests: test.guests, Namespace: "cnv", Live: cluster(t, test.installed...).Build()}
		got, err := m.Decide(t.Context())
		if got != test.kubevirt || (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s, --guests=%s: KubeVirt makes VMIs: %t, %v", test.why, test.guests, got, err)
		}
	}
}

// TestLook: a KubeVirt that comes or goes ends the process, unless the flag decides. An API server that does not answer ends nothing.
func TestLook(t *testing.T) {
	object, deployment := named(&v1.KubeVirt{}, "cnv", "kubevirt"), named(&appsv1.Deployment{}, "cnv", "virt-controller")
	var down error
	live := cluster(t, object).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if down != nil {
				return down
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	auto, fixed := &Makers{Guests: Auto, Namespace: "cnv", Live: live}, &Makers{Guests: KubeVirt, Namespace: "cnv", Live: live}
	unknown := &Makers{Guests: KubeVirt, Namespace: "kubevirt", Live: live}
	for _, m := range []*Makers{auto, fixed, unknown} {
		if _, err := m.Decide(t.Context()); err != nil || m.recheck(t.Context()) != nil {
			t.Fatal(err)
		}
	}
	if err := live.Create(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if err := auto.recheck(t.Context()); err == nil || !strings.Contains(err.Error(), "by now, in namespace 'cnv'") {
		t.Errorf("KubeVirt has come: %v", err)
	}
	if err := fixed.recheck(t.Context()); err != nil {
		t.Errorf("KubeVirt has come, as the flag says: %v", err)
	}
	if err := unknown.recheck(t.Context()); err == nil || !strings.Contains(err.Error(), "in namespace 'cnv', and --kubevirt-namespace is 'kubevirt'") {
		t.Errorf("KubeVirt has come, in another namespace than webhooks know: %v", err)
	}
	if kubevirt, err := auto.Decide(t.Context()); !kubevirt || err != nil || auto.recheck(t.Context()) != nil {
		t.Errorf("the next process: %t, %v", kubevirt, err)
	}
	if down = errors.New("down"); auto.recheck(t.Context()) != nil {
		t.Error("an API server that is down ends the process")
	}
	if _, err := auto.Decide(t.Context()); !errors.Is(err, down) {
		t.Errorf("nobody knows who makes VMIs: %v", err)
	}
	down = nil
	if err := live.Delete(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if _, err := auto.Decide(t.Context()); err != nil {
		t.Fatal(err)
	}
	auto.found = "cnv"
	if err := auto.recheck(t.Context()); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("KubeVirt has gone: %v", err)
	}
}

// TestRunsGuests: the flag decides, and with 'auto' what is installed.
func TestRunsGuests(t *testing.T) {
	object, deployment := named(&v1.KubeVirt{}, "cnv", "kubevirt"), named(&appsv1.Deployment{}, "cnv", "virt-controller")
	both, none := cluster(t, object, deployment).Build(), cluster(t).Build()
	for _, test := range []struct {
		guests string
		reader client.Reader
		want   bool
	}{{Auto, both, true}, {Auto, none, false}, {Kiln, both, false}, {KubeVirt, none, true}} {
		if err := CheckGuests(test.guests); err != nil {
			t.Error(err)
		}
		if got, err := RunsGuests(t.Context(), test.guests, test.reader); got != test.want || err != nil {
			t.Errorf("--guests=%s: %t, %v", test.guests, got, err)
		}
	}
	if err := CheckGuests("both"); err == nil {
		t.Error("a word that is no value is known")
	}
}
