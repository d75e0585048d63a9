package nodecpu

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

func specOf(architecture, model string, features ...v1.CPUFeature) *v1.VirtualMachineInstanceSpec {
	return &v1.VirtualMachineInstanceSpec{Architecture: architecture, Domain: v1.DomainSpec{CPU: &v1.CPU{Model: model, Features: features}}}
}

// TestNeeds: what a guest needs is what libvirt will be asked for.
func TestNeeds(t *testing.T) {
	t.Parallel()
	recorded := &record.Record{Machine: "pc-q35-10.0", CPU: &record.CPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD",
		Features: []string{"avx2", "pcommit", "sse2"}, DisabledFeatures: []string{"monitor"}}}
	named := &record.Record{Machine: "pc-q35-10.0", CPU: &record.CPU{Requested: "EPYC", Model: "EPYC", Features: []string{"pcommit"}}}
	long := strings.Repeat("x", 64)
	odd := &record.Record{CPU: &record.CPU{Requested: "host-model", Vendor: "AMD.", Features: []string{long, "a-", "sse2"}}}
	features := []v1.CPUFeature{{Name: "pcommit", Policy: "disable"}, {Name: "avx512f"}, {Name: "hle", Policy: "require"}, {Name: "rtm", Policy: "optional"},
		{Name: "sse2", Policy: "force"}, {Name: "avx2", Policy: "optional"}}
	for _, c := range []struct {
		why      string
		spec     *v1.VirtualMachineInstanceSpec
		recorded *record.Record
		// kvm and emulated are the labels without their prefixes and values.
		kvm, emulated string
	}{
		{"no CPU", &v1.VirtualMachineInstanceSpec{}, recorded, "", ""},
		{"the first boot with host-model", specOf("amd64", "host-model"), nil, "", ""},
		{"with features of the spec", specOf("amd64", "host-model", features...), nil, "feature/avx512f feature/hle", ""},
		{"a later boot", specOf("amd64", "host-model"), recorded, "feature/avx2 feature/pcommit feature/sse2 vendor/AMD",
			"feature/avx2 feature/pcommit feature/sse2 vendor/AMD kilnvm.io/cpu-emulated"},
		{"features of the spec win", specOf("amd64", "host-model", features...), recorded, "feature/avx2 feature/avx512f feature/hle vendor/AMD",
			"feature/avx2 feature/avx512f feature/hle vendor/AMD kilnvm.io/cpu-emulated"},
		{"a record without a CPU", specOf("amd64", "host-model"), &record.Record{Machine: "pc-q35-10.0"}, "", ""},
		{"the owner has changed the architecture", specOf("s390x", "host-model"), recorded, "", ""},
		{"a record of a named model", specOf("amd64", "host-model"), named, "", ""},
		{"a named model", specOf("amd64", "EPYC"), nil, "model/EPYC", ""},
		{"with features of the spec", specOf("amd64", "EPYC", features...), named, "feature/avx512f feature/hle model/EPYC", ""},
		{"a named model after host-model", specOf("amd64", "EPYC"), recorded, "model/EPYC", ""},
		{"what the host has", specOf("amd64", "host-passthrough", features...), recorded, "", ""},
		{"names that no label can have", specOf("amd64", "host-model"), odd, "feature/sse2", "feature/sse2 kilnvm.io/cpu-emulated"},
		{"a model that no label can have", specOf("amd64", "a/b", v1.CPUFeature{Name: "a/b"}), nil, "", ""},
	} {
		for emulated, want := range map[bool]string{false: c.kvm, true: c.emulated} {
			need := NeedOf(c.spec, c.recorded, emulated)
			labels := need.Labels()
			shorten := strings.NewReplacer("cpu-feature.kilnvm.io", "feature", "cpu-model.kilnvm.io", "model", "cpu-vendor.kilnvm.io", "vendor")
			if got := shorten.Replace(strings.Join(slices.Sorted(maps.Keys(labels)), " ")); got != want || need.IsZero() != (want == "") {
				t.Errorf("%s, emulated %t: '%s', want '%s'", c.why, emulated, got, want)
			}
			if again := NeedOf(c.spec, c.recorded.DeepCopy(), emulated); again != need {
				t.Errorf("%s: two equal needs differ", c.why)
			}
		}
	}
	if size := NeedOf(specOf("amd64", "host-model"), recorded, false).Size(); size != len("avx2,pcommit,sse2")+len("AMD") {
		t.Errorf("size %d", size)
	}
}

