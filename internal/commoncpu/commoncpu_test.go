package commoncpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	corev1 "k8s.io/api/core/v1"
)

// node is a node by what its agent reports: its vendor, models and features.
type node struct{ name, vendor, models, features string }

func (n node) labels() map[string]string {
	offer := nodecpu.Offer{Vendor: n.vendor, Models: map[string]bool{}, Features: map[string]bool{}}
	for model := range strings.FieldsSeq(n.models) {
		offer.Models[model] = true
	}
	for feature := range strings.FieldsSeq(n.features) {
		offer.Features[feature] = true
	}
	return nodecpu.FromKubeVirt.Labels(offer)
}

func find(nodes ...node) Finding {
	all := NewNodes(nodecpu.FromKubeVirt)
	for _, n := range nodes {
		all.AddNode(n.name, n.labels())
	}
	return all.Find()
}

// TestFind: the newest model of the vendor and the features that all nodes have, and which nodes limit them.
func TestFind(t *testing.T) {
	t.Parallel()
	old := node{"old", "Intel", "Haswell-noTSX Nehalem Opteron_G3", "aes avx2 invtsc"}
	new1, new2 := node{"new1", "Intel", "Haswell-noTSX Nehalem Skylake-Server", "aes avx2 avx512f invtsc"}, node{"new2", "Intel",
		"Haswell-noTSX Nehalem Skylake-Server", "aes avx2 avx512f invtsc"}
	amd := node{"amd", "AMD", "EPYC Nehalem", "aes avx2"}
	silent := node{name: "silent"}
	for _, test := range []struct {
		why           string
		nodes         []node
		reason        string
		model         string
		features      string
		limits, words string
	}{
		{"one node", []node{new1}, v1alpha1.ReasonCommon, "Skylake-Server", "aes avx2 avx512f", "", "common to 1 node"},
		{"an older node limits", []node{new1, old, new2}, v1alpha1.ReasonCommon, "Haswell-noTSX", "aes avx2", "old(1) Skylake-Server 1 avx512f",
			"Without old, the other nodes would have model 'Skylake-Server' and features avx512f in common"},
		{"nodes that offer the same are one limit", []node{old, new1, new2, {"lab", "Intel", "Haswell-noTSX Nehalem Skylake-Server", "aes avx2 avx512f pku"}},
			v1alpha1.ReasonCommon, "Haswell-noTSX", "aes avx2", "old(1) Skylake-Server 1 avx512f", ""},
		{"two nodes limit together", []node{old, {"old2", old.vendor, old.models, old.features}, new1}, v1alpha1.ReasonCommon, "Haswell-noTSX", "aes avx2",
			"old,old2(2) Skylake-Server 1 avx512f", "Without 2 nodes such as old"},
		{"two vendors", []node{new1, amd}, v1alpha1.ReasonVendorsDiffer, "", "", "amd(1) Skylake-Server 3 aes,avx2,avx512f; new1(1) EPYC 2 aes,avx2",
			"1 node of vendor 'AMD', such as amd; 1 node of vendor 'Intel', such as new1"},
		{"one node of another vendor", []node{new1, old, amd}, v1alpha1.ReasonVendorsDiffer, "", "", "amd(1) Haswell-noTSX 2 aes,avx2", ""},
		{"a model of another vendor does not count", []node{{"n", "Intel", "Opteron_G3 EPYC", "aes"}}, v1alpha1.ReasonNoModel, "", "", "",
			"no CPU model that Kiln knows is common to 1 node of vendor 'Intel'"},
		{"a generic model is the last", []node{{"n", "Intel", "kvm64 qemu64", "aes"}}, v1alpha1.ReasonCommon, "kvm64", "aes", "", ""},
		{"nodes that report nothing do not count", []node{silent, new1}, v1alpha1.ReasonCommon, "Skylake-Server", "aes avx2 avx512f", "", ""},
		{"no node reports", []node{silent}, v1alpha1.ReasonNoNodes, "", "", "", "no CPU is in the labels of 1 node, such as silent"},
		{"no node is selected", nil, v1alpha1.ReasonNoNodes, "", "", "", "selects no node"},
		{"s390x", []node{{"a", "IBM", "z14 z13.2-base gen15a-base", "vx te"}, {"b", "IBM", "z14-base z13.2-base z14 z13.2", "vx"}}, v1alpha1.ReasonCommon,
			"z14", "vx", "b(1) gen15a-base 1 te", ""},
	} {
		got := find(test.nodes...)
		var limits []string
		for _, l := range got.Status.LimitedBy {
			limits = append(limits, fmt.Sprintf("%s(%d) %s %d %s", strings.Join(l.Names, ","), l.Nodes, l.Model, l.Features, strings.Join(l.FeatureNames, ",")))
		}
		if got.Reason != test.reason || got.Status.Model != test.model || strings.Join(got.Status.Features, " ") != test.features ||
			!strings.Contains(got.Message, test.words) {
			t.Errorf("%s: %s, model '%s', features %v, '%s'", test.why, got.Reason, got.Status.Model, got.Status.Features, got.Message)
		}
		if text := strings.Join(limits, "; "); text != test.limits {
			t.Errorf("%s: limits '%s', want '%s'", test.why, text, test.limits)
		}
	}
}

