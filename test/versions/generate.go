package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/test/changes"
	"github.com/kilnvm/kiln/test/corpus"
	"k8s.io/apimachinery/pkg/runtime"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// Case is a request, and what the cluster has, in the format of test/conformance.
type Case struct {
	ID string `json:"id"`
	// Suite is the corpus of test/conformance by which the case is replayed.
	Suite  string `json:"suite"`
	Origin string `json:"origin"`
	Config string `json:"config"`
	// Kind is 'vm' or 'vmi' in suite 'mutate'.
	Kind          string           `json:"kind,omitempty"`
	VM            map[string]any   `json:"vm,omitempty"`
	VMI           map[string]any   `json:"vmi,omitempty"`
	Instancetypes []map[string]any `json:"instancetypes,omitempty"`
	Preferences   []map[string]any `json:"preferences,omitempty"`
	Presets       []map[string]any `json:"presets,omitempty"`
	Objects       []map[string]any `json:"objects,omitempty"`
}

// legal are values that some fields take. They are tried beside the values of package changes.
var legal = []any{
	false, int64(1), int64(3), int64(100), "1Gi", "3Mi", "virtio", "sata", "scsi", "q35", "virt", "amd64", "arm64", "s390x", "none", "10.0.0.1", "default", "TCP",
}

// generator makes cases of the guests of test/fields, of the cases of test/corpus, and of fields of instancetypes and preferences.
type generator struct {
	*rand.Rand
	guests []map[string]any // VMIs with many fields
	inputs []Case           // the cases of test/corpus
	tried  []Case           // VMs with an instancetype and a preference
	root   string
}

func newGenerator(root string, seed uint64) (*generator, error) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), root: root}
	files, err := filepath.Glob(filepath.Join(root, "test", "fields", "guests", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there are no guests in test/fields: %w", err)
	}
	texts := [][]byte{changes.OfPods}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		var guest map[string]any
		if err := yaml.Unmarshal(text, &guest); err != nil {
			return nil, err
		}
		g.guests = append(g.guests, runtime.DeepCopyJSON(numbers(guest).(map[string]any)))
	}
	return g, g.readInputs()
}

// readInputs reads the cases of test/corpus. Cases with profiles or revisions are left out: KubeVirt has no profiles, and names revisions otherwise.
func (g *generator) readInputs() error {
	cases, err := corpus.Load(filepath.Join(g.root, "test", "corpus"))
	if err != nil {
		return err
	}
	for _, c := range cases {
		made, usable := Case{Origin: c.Name}, true
		for _, object := range c.Objects {
			content := object.Object
			switch kind := object.GetKind(); {
			case strings.HasSuffix(kind, "GuestProfile"), kind == "ControllerRevision", kind == "Deployment":
				usable = false
			case strings.HasSuffix(kind, "Preset"):
				made.Presets = append(made.Presets, content)
			case strings.HasSuffix(kind, "Preference"):
				made.Preferences = append(made.Preferences, content)
			case strings.HasSuffix(kind, "nstancetype"):
				made.Instancetypes = append(made.Instancetypes, content)
			default:
				made.Objects = append(made.Objects, content)
			}
		}
		applied := c.Applied()
		if applied.GetNamespace() == "" {
			applied.SetNamespace("default")
		}
		if made.VM = numbers(applied.Object).(map[string]any); c.VMI != nil {
			made.VM, made.VMI = nil, made.VM
		}
		if usable {
			g.inputs = append(g.inputs, made)
		}
	}
	return nil
}

// numbers returns a value with the numbers that runtime.DeepCopyJSON takes: yaml decodes all of them to float64.
func numbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = numbers(value[key])
		}
	case []any:
		for i := range value {
			value[i] = numbers(value[i])
		}
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	}
	return value
}

// cases returns n cases or a few less, and those at the boundaries of versions, in the order of their IDs. Two of five are VMIs, two VMs, one is mutated.
func (g *generator) cases(n int) ([]Case, error) {
	var all []Case
	for range 2 * n / 5 {
		all = append(all, g.vmi(), g.vm())
	}
	sizes := g.sizes()
	for range n / 5 {
		all = append(all, g.mutation(sizes))
	}
	for i := range all {
		all[i].Config = []string{byDefault, allOn, allOn, allOff}[g.IntN(4)]
	}
	fixed, err := atBoundaries()
	if err != nil {
		return nil, err
	}
	all = append(all, fixed...)
	for i := range all {
		raw, err := json.Marshal(all[i])
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(raw)
		all[i].ID = hex.EncodeToString(sum[:7])
	}
	slices.SortFunc(all, func(a, b Case) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b Case) bool { return a.ID == b.ID }), nil
}

// changed returns an object with a change below spec; one of eight has two.
func (g *generator) changed(object map[string]any) (map[string]any, string) {
	c := changes.One(g.Rand, object, "spec", legal)
	if g.IntN(8) > 0 || len(c.Object["spec"].(map[string]any)) == 0 {
		return c.Object, c.What
	}
	second := changes.One(g.Rand, c.Object, "spec", legal)
	return second.Object, c.What + ", " + second.What
}

// input returns a case of test/corpus with a VM, or with a VMI.
func (g *generator) input(vm bool) Case {
	for {
		if c := g.inputs[g.IntN(len(g.inputs))]; (c.VM != nil) == vm {
			return c
		}
	}
}