// nodeOf returns a node with what an agent reports.
func nodeOf(name string, offer *Offer) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if offer != nil {
		maps.Copy(node.Labels, FromKiln.Labels(*offer))
	}
	return node
}

// TestFleet: once a node reports, a guest fits the nodes that report and lack nothing. Reports about guests with KVM do not count for guests without it.
func TestFleet(t *testing.T) {
	t.Parallel()
	recorded := &record.Record{CPU: &record.CPU{Requested: "host-model", Vendor: "AMD", Features: []string{"avx2", "sse2"}}}
	need, emulated := NeedOf(specOf("amd64", "host-model"), recorded, false), NeedOf(specOf("amd64", "host-model"), recorded, true)
	whole := &Offer{Features: map[string]bool{"avx2": true, "sse2": true, "hle": true}, Vendor: "AMD"}
	weak, other := &Offer{Features: map[string]bool{"sse2": true}, Vendor: "AMD"}, &Offer{Features: whole.Features, Vendor: "Intel"}
	without := &Offer{Features: whole.Features, Vendor: "AMD", Emulated: true}
	all := func(offers ...*Offer) (nodes []corev1.Node) {
		for i, offer := range offers {
			nodes = append(nodes, nodeOf(string(rune('a'+i)), offer))
		}
		return nodes
	}
	for _, c := range []struct {
		why   string
		need  Need
		nodes []corev1.Node
		fits  string
		lack  string
	}{
		{"nobody reports", need, all(nil, nil), "ab", "CPU features avx2, sse2"},
		{"some report", need, all(weak, nil, whole, other), "c", "CPU features avx2"},
		{"none fits", need, all(other, weak), "", "its vendor is Intel"},
		{"nothing is needed", Need{}, all(weak, nil), "ab", ""},
		{"reports without KVM, for guests with KVM", need, all(without, without), "ab", ""},
		{"reports with KVM, for guests without", emulated, all(weak, other), "ab", "CPU features avx2"},
		{"reports without KVM, for guests without", emulated, all(nil, without, whole), "b", "CPU features avx2, sse2"},
	} {
		fleet := NewFleet(c.nodes)
		for range 2 { // the second time, it remembers
			fits := ""
			for i := range c.nodes {
				if fleet.Fits(c.need, &c.nodes[i]) {
					fits += c.nodes[i].Name
				}
			}
			if lack := fleet.LackOf(c.need, &c.nodes[0]); fits != c.fits || lack.String() != c.lack {
				t.Errorf("%s: nodes '%s' fit, want '%s'; the first lacks '%s', want '%s'", c.why, fits, c.fits, lack, c.lack)
			}
		}
	}
}

// TestLabelsAreSelected: the labels that a pod selects are those that an agent writes for an offer that is just enough.
func TestLabelsAreSelected(t *testing.T) {
	t.Parallel()
	need := NeedOf(specOf("amd64", "EPYC", v1.CPUFeature{Name: "hle"}), nil, false)
	offer, reported := FromKiln.Read(need.Labels())
	want := Offer{Features: map[string]bool{"hle": true}, Models: map[string]bool{"EPYC": true}}
	if diff := cmp.Diff(want, offer); diff != "" || !reported {
		t.Errorf("reported %t (-want +got):\n%s", reported, diff)
	}
}
