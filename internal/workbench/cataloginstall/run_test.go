package cataloginstall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// errKilled ends a run in the place of a signal.
var errKilled = errors.New("killed")

// mortal is a cluster that answers no write after some number of them.
type mortal struct {
	client.Client
	// left is how many writes are answered; negative for all.
	left int
}

func newMortal(t *testing.T, objects ...client.Object) *mortal {
	t.Helper()
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{left: -1}
	write := func(do func() error) error {
		if m.left == 0 {
			return errKilled
		}
		m.left--
		return do()
	}
	base := fake.NewClientBuilder().WithScheme(known).WithReturnManagedFields().WithObjects(objects...).Build()
	m.Client = interceptor.NewClient(base, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			return write(func() error { return c.Apply(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, object, options...) })
		},
	})
	return m
}

// install runs an installation of documents, and returns what it did.
func (m *mortal) install(t *testing.T, i Installation, documents ...string) (lines []string, err error) {
	t.Helper()
	s := m.state(t)
	p := i.Plan(catalogOf(t, documents...), s)
	if len(p.Conflicts) > 0 {
		t.Fatal(p.Conflicts)
	}
	done := Plan{}
	err = p.Run(t.Context(), m, func(a Action) { done.Actions = append(done.Actions, a) })
	return planLines(done), err
}

func (m *mortal) state(t *testing.T) State {
	t.Helper()
	s, err := ReadState(t.Context(), m, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// summary is what the cluster has: name, memory, lifecycle and version of each instancetype.
func (m *mortal) summary(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for key, object := range m.state(t).Objects {
		spec, _ := object.Object["spec"].(map[string]any)
		memory, _ := spec["memory"].(map[string]any)
		all[key.Name] = strings.TrimSpace(fmt.Sprint(memory["guest"], " ", object.GetAnnotations()["kilnvm.io/catalog-version"], " ",
			object.GetLabels()["kilnvm.io/lifecycle"]))
	}
	return all
}

// TestInstallationIsKilled: two versions are installed while each write in turn is the last one of the process. Whatever is left, the next run
// brings the same state as one that nothing disturbed, and no object is removed before the new ones are there.
func TestInstallationIsKilled(t *testing.T) {
	before := []string{sized("kept", "1Gi"), sized("changed", "1Gi"), sized("used", "1Gi"), sized("unused", "1Gi")}
	after := []string{sized("kept", "1Gi"), sized("changed", "2Gi"), sized("new", "1Gi"), sized("newer", "1Gi")}
	web := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "other"}}
	web.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "used"}
	want := map[string]string{
		"kept": "1Gi 1.1.0@sha256:2", "changed": "2Gi 1.1.0@sha256:2", "new": "1Gi 1.1.0@sha256:2", "newer": "1Gi 1.1.0@sha256:2",
		"used": "1Gi 1.0.0@sha256:1 obsolete",
	}
	for writes := range 7 { // 4 applied, 1 made obsolete, 1 deleted
		m := newMortal(t, web)
		if _, err := m.install(t, first, before...); err != nil {
			t.Fatal(err)
		}
		m.left = writes
		_, err := m.install(t, second, after...)
		if killed := errors.Is(err, errKilled); killed != (writes < 6) || !killed && err != nil {
			t.Errorf("after %d writes: %v", writes, err)
		}
		m.left = -1
		now := m.summary(t)
		if _, gone := now["unused"]; !gone && writes < 6 && now["newer"] == "" {
			t.Errorf("after %d writes an object is gone before its successors are there: %v", writes, now)
		}
		if _, err := m.install(t, second, after...); err != nil {
			t.Fatalf("the second run after %d writes: %v", writes, err)
		}
		if diff := cmp.Diff(want, m.summary(t)); diff != "" {
			t.Errorf("after %d writes (-want +got)\n%s", writes, diff)
		}
		lines, err := m.install(t, second, after...)
		if diff := cmp.Diff([]string{"unchanged kept", "unchanged changed", "unchanged new", "unchanged newer",
			"unchanged used (is obsolete already) other/web"}, lines); err != nil || diff != "" {
			t.Errorf("the third run has nothing to do: %v\n%s", err, diff)
		}
		if _, err := m.install(t, first, before...); err != nil { // back again: the mark is removed
			t.Fatal(err)
		}
		if got := m.summary(t)["used"]; got != "1Gi 1.0.0@sha256:1" {
			t.Errorf("the version that has the object again leaves it '%s'", got)
		}
	}
}

// TestRemovalOfCatalog: what is used stays until it is not.
func TestRemovalOfCatalog(t *testing.T) {
	web := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "other",
		Annotations: map[string]string{v1.ClusterInstancetypeAnnotation: "used"}}}
	m := newMortal(t, web)
	for _, i := range []Installation{first, {Name: "special"}} {
		if _, err := m.install(t, i, sized("used"+i.Version, "1Gi"), sized("unused"+i.Version, "1Gi")); err != nil {
			t.Fatal(err)
		}
	}
	special := Installation{Name: "special"}
	if err := (Installation{Name: "spezial"}).CheckInstalled(m.state(t)); err == nil || !strings.Contains(err.Error(), "installed are 'general' 'special'") {
		t.Error(err)
	}
	remove := func() []string {
		t.Helper()
		s, done := m.state(t), Plan{}
		if err := special.CheckInstalled(s); err != nil {
			t.Fatal(err)
		}
		if err := special.PlanRemoval(s).Run(t.Context(), m, func(a Action) { done.Actions = append(done.Actions, a) }); err != nil {
			t.Fatal(err)
		}
		return planLines(done)
	}
	if diff := cmp.Diff([]string{"delete unused", "obsolete used other/web"}, remove()); diff != "" {
		t.Error(diff)
	}
	if err := m.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete used"}, remove()); diff != "" {
		t.Error(diff)
	}
	if err := special.CheckInstalled(m.state(t)); err == nil {
		t.Error("the catalog is still known")
	}
	want := map[string]string{"used1.0.0": "1Gi 1.0.0@sha256:1", "unused1.0.0": "1Gi 1.0.0@sha256:1"}
	if diff := cmp.Diff(want, m.summary(t)); diff != "" {
		t.Errorf("the other catalog (-want +got)\n%s", diff)
	}
}

// TestUserBetweenPlanAndRemoval: a VM that comes after the plan keeps its instancetype.
func TestUserBetweenPlanAndRemoval(t *testing.T) {
	m := newMortal(t)
	if _, err := m.install(t, first, sized("small", "1Gi")); err != nil {
		t.Fatal(err)
	}
	p := first.PlanRemoval(m.state(t))
	web := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "other"}}
	web.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	if err := m.Create(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	done := Plan{}
	err := p.Run(t.Context(), m, func(a Action) { done.Actions = append(done.Actions, a) })
	if diff := cmp.Diff([]string{"obsolete small other/web"}, planLines(done)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