// TestArchitectures: nodes of arm64 do not count, whatever they report, and s390x has a vendor without a label.
func TestArchitectures(t *testing.T) {
	t.Parallel()
	nodes := NewNodes(nodecpu.FromKubeVirt)
	arm := node{"arm", "Arm", "cortex-a72", "asimd"}.labels()
	arm[corev1.LabelArchStable] = "arm64"
	nodes.AddNode("arm", arm)
	if got := nodes.Find(); got.Reason != v1alpha1.ReasonNoNodes || !strings.Contains(got.Message, "arm64") || got.Status.Nodes+got.Status.Unreported > 0 {
		t.Errorf("%+v", got)
	}
	mainframe := node{"z", "", "z13", "vx"}.labels()
	mainframe[corev1.LabelArchStable] = "s390x"
	nodes.AddNode("z", mainframe)
	if got := nodes.Find(); got.Status.Model != "z13" || got.Status.Vendor != "IBM" || got.Status.Nodes != 1 {
		t.Errorf("%+v", got)
	}
}

// TestHostileNodes: a node that lies never adds anything, and what libvirt cannot report does not count. Lists are bounded.
func TestHostileNodes(t *testing.T) {
	t.Parallel()
	honest := []node{{"a", "Intel", "Haswell", "aes avx2"}, {"b", "Intel", "Haswell", "aes avx2 hle"}}
	var many, long strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, " f%d", i)
	}
	for i := range 400 {
		fmt.Fprintf(&long, " f%0*d", 60, i)
	}
	want := find(honest...).Status
	for _, liar := range []node{
		{"liar", "Intel", "Haswell", "aes avx2" + many.String()}, {"liar", "Intel", "Haswell", "aes" + long.String()}, {"liar", "Intel", "Haswell", "AES"},
		{"liar", "", "Haswell", "aes"}, {"liar", "Intel\n", "Haswell", "aes"},
	} {
		got := find(append(honest, liar)...).Status
		if diff := cmp.Diff([]string{"liar"}, got.UnreportedNodes); diff != "" || got.Unreported != 1 {
			t.Errorf("%.60s counts: %s", liar.features, diff)
		}
		got.Unreported, got.UnreportedNodes = 0, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.60s (-want +got):\n%s", liar.features, diff)
		}
	}
	var fill strings.Builder
	for i := range 500 {
		fmt.Fprintf(&fill, " f%d", i)
	}
	if got := find(append(honest, node{"liar", "Intel", "Haswell DiamondRapids", "aes avx2" + fill.String()})...).Status; got.Model != "Haswell" ||
		!slices.Equal(got.Features, want.Features) || len(got.LimitedBy) > 0 {
		t.Errorf("what one node has alone: %+v", got)
	}
	all := honest
	for i := range 100 {
		all = append(all, node{fmt.Sprintf("n%d", i), "Intel", "Haswell", "aes" + strings.Replace(fill.String(), fmt.Sprintf(" f%d ", i), " ", 1)})
	}
	got := find(all[2:]...).Status
	if len(got.LimitedBy) != mostLimits || len(got.Features) != 401 {
		t.Errorf("%d limits, %d features", len(got.LimitedBy), len(got.Features))
	}
	if got := find(all...).Status; !slices.Equal(got.Features, []string{"aes"}) {
		t.Errorf("%d features", len(got.Features))
	}
	for i := range all {
		all[i] = node{name: all[i].name}
	}
	if got := find(all...).Status; len(got.UnreportedNodes) != mostNames || got.Unreported != 102 {
		t.Errorf("%d of %d unreported", len(got.UnreportedNodes), got.Unreported)
	}
}

