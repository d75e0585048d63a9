package nodecpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/record"
)

// TestOffers: labels are written and read again, and labels of other agents and with other values have no effect.
func TestOffers(t *testing.T) {
	t.Parallel()
	want := Offer{Features: map[string]bool{"sse4.1": true, "avx2": true}, Models: map[string]bool{"EPYC": true}, Vendor: "AMD"}
	for _, source := range []Source{FromKiln, FromKilnEmulated, FromKubeVirt} {
		want.Emulated = source == FromKilnEmulated
		labels := source.Labels(want)
		labels[source.feature+"avx512f"] = "false"
		labels["cpu-feature.example.com/hle"] = "true"
		got, reported := source.Read(labels)
		if diff := cmp.Diff(want, got); diff != "" || !reported {
			t.Errorf("reported %v (-want +got):\n%s", reported, diff)
		}
		for key := range source.Labels(want) {
			if !source.Owns(key) || source.Owns("x"+key) {
				t.Errorf("label '%s' belongs to nobody, or each label does", key)
			}
		}
		labels[source.vendor+"Intel"] = "true"
		if got, _ := source.Read(labels); got.Vendor != "" {
			t.Errorf("a node of two vendors has vendor '%s'", got.Vendor)
		}
	}
	for source, other := range map[Source]Source{FromKiln: FromKubeVirt, FromKubeVirt: FromKiln, FromKilnEmulated: FromKiln} {
		want.Emulated = false
		if _, reported := source.Read(other.Labels(want)); reported {
			t.Errorf("labels of %+v count as labels of %+v", other, source)
		}
	}
	want.Emulated = true
	if _, reported := FromKiln.Read(FromKilnEmulated.Labels(want)); reported {
		t.Error("where guests have KVM, labels about guests without KVM count")
	}
}

// TestMissing: what a node lacks of a CPU depends on what the guest asked for.
func TestMissing(t *testing.T) {
	t.Parallel()
	node := Offer{Features: map[string]bool{"avx2": true, "sse2": true}, Models: map[string]bool{"Nehalem": true}, Vendor: "Intel"}
	for _, c := range []struct {
		why  string
		cpu  *record.CPU
		want string
	}{
		{"nothing recorded", nil, ""},
		{"all features", &record.CPU{Requested: "host-model", Model: "EPYC", Features: []string{"avx2", "sse2"}}, ""},
		{"a feature", &record.CPU{Requested: "host-model", Model: "EPYC", Features: []string{"avx2", "pcommit"}, DisabledFeatures: []string{"monitor"}},
			"CPU features pcommit"},
		{"another vendor", &record.CPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD"}, "its vendor is Intel"},
		{"the model", &record.CPU{Requested: "Nehalem", Model: "Nehalem"}, ""},
		{"another model", &record.CPU{Requested: "Haswell", Model: "Haswell", Features: []string{"hle"}}, "CPU model 'Haswell', CPU features hle"},
		{"another CPU at the next boot", &record.CPU{Requested: "none", Model: "EPYC", Features: []string{"hle"}}, ""},
		{"whatever the host has", &record.CPU{Requested: "host-passthrough", Model: "EPYC", Features: []string{"hle"}}, ""},
	} {
		lack := node.Missing(c.cpu)
		if got := lack.String(); got != c.want || lack.Empty() != (c.want == "") {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
}
