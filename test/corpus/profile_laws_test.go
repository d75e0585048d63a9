package corpus

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/profile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
)

// TestProfileLaws tries the laws of stage 1, and the laws of profiles, on neighbours of the cases that random profiles fill. It takes a quarter of PROPS
// neighbours, because each is judged a dozen times. SEED repeats a run.
func TestProfileLaws(t *testing.T) {
	t.Parallel()
	seed, wanted := number("SEED", rand.Uint64()), number("PROPS", 2000)/4
	t.Logf("SEED=%d, %d neighbours", seed, wanted)
	g := profileGenerator{newGenerator(t, rand.New(rand.NewPCG(seed, 1)))}
	var n struct{ illegible, refused, filled, bare, broken int }
	for range wanted {
		s, err := g.neighbour()
		if err != nil || s.vm != nil && !known(s.vm, s.in.Set) {
			n.illegible++
			continue
		}
		s.in.Profiles = g.profiles(t, s)
		out, broken := stageOne(s)
		broken = append(broken, g.laws(t, s, out)...)
		switch {
		case len(out.errs) > 0:
			n.refused++
		case out.explicit != nil && text(out.explicit) != text(without(s)):
			n.filled++
		default:
			n.bare++
		}
		if len(broken) > 0 {
			if n.broken++; n.broken > maxFindings {
				t.FailNow()
			}
			t.Errorf("%s: %s\nobject: %s\nset: %s\nprofiles: %s", s.name, strings.Join(slices.Compact(broken), "\n"), s.raw, text(s.in.Set), text(s.in.Profiles))
		}
	}
	t.Logf("%+v", n)
	if wanted >= fewTries && n.filled < int(wanted)/20 {
		t.Errorf("%d of %d VMIs were filled and let in: the laws were tried on too few", n.filled, wanted)
	}
}

// without is the VMI that a subject has without profiles.
func without(s subject) *v1.VirtualMachineInstance {
	s.in.Profiles = nil
	explicit, _ := stage1(s)
	return explicit
}

type profileGenerator struct{ generator }

