package cataloginstall

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// first and second are two versions of one catalog.
var (
	first  = Installation{Name: "general", Version: "1.0.0", Digest: "sha256:1", Source: "oci://example.org/general"}
	second = Installation{Name: "general", Version: "1.1.0", Digest: "sha256:2", Source: "oci://example.org/general"}
)

// sized is a cluster instancetype.
func sized(name, memory string, labels ...string) string {
	text := "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata:\n  name: " + name + "\n"
	if len(labels) > 0 {
		text += "  labels: {" + strings.Join(labels, ", ") + "}\n"
	}
	return text + "spec: {cpu: {guest: 1}, memory: {guest: " + memory + "}}\n"
}

// catalogOf reads documents as a catalog for namespace 'shop'.
func catalogOf(t *testing.T, documents ...string) catalogs.Catalog {
	t.Helper()
	c, err := catalogs.Parse("test", "shop", []manifest.File{{Name: "all.yaml", Content: []byte(strings.Join(documents, "---\n"))}})
	if err != nil || len(c.Refused) > 0 {
		t.Fatal(err, c.Refused)
	}
	return c
}

func keyFor(name string) catalog.Key {
	return catalog.Key{Kind: "VirtualMachineClusterInstancetype", Name: name}
}

// installed returns the state after the installation of a catalog, as an API server would have it. Changes are made to each object.
func installed(i Installation, c catalogs.Catalog, changes ...func(*unstructured.Unstructured)) State {
	s := State{Namespace: "shop", Objects: map[catalog.Key]*unstructured.Unstructured{}}
	for n := range c.Objects {
		live := i.wantedObject(c.AuthoredObject(n))
		live.SetResourceVersion("7")
		var fields []string
		for part, all := range map[string]map[string]string{"labels": live.GetLabels(), "annotations": live.GetAnnotations()} {
			names := []string{`".":{}`}
			for key := range all {
				names = append(names, fmt.Sprintf("%q:{}", "f:"+key))
			}
			fields = append(fields, fmt.Sprintf("%q:{%s}", "f:"+part, strings.Join(names, ",")))
		}
		live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{` + strings.Join(fields, ",") + `},"f:spec":{}}`)}})
		for _, change := range changes {
			change(live)
		}
		s.Objects[objectKey(live)] = live
	}
	return s
}

// planLines returns a plan as lines of text.
func planLines(p Plan) (lines []string) {
	for _, a := range p.Actions {
		line := fmt.Sprintf("%s %s", a.Change, a.Name)
		if a.Reason != "" {
			line += " (" + a.Reason + ")"
		}
		for _, user := range append(a.VMs, a.VMIs...) {
			line += " " + user
		}
		lines = append(lines, line)
	}
	for _, c := range p.Conflicts {
		lines = append(lines, strings.TrimSpace("conflict "+c.Name)+": "+c.Reason)
	}
	return lines
}

func foreign(manager string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.SetLabels(nil)
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate}})
	}
}

func TestPlans(t *testing.T) {
	small, large, linux := sized("small", "1Gi"), sized("large", "8Gi"), "apiVersion: instancetype.kubevirt.io/v1beta1\n"+
		"kind: VirtualMachineClusterPreference\nmetadata: {name: linux}\nspec: {}\n"
	own := strings.Replace(strings.Replace(small, "Cluster", "", 1), "name: small", "name: own\n  namespace: NAMESPACE", 1)
	both := catalogOf(t, small, large)
	used := func(s State, name string) State {
		s.Users = map[revision.Object]revision.Users{
			{Kind: "VirtualMachineClusterInstancetype", Name: name}:                    {VMs: []string{"shop/web"}, VMIs: []string{"shop/bare"}},
			{Kind: "VirtualMachineInstancetype", Namespace: "shop", Name: name}:        {VMs: []string{"shop/other"}},
			{Kind: "VirtualMachineClusterPreference", Namespace: "shop", Name: "none"}: {VMs: []string{"shop/other"}},
		}
		return s
	}
	forced := second
	forced.Force = true
	files := second
	files.Source = ""
	for _, test := range []struct {
		why   string
		by    Installation
		of    catalogs.Catalog
		state State
		want  []string
	}{
		{"an empty cluster", first, catalogOf(t, small, linux), State{}, []string{"create small", "create linux"}},
		{"nothing has changed", first, both, installed(first, both), []string{"unchanged small", "unchanged large"}},
		{"another form of the file", first, catalogOf(t, sized("large", `"8Gi"`), small), installed(first, both), []string{"unchanged large", "unchanged small"}},
		{"another version", second, both, installed(first, both), []string{"update small (version)", "update large (version)"}},
		{"a spec that VMs use", second, catalogOf(t, sized("small", "2Gi"), large), used(installed(first, both), "small"),
			[]string{"update small (spec, version) shop/web shop/bare", "update large (version)"}},
		{"the spec of a namesake in use", second, catalogOf(t, sized("small", "2Gi"), large), used(installed(first, both), "large"),
			[]string{"update small (spec, version)", "update large (version)"}},
		{"a label more", first, catalogOf(t, sized("small", "1Gi", "a: b"), large), installed(first, both), []string{"update small (labels)", "unchanged large"}},
		{"a label less", first, both, installed(first, catalogOf(t, sized("small", "1Gi", "a: b"), large)),
			[]string{"update small (labels)", "unchanged large"}},
		{"a label of another hand", first, both, installed(first, both, func(u *unstructured.Unstructured) { u.SetLabels(withEntry(u.GetLabels(), "a", "b")) }),
			[]string{"unchanged small", "unchanged large"}},
		{"dropped and unused", second, catalogOf(t, small), installed(first, both), []string{"update small (version)", "delete large"}},
		{"dropped and used", second, catalogOf(t, small), used(installed(first, both), "large"),
			[]string{"update small (version)", "obsolete large shop/web shop/bare"}},
		{"dropped, used, obsolete already", second, catalogOf(t, small),
			used(installed(first, catalogOf(t, small, sized("large", "8Gi", "kilnvm.io/lifecycle: obsolete"))), "large"),
			[]string{"update small (version)", "unchanged large (is obsolete already) shop/web shop/bare"}},
		{"obsolete once, and back", first, both, installed(first, catalogOf(t, small, sized("large", "8Gi", "kilnvm.io/lifecycle: obsolete"))),
			[]string{"unchanged small", "update large (labels)"}},
		{"dropped, and going already", second, catalogOf(t, linux), installed(first, both, func(u *unstructured.Unstructured) {
			u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		}), []string{"create linux"}},
		{"wanted, and going", second, catalogOf(t, small), installed(first, catalogOf(t, small), func(u *unstructured.Unstructured) {
			u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		}), []string{"conflict small: is being deleted: run again when it is gone"}},
		{"of nobody", second, catalogOf(t, small), installed(first, catalogOf(t, small), foreign("kubectl-create")),
			[]string{"conflict small: exists and belongs to no catalog; its fields are managed by 'kubectl-create'"}},
		{"of nobody, by force", forced, catalogOf(t, small), installed(first, catalogOf(t, small), foreign("kubectl-create")),
			[]string{"update small (taken over)"}},
		{"of another catalog", second, catalogOf(t, small), installed(Installation{Name: "special"}, catalogOf(t, small)),
			[]string{"conflict small: belongs to catalog 'special'"}},
		{"what another catalog has is not pruned", second, catalogOf(t, small), installed(Installation{Name: "special"}, catalogOf(t, large)),
			[]string{"create small"}},
		{"a copied label makes no owner", second, catalogOf(t, small), installed(first, catalogOf(t, small), func(u *unstructured.Unstructured) {
			u.SetManagedFields(nil)
		}), []string{"conflict small: exists and belongs to no catalog"}},
		{"what a tenant has labelled is not pruned", second, catalogOf(t, small), installed(first, catalogOf(t, large), func(u *unstructured.Unstructured) {
			u.SetManagedFields(nil)
		}), []string{"create small"}},
		{"another repository of the name", Installation{Name: "general", Source: "oci://example.org/other/general"}, catalogOf(t, small),
			installed(first, catalogOf(t, large)), []string{"create small", "delete large",
				"conflict: catalog 'general' was installed from 'oci://example.org/general', not from 'oci://example.org/other/general': choose another --name"}},
		{"files after a repository", files, catalogOf(t, small), installed(first, catalogOf(t, small)), []string{"update small (annotations, version)"}},
		{"twice", first, catalogOf(t, small, small), State{}, []string{"create small", "conflict small: is in the catalog twice"}},
		{"its own namespace", first, catalogOf(t, strings.Replace(own, "NAMESPACE", "shop", 1)), State{Namespace: "shop"}, []string{"create own"}},
		{"another namespace", forced, catalogOf(t, strings.Replace(own, "NAMESPACE", "kube-system", 1)), State{Namespace: "shop"},
			[]string{"conflict own: is for namespace 'kube-system', and the installation for 'shop': use -n kube-system"}},
	} {
		p := test.by.Plan(test.of, test.state)
		if diff := cmp.Diff(test.want, planLines(p)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.why, diff)
		}
	}
	removal := first.PlanRemoval(used(installed(first, both), "large"))
	if diff := cmp.Diff([]string{"obsolete large shop/web shop/bare", "delete small"}, planLines(removal)); diff != "" {
		t.Errorf("removal (-want +got)\n%s", diff)
	}
}

// TestPlanOfManyObjects plans a catalog of thousands: each object has one action.
func TestPlanOfManyObjects(t *testing.T) {
	const many = 10000
	one, c := catalogOf(t, sized("small", "1Gi")), catalogs.Catalog{}
	for n := range many { // judging each by its schema would take longer than what is measured
		object, origin := *one.Objects[0], one.Origins[0]
		object.Name = fmt.Sprintf("n%d", n)
		c.Objects, c.Origins = append(c.Objects, &object), append(c.Origins, origin)
	}
	if p := second.Plan(c, installed(first, c)); len(p.Actions) != many || p.Actions[0].Reason != "version" {
		t.Errorf("%d actions, the first for %q", len(p.Actions), p.Actions[0].Reason)
	}
}
