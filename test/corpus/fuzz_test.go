package corpus

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fuzz targets try the laws of the properties on what a fuzzer makes of the cases. 'go test' runs the seeds, 'make fuzz' the
// rest; what is found is kept below testdata/fuzz.

// choices is a source of random numbers that the fuzzer steers: its bytes come first, and what comes then depends on them.
type choices struct {
	left []byte
	then *rand.PCG
}

func chosenBy(data []byte) *rand.Rand {
	seed := uint64(len(data))
	for _, b := range data {
		seed = seed*31 + uint64(b)
	}
	return rand.New(&choices{data, rand.NewPCG(seed, 0)})
}

func (c *choices) Uint64() uint64 {
	if len(c.left) < 2 {
		return c.then.Uint64()
	}
	// The high bits decide: small choices cost the fuzzer two bytes.
	n := uint64(binary.BigEndian.Uint16(c.left)) << 48
	c.left = c.left[2:]
	return n | c.then.Uint64()>>16
}

// try reports the laws that a subject breaks.
func try(t *testing.T, g generator, s subject) {
	var n tally
	n.try(t, g, s)
}

// FuzzNeighbour steers which case is changed, and how.
func FuzzNeighbour(f *testing.F) {
	g := newGenerator(f, rand.New(rand.NewPCG(1, 0)))
	for i := range 20 {
		f.Add([]byte{byte(i), byte(i * 7), byte(i * 31), 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g := g
		g.Rand = chosenBy(data)
		if s, err := g.neighbour(); err == nil {
			try(t, g, s)
		}
	})
}

// FuzzSpec makes VMIs of bytes.
func FuzzSpec(f *testing.F) {
	g := newGenerator(f, rand.New(rand.NewPCG(1, 0)))
	for _, s := range g.subjects {
		if s.vmi != nil {
			f.Add(s.raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, s := g, subject{name: "guest", raw: raw, in: admit.Input{Cluster: g.generous}}
		g.Rand = chosenBy(raw)
		if s.read(false) != nil || s.reread() != nil {
			return
		}
		try(t, g, s)
	})
}

// plain are objects that instancetypes, preferences and presets are applied to: a VM that says nothing, and a VMI that says much.
func plain(t testing.TB) []subject {
	vm := &v1.VirtualMachine{}
	vm.Name, vm.Namespace = "guest", namespace
	vm.Spec.RunStrategy = new(v1.RunStrategyAlways)
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.ObjectMeta.Labels = map[string]string{"os": "windows"}
	vm.Spec.Template.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}}}
	found := []subject{{name: "plain", vm: vm}}
	for _, s := range subjects(t) {
		if s.vmi != nil && (s.name == "disks-tuned" || s.name == "features-hyperv") {
			s.vmi.Labels = vm.Spec.Template.ObjectMeta.Labels
			s.in = admit.Input{}
			found = append(found, s)
		}
	}
	return found
}

// onPlain tries the laws on plain objects in a cluster that has what the fuzzer made. Instancetypes and preferences that the API server
// refuses never get there.
func onPlain(t *testing.T, g generator, raw []byte, in admit.Input) {
	g.Rand = chosenBy(raw)
	in.Cluster = g.generous
	for _, s := range g.subjects {
		s.in = in
		if s.vm != nil {
			s.vm = s.vm.DeepCopy()
		}
		if s.match() == nil && s.reread() == nil {
			try(t, g, s)
		}
	}
}

// ofPlain is a generator of plain subjects; each gets the parts of one name of all cases.
func ofPlain(f *testing.F, name string) generator {
	g := newGenerator(f, rand.New(rand.NewPCG(1, 0)))
	for _, s := range g.subjects {
		if part, found := g.parts(&s.in)[name]; found {
			f.Add([]byte(text(part)))
		}
	}
	g.subjects = plain(f)
	return g
}

func FuzzInstancetype(f *testing.F) {
	g := ofPlain(f, "size")
	f.Fuzz(func(t *testing.T, raw []byte) {
		size := &instancetype.Instancetype{Source: instancetype.Source{Kind: "VirtualMachineClusterInstancetype", Name: "size"}}
		if json.Unmarshal(raw, &size.Spec) == nil && len(validate.Instancetype(&size.Spec, nil)) == 0 {
			onPlain(t, g, raw, admit.Input{Set: instancetype.Set{Instancetype: size}})
		}
	})
}

func FuzzPreference(f *testing.F) {
	g := ofPlain(f, "preference")
	small := &instancetype.Instancetype{Source: instancetype.Source{Kind: "VirtualMachineClusterInstancetype", Name: "small"}}
	small.Spec = v1beta1.VirtualMachineInstancetypeSpec{CPU: v1beta1.CPUInstancetype{Guest: 4}, Memory: v1beta1.MemoryInstancetype{Guest: *gibibyte()}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		advice := &instancetype.Preference{Source: instancetype.Source{Kind: "VirtualMachineClusterPreference", Name: "advice"}}
		if json.Unmarshal(raw, &advice.Spec) == nil && len(validate.Preference(&advice.Spec, nil)) == 0 {
			onPlain(t, g, raw, admit.Input{Set: instancetype.Set{Instancetype: small, Preference: advice}})
		}
	})
}

func FuzzPreset(f *testing.F) {
	g := ofPlain(f, "preset")
	f.Fuzz(func(t *testing.T, raw []byte) {
		preset := v1.VirtualMachineInstancePreset{}
		preset.Name = "preset"
		if json.Unmarshal(raw, &preset.Spec) == nil {
			onPlain(t, g, raw, admit.Input{Presets: []v1.VirtualMachineInstancePreset{preset}})
		}
	})
}

// FuzzPatch joins any two VMIs.
func FuzzPatch(f *testing.F) {
	found := subjects(f)
	for i, s := range found {
		f.Add(s.raw, found[(i*7+3)%len(found)].raw)
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		old, now := subject{raw: before}, subject{raw: after}
		if old.read(false) != nil || now.read(false) != nil || old.reread() != nil || now.reread() != nil {
			return
		}
		if problem := patches(old.raw, old.vmi, now.vmi); problem != "" {
			t.Error(problem)
		}
	})
}
