package corpus

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// subject is an object on which the laws are tried, with what the cluster has.
type subject struct {
	name string
	// raw is the object as it was sent; vm or vmi is what it reads as.
	raw []byte
	vm  *v1.VirtualMachine
	vmi *v1.VirtualMachineInstance
	in  admit.Input
}

// read decodes what was sent, as the webhook does.
func (s *subject) read(isVM bool) (err error) {
	if isVM {
		s.vm = &v1.VirtualMachine{}
		err = json.Unmarshal(s.raw, s.vm)
	} else {
		s.vmi = &v1.VirtualMachineInstance{}
		err = json.Unmarshal(s.raw, s.vmi)
	}
	return err
}

// reread makes what was sent and the typed object one: of empty lists JSON keeps no trace.
func (s *subject) reread() error {
	s.raw = []byte(text(s.sent()))
	return s.read(s.vm != nil)
}

// sent is the typed object.
func (s *subject) sent() any {
	if s.vm != nil {
		return s.vm
	}
	return s.vmi
}

// given is all that the engine is handed, as text.
func (s *subject) given() string {
	return text(struct {
		Sent  any
		Input admit.Input
	}{s.sent(), s.in})
}

func text(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // values of the API have no such thing as a wrong value
	}
	return string(raw)
}

// subjects are the cases whose references resolve.
func subjects(t testing.TB) (found []subject) {
	t.Helper()
	cases, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		admitted, err := c.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(admitted.Input.Mistakes) > 0 {
			continue
		}
		s := subject{name: c.Name, vm: c.VM, vmi: c.VMI, in: admitted.Input}
		if err := s.reread(); err != nil {
			t.Fatal(err)
		}
		found = append(found, s)
	}
	return found
}

// generator makes neighbours of subjects.
type generator struct {
	mutator
	subjects []subject
	generous config.Cluster
}

func newGenerator(t testing.TB, random *rand.Rand) generator {
	g := generator{mutator: mutator{random, donors{map[string][]any{}, map[string][]string{}}}, subjects: subjects(t), generous: generous()}
	for _, s := range g.subjects {
		object, err := generic(s.sent())
		if err != nil {
			t.Fatal(err)
		}
		g.donors.learn(rootOf(&s), object)
		for name, part := range g.parts(&s.in) {
			value, err := generic(part)
			if err != nil {
				t.Fatal(err)
			}
			g.donors.learn(name, value)
		}
		if s.vm != nil && s.vm.Spec.Template != nil { // what guests of VMs have, bare ones can have too
			object, err := generic(admit.Instance(s.vm))
			if err != nil {
				t.Fatal(err)
			}
			g.donors.learn("vmi", object)
		} else if s.vmi != nil {
			g.donors.learn("vm.spec.template", object)
		}
	}
	return g
}

func rootOf(s *subject) string {
	if s.vm != nil {
		return "vm"
	}
	return "vmi"
}

// generous is a cluster in which every gate is on.
func generous() config.Cluster {
	cluster := config.Default()
	for gate := range cluster.Limits.Gates {
		cluster.Limits.Gates[gate] = true
	}
	cluster.Limits.PersistentReservation = true
	return cluster
}

// parts of the input that are mutated besides the object, by the name of their donors.
func (g generator) parts(in *admit.Input) map[string]any {
	parts := map[string]any{}
	if in.Set.Instancetype != nil {
		parts["size"] = &in.Set.Instancetype.Spec
	}
	if in.Set.Preference != nil {
		parts["preference"] = &in.Set.Preference.Spec
	}
	for i := range in.Presets {
		parts["preset"] = &in.Presets[i].Spec
	}
	return parts
}

// neighbour of a random subject; an error means that the API's types cannot read it, so that no webhook ever sees it.
func (g generator) neighbour() (subject, error) {
	s := g.subjects[g.IntN(len(g.subjects))]
	other := g.subjects[g.IntN(len(g.subjects))]
	if g.IntN(4) == 0 {
		s.in.Set, s.in.Presets, s.in.Profiles = other.in.Set, other.in.Presets, other.in.Profiles
	}
	if g.IntN(3) == 0 {
		s.in.Cluster = g.generous
	}
	var err error
	if s.in, err = g.neighbouring(s.in); err != nil {
		return s, err
	}
	object, err := generic(s.sent())
	if err != nil {
		return s, err
	}
	holder, _ := object.(map[string]any)
	if g.IntN(5) > 0 {
		g.mutate(rootOf(&s), holder)
	}
	if s.raw, err = json.Marshal(holder); err != nil {
		return s, err
	}
	isVM := s.vm != nil
	s.vm, s.vmi = nil, nil
	if err := s.read(isVM); err != nil {
		return s, err
	}
	return s, s.match()
}

// neighbouring mutates instancetypes, preferences and presets, or leaves them as they are.
func (g generator) neighbouring(in admit.Input) (admit.Input, error) {
	var out admit.Input
	if err := json.Unmarshal([]byte(text(in)), &out); err != nil {
		return out, err
	}
	out.Cluster, out.Profiles = in.Cluster, in.Profiles
	if g.IntN(2) == 0 {
		return out, nil
	}
	for _, name := range []string{"size", "preference", "preset"} {
		part := g.parts(&out)[name]
		if part == nil || g.IntN(2) == 0 {
			continue
		}
		object, err := generic(part)
		if err != nil {
			return out, err
		}
		holder, _ := object.(map[string]any)
		g.mutate(name, holder)
		reflect.ValueOf(part).Elem().SetZero()
		if err := json.Unmarshal([]byte(text(holder)), part); err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// match makes a VM name the instancetype and the preference that were found for it.
func (s *subject) match() error {
	if s.vm == nil {
		return nil
	}
	s.vm.Spec.Instancetype, s.vm.Spec.Preference = nil, nil
	if found := s.in.Set.Instancetype; found != nil {
		s.vm.Spec.Instancetype = &v1.InstancetypeMatcher{Kind: found.Kind, Name: found.Name}
	}
	if found := s.in.Set.Preference; found != nil {
		s.vm.Spec.Preference = &v1.PreferenceMatcher{Kind: found.Kind, Name: found.Name}
	}
	return s.reread()
}

func gibibyte() *resource.Quantity { return resource.NewQuantity(1<<30, resource.BinarySI) }