// randomNodes are nodes of a few generations, some of which lack a feature or a model, or are of another vendor.
func randomNodes(r *rand.Rand) (nodes []node) {
	models := generations["Intel"]
	for i := range 1 + r.IntN(7) {
		generation := 2 + r.IntN(4)
		n := node{name: fmt.Sprintf("n%d", i), vendor: "Intel", models: strings.Join(models[:generation], " ")}
		for f := range 3 * generation {
			if r.IntN(6) > 0 {
				n.features += fmt.Sprintf(" f%d", f)
			}
		}
		if r.IntN(20) == 0 {
			n.vendor = "AMD"
		}
		if r.IntN(20) == 0 {
			n.features = ""
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// TestProperties: of random nodes, the order never matters, a node that is added never adds a feature or a newer model, and without the nodes of a limit the
// others have exactly what the limit says.
func TestProperties(t *testing.T) {
	t.Parallel()
	limited := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 44))
		nodes := randomNodes(r)
		got := find(nodes...)
		shuffled := slices.Clone(nodes)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(got, find(shuffled...)); diff != "" {
			t.Fatalf("seed %d: the order matters:\n%s", seed, diff)
		}
		before := find(nodes[1:]...)
		if before.Reason == v1alpha1.ReasonCommon && got.Reason == v1alpha1.ReasonCommon {
			if len(lackedNames(got.Status.Features, before.Status.Features)) > 0 || IsOlder("Intel", before.Status.Model, got.Status.Model) {
				t.Fatalf("seed %d: %v adds to %v: %v", seed, nodes[0], before.Status, got.Status)
			}
		}
		for _, l := range got.Status.LimitedBy {
			limited++
			rest := find(slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return slices.Contains(l.Names, n.name) })...).Status
			gained := lackedNames(rest.Features, got.Status.Features)
			model := rest.Model
			if model == got.Status.Model {
				model = ""
			}
			if model != l.Model || len(gained) != int(l.Features) || !slices.Equal(gained, l.FeatureNames) {
				t.Fatalf("seed %d: without %v: model '%s', features %v; the status says %+v", seed, l.Names, model, gained, l)
			}
		}
	}
	if limited < 1000 {
		t.Errorf("only %d limits were compared", limited)
	}
}

// TestModels: which models count, and which of two is newer.
func TestModels(t *testing.T) {
	t.Parallel()
	for vendor, text := range map[string]string{
		"Intel": "qemu64 kvm64 Conroe-v1 Conroe Penryn Nehalem Nehalem-IBRS Westmere Denverton Snowridge SandyBridge SandyBridge-IBRS IvyBridge " +
			"Haswell-v1 Haswell-v4 Haswell-noTSX Haswell Haswell-noTSX-IBRS Haswell-IBRS Broadwell-noTSX-IBRS Broadwell-IBRS Skylake-Client-noTSX-IBRS " +
			"Skylake-Server-v5 Skylake-Server Skylake-Server-IBRS Cascadelake-Server-noTSX Cascadelake-Server Cooperlake Icelake-Client Icelake-Server-v2 " +
			"Icelake-Server-v10 Icelake-Server-noTSX Icelake-Server SapphireRapids-v2 SapphireRapids SierraForest GraniteRapids ClearwaterForest DiamondRapids",
		"AMD": "qemu64 kvm64 Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 EPYC-v4 EPYC EPYC-IBPB EPYC-Rome-v4 EPYC-Rome EPYC-Milan EPYC-Genoa " +
			"EPYC-Turin-v1 EPYC-Turin",
		"Hygon": "kvm64 Dhyana-v2 Dhyana",
		"IBM":   "z10EC z114 z196.2 zEC12-base zEC12 z13s z13 z13.2-base z13.2 z14ZR1 z14 gen15a-base gen15a gen16a gen17a",
		"Other": "qemu64 kvm64",
	} {
		names := strings.Fields(text)
		for i, name := range names {
			if _, counts := ageOf(vendor, name); !counts {
				t.Errorf("%s of %s does not count", name, vendor)
			}
			if i > 0 && (!IsOlder(vendor, names[i-1], name) || IsOlder(vendor, name, names[i-1])) {
				t.Errorf("%s: %s is not older than %s", vendor, names[i-1], name)
			}
		}
	}
	for vendor, text := range map[string]string{
		"Intel": "EPYC Opteron_G1 athlon 486 n270 core2duo NewLake z14 Haswell-v0 -v1", "AMD": "Nehalem phenom", "IBM": "kvm64 max",
	} {
		for name := range strings.FieldsSeq(text) {
			if _, counts := ageOf(vendor, name); counts {
				t.Errorf("%s of %s counts", name, vendor)
			}
		}
	}
}

// BenchmarkFind is the judgement of 1,000 nodes of five generations, each with 250 labels.
func BenchmarkFind(b *testing.B) {
	var all []map[string]string
	for i := range 1000 {
		n := node{vendor: "Intel", models: strings.Join(generations["Intel"][:8+i%5], " ")}
		for f := range 230 + i%5 {
			n.features += fmt.Sprintf(" feature-%d", f)
		}
		labels := n.labels()
		for k := range 20 {
			labels[fmt.Sprintf("example.org/label-%d", k)] = "x"
		}
		all = append(all, labels)
	}
	b.ReportAllocs()
	for b.Loop() {
		nodes := NewNodes(nodecpu.FromKubeVirt)
		for i, labels := range all {
			nodes.AddNode(fmt.Sprintf("node-%d", i), labels)
		}
		if got := nodes.Find(); got.Status.Nodes != 1000 || len(got.Status.Features) != 230 || len(got.Status.LimitedBy) != 1 {
			b.Fatalf("%+v", got)
		}
	}
}