// vmi is a guest with changes, or a VMI of test/corpus.
func (g *generator) vmi() Case {
	c := Case{Origin: "guest", VMI: g.guests[g.IntN(len(g.guests))]}
	if g.IntN(3) == 0 {
		c = g.input(false)
	}
	c.Suite = "validate-vmi"
	var what string
	c.VMI, what = g.changed(c.VMI)
	c.Origin += ": " + what
	return c
}

// vm is a VM of a guest or of test/corpus with changes, or has an instancetype or a preference with one field.
func (g *generator) vm() Case {
	c := Case{Origin: "guest", VM: vmOf(g.guests[g.IntN(len(g.guests))])}
	switch g.IntN(3) {
	case 0:
		c = g.input(true)
	case 1:
		if len(g.tried) == 0 {
			g.tried = g.sizes()
		}
		c = g.tried[g.IntN(len(g.tried))]
		c.Suite = "validate-vm"
		return c
	}
	if spec, _ := c.VM["spec"].(map[string]any); infers(spec["instancetype"]) || infers(spec["preference"]) {
		return g.vm() // the mutating webhook infers before: the validating webhook sees no such VM
	}
	c.Suite = "validate-vm"
	var what string
	c.VM, what = g.changed(c.VM)
	c.Origin += ": " + what
	return c
}

// vmOf returns a VM whose template is a VMI.
func vmOf(vmi map[string]any) map[string]any {
	metadata, _ := runtime.DeepCopyJSON(vmi)["metadata"].(map[string]any)
	delete(metadata, "name")
	delete(metadata, "namespace")
	return map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "guest", "namespace": "default"},
		"spec": map[string]any{"runStrategy": "Always", "template": map[string]any{"metadata": metadata, "spec": runtime.DeepCopyJSON(vmi)["spec"]}},
	}
}

// infers reports whether a matcher names a volume in the place of an object.
func infers(matcher any) bool {
	object, _ := matcher.(map[string]any)
	return object["inferFromVolume"] != nil
}

// sizes are VMs with an instancetype and a preference, one of which has one field besides what it needs.
func (g *generator) sizes() (found []Case) {
	var bases []map[string]any
	for _, input := range g.inputs {
		if spec, _ := input.VM["spec"].(map[string]any); spec["instancetype"] == nil && spec["preference"] == nil && spec["template"] != nil {
			bases = append(bases, input.VM)
		}
	}
	size := map[string]any{"cpu": map[string]any{"guest": int64(2)}, "memory": map[string]any{"guest": "1Gi"}}
	add := func(what string, size, taste map[string]any) {
		vm := runtime.DeepCopyJSON(bases[g.IntN(len(bases))])
		spec := vm["spec"].(map[string]any)
		spec["instancetype"] = map[string]any{"kind": instancetype.Kinds.Namespaced, "name": "size"}
		spec["preference"] = map[string]any{"kind": instancetype.PreferenceKinds.Namespaced, "name": "taste"}
		found = append(found, Case{Origin: what, VM: vm,
			Instancetypes: []map[string]any{object(instancetype.Kinds.Namespaced, "size", size)},
			Preferences:   []map[string]any{object(instancetype.PreferenceKinds.Namespaced, "taste", taste)}})
	}
	changes.EachField(reflect.TypeFor[v1beta1.VirtualMachinePreferenceSpec](), legal, func(c changes.Single) {
		if json.Unmarshal(asJSON(c.Object), &v1beta1.VirtualMachinePreferenceSpec{}) == nil { // otherwise it cannot be stored
			add("preference "+c.What, size, c.Object)
		}
	})
	changes.EachField(reflect.TypeFor[v1beta1.VirtualMachineInstancetypeSpec](), legal, func(c changes.Single) {
		larger := runtime.DeepCopyJSON(size)
		for key, value := range c.Object {
			larger[key] = value
		}
		if json.Unmarshal(asJSON(larger), &v1beta1.VirtualMachineInstancetypeSpec{}) == nil {
			add("instancetype "+c.What, larger, map[string]any{})
		}
	})
	return found
}

func object(kind, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec}
}

func asJSON(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was made of JSON
	}
	return raw
}

// mutation is a guest of test/corpus as it is, on another architecture or without one of its leaves, or a VM with instancetype and preference.
func (g *generator) mutation(sizes []Case) Case {
	vm := g.IntN(2) == 0
	c := g.input(vm)
	switch g.IntN(4) {
	case 0:
		c, vm = sizes[g.IntN(len(sizes))], true
	case 1:
		for _, object := range []*map[string]any{&c.VM, &c.VMI} {
			if *object != nil {
				removed := changes.One(g.Rand, *object, "spec", nil)
				*object, c.Origin = removed.Object, c.Origin+": "+removed.What
			}
		}
	case 2:
		architecture := []string{"arm64", "s390x"}[g.IntN(2)]
		c.Origin += " on " + architecture
		for _, object := range []*map[string]any{&c.VM, &c.VMI} {
			if *object == nil {
				continue
			}
			*object = runtime.DeepCopyJSON(*object)
			spec, _ := (*object)["spec"].(map[string]any)
			if template, is := spec["template"].(map[string]any); is {
				spec, _ = template["spec"].(map[string]any)
			}
			if spec != nil {
				spec["architecture"] = architecture
			}
		}
	}
	if c.Suite, c.Kind = "mutate", "vmi"; vm {
		c.Kind = "vm"
	}
	return c
}