// profiles returns one to four profiles made of parts of other VMIs. Later ones may be bases of earlier ones.
func (g profileGenerator) profiles(t *testing.T, s subject) (all []*profile.Profile) {
	t.Helper()
	distinct := g.IntN(3) > 0
	for len(all) < 4 && (len(all) == 0 || g.IntN(3) > 0) {
		spec := v1alpha1.GuestProfileSpec{Selector: &metav1.LabelSelector{}, Template: g.template()}
		if distinct {
			spec.Priority = int32(-len(all))
		}
		if len(all) > 0 && g.IntN(3) == 0 {
			spec.Selector = nil
		}
		for i := range all {
			if g.IntN(2) == 0 {
				spec.Extends = append(spec.Extends, v1alpha1.ProfileReference{Name: all[i].Name})
			}
		}
		if p, err := readProfile(fmt.Sprintf("p%d", len(all)), spec); err == nil {
			all = append(all, p)
		}
	}
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// template is a part of a VMI that a case has, or of a neighbour of it.
func (g profileGenerator) template() (made v1alpha1.GuestProfileTemplate) {
	object, _ := g.donor("vmi").(map[string]any)
	if g.IntN(4) == 0 {
		g.mutate("vmi", object)
	}
	spec, _ := object["spec"].(map[string]any)
	keep := g.IntN(4)
	for _, p := range places("vmi.spec", spec, func(any) {}) {
		switch p.value.(type) {
		case map[string]any, []any: // what is in it decides
		default:
			if !strings.HasSuffix(p.path, ".name") && !strings.HasSuffix(p.path, "[]") && g.IntN(4) >= keep {
				p.drop()
			}
		}
	}
	made.Spec = runtime.RawExtension{Raw: []byte(text(spec))}
	if g.IntN(3) == 0 {
		made.Metadata.Labels = map[string]string{"tier": "filled", "app": "filled"}
		made.Metadata.Annotations = map[string]string{"note": "filled"}
	}
	return made
}

func readProfile(name string, spec v1alpha1.GuestProfileSpec) (*profile.Profile, error) {
	object := v1alpha1.GuestProfile{Spec: spec}
	object.APIVersion, object.Kind, object.Name = v1alpha1.GroupVersion.String(), v1alpha1.KindGuestProfile, name
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return profile.Read("", raw)
}

// laws of profiles.
func (g profileGenerator) laws(t *testing.T, s subject, out judged) (broken findings) {
	t.Helper()
	other := s
	other.in.Profiles = slices.Clone(s.in.Profiles)
	g.Shuffle(len(other.in.Profiles), func(i, j int) {
		other.in.Profiles[i], other.in.Profiles[j] = other.in.Profiles[j], other.in.Profiles[i]
	})
	explicit, verdict := stage1(other)
	first, judged := stage1(s)
	if diff := cmp.Diff(text(first), text(explicit)) + cmp.Diff(messages(judged), messages(verdict)); diff != "" {
		broken.add("the order of profiles does not matter", "%s", diff)
	}
	if len(out.errs) == 0 && out.explicit != nil {
		broken = append(broken, earlierWin(s)...)
	}
	for _, p := range s.in.Profiles {
		if len(p.Spec.Extends) > 0 {
			broken = append(broken, writtenOut(t, s, p)...)
		}
	}
	return broken
}

// earlierWin: what user, instancetype, preference and presets set stays.
func earlierWin(s subject) (broken findings) {
	now := map[string]string{}
	for _, fact := range explained(s) {
		now[fact.Path] = text(fact.Value)
	}
	s.in.Profiles = nil
	before := explained(s)
	for _, fact := range before {
		element := fact.Path[:strings.LastIndexByte(fact.Path, ']')+1]
		owned := element == "" || slices.ContainsFunc(before, func(f admit.Fact) bool {
			return f.Origin.Kind == admit.FromUser && strings.HasPrefix(f.Path, element)
		})
		// A preference gives models to devices that only defaults add, and not where a profile has other ones.
		byDefault := fact.Origin.Kind == admit.FromDefault || fact.Origin.Kind == admit.FromKubeVirt
		if byDefault || fact.Origin.Kind != admit.FromUser && !owned || text(fact.Value) == "{}" {
			continue
		}
		if value := text(fact.Value); now[fact.Path] != value {
			broken.add("profiles override nothing", "%s is %s by %s, and %s with profiles", fact.Path, value, fact.Origin, now[fact.Path])
		}
	}
	return broken
}

func explained(s subject) []admit.Fact {
	if s.vm != nil {
		return admit.ExplainVM(s.vm, s.in).Fields
	}
	return admit.ExplainVMI(s.vmi, s.in).Fields
}

// writtenOut: a profile fills the same as one that has what it extends written into its own template.
func writtenOut(t *testing.T, s subject, p *profile.Profile) (broken findings) {
	t.Helper()
	var all []*profile.Profile
	for _, other := range s.in.Profiles {
		spec := other.Spec
		if spec.Selector = nil; other == p {
			spec.Selector = &metav1.LabelSelector{}
		}
		base, err := readProfile(other.Name, spec)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, base)
	}
	plan, errs := profile.PlanFor(all, &v1.VirtualMachineInstance{})
	if len(errs) > 0 || plan == nil {
		return nil
	}
	example := plan.Example()
	delete(example.Annotations, v1alpha1.AnnotationProfileLabels)
	flat, err := readProfile(p.Name, v1alpha1.GuestProfileSpec{Selector: &metav1.LabelSelector{}, Template: v1alpha1.GuestProfileTemplate{
		Metadata: v1alpha1.GuestProfileMetadata{Labels: example.Labels, Annotations: example.Annotations},
		Spec:     runtime.RawExtension{Raw: []byte(text(example.Spec))}}})
	if err != nil {
		broken.add("what a profile extends can be written out", "%v", err)
		return broken
	}
	s.in.Profiles = all
	extended, verdict := stage1(s)
	s.in.Profiles = []*profile.Profile{flat}
	written, again := stage1(s)
	if diff := cmp.Diff(text(extended), text(written)); diff != "" || verdict.Allowed() != again.Allowed() {
		broken.add("a profile with what it extends written out gives the same guest", "%v %v %s", verdict.Errors, again.Errors, diff)
	}
	return broken
}
