package profile

import (
	"slices"
	"sync"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/preset"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func details(errs field.ErrorList) (texts []string) {
	for _, err := range errs {
		texts = append(texts, err.Detail)
	}
	return texts
}

// TestSelect: by labels, in order, and kept away by the annotation where the profile allows it.
func TestSelect(t *testing.T) {
	t.Parallel()
	all := []*Profile{
		read(t, "web", `{selector: {matchLabels: {tier: web}}}`),
		readKind(t, "ClusterGuestProfile", "all", `{selector: {}, allowExclusion: true}`),
		read(t, "first", `{selector: {matchExpressions: [{key: tier, operator: Exists}]}, priority: 9}`),
		read(t, "none", `{}`),
	}
	for _, test := range []struct {
		vmi  string
		want []string
	}{
		{`{}`, []string{"all"}},
		{`{metadata: {labels: {tier: web}}}`, []string{"first", "all", "web"}},
		{`{metadata: {labels: {tier: web}, annotations: {` + preset.Exclude + `: "true"}}}`, []string{"first", "web"}},
		{`{metadata: {labels: {tier: web}, annotations: {` + preset.Exclude + `: "yes"}}}`, []string{"first", "all", "web"}},
		{`{metadata: {labels: {tier: web}, annotations: {` + v1alpha1.AnnotationProfileLabels + `: "a,tier"}}}`, []string{"all"}},
	} {
		selected, errs := Select(all, vmiOf(t, test.vmi))
		if got := namesOf(selected); len(errs) > 0 || !slices.Equal(got, test.want) {
			t.Errorf("%s: selected %v %v, want %v", test.vmi, got, errs, test.want)
		}
	}
}

// TestLabelsSelectNothing: labels that a profile fills select no other profile, not even when the VMI is filled again.
func TestLabelsSelectNothing(t *testing.T) {
	t.Parallel()
	all := []*Profile{
		read(t, "labels", `{selector: {}, template: {metadata: {labels: {tier: web, b: c}}}}`),
		read(t, "web", `{selector: {matchLabels: {tier: web}}, template: {spec: {schedulerName: web}}}`),
	}
	vmi := vmiOf(t, `{metadata: {labels: {b: own}}}`)
	for range 2 {
		if errs := Fill(all, vmi, Observer{}); len(errs) > 0 {
			t.Fatal(errs)
		}
		if want := vmiOf(t, `{metadata: {labels: {tier: web, b: own}, annotations: {kilnvm.io/profile-labels: tier}}}`); !equality.Semantic.DeepEqual(vmi, want) {
			t.Errorf("got %v", vmi.ObjectMeta)
		}
	}
}

// TestProfilesAreShared: reviews fill VMIs from the same profiles at the same time, and change their VMIs afterwards.
func TestProfilesAreShared(t *testing.T) {
	t.Parallel()
	const spec = `{tolerations: [{key: a, tolerationSeconds: 3}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:
		[{matchExpressions: [{key: k, operator: In, values: [v]}]}]}}}, nodeSelector: {zone: a}, domain: {memory: {guest: 1Gi}, cpu: {cores: 2,
			features: [{name: vmx}]}}}`
	all := []*Profile{read(t, "a", `{selector: {}, template: {spec: `+spec+`}}`), read(t, "b", `{selector: {}, extends: [{name: a}]}`)}
	want := vmiOf(t, "{spec: "+spec+"}")
	var reviews sync.WaitGroup
	for range 8 {
		reviews.Go(func() {
			for range 50 {
				vmi := vmiOf(t, "{}")
				if errs := Fill(all, vmi, Observer{}); len(errs) > 0 || !equality.Semantic.DeepEqual(vmi, want) {
					t.Error(errs, vmi.Spec)
				}
				*vmi.Spec.Tolerations[0].TolerationSeconds = 7
				vmi.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "changed"
				vmi.Spec.NodeSelector["zone"], vmi.Spec.Domain.CPU.Features[0].Name = "changed", "changed"
				vmi.Spec.Domain.Memory.Guest.Add(*vmi.Spec.Domain.Memory.Guest)
			}
		})
	}
	reviews.Wait()
}
