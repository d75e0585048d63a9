package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// newNode returns a node with the labels that the node-labeller of KubeVirt writes.
func newNode(name string, features ...string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, feature := range features {
		node.Labels[v1.CPUFeatureLabel+feature] = "true"
	}
	return node
}

// hostModel returns a CPU that was recorded for host-model.
func hostModel(features ...string) *record.CPU {
	slices.Sort(features)
	return &record.CPU{Requested: "host-model", Model: "EPYC", Features: features}
}

// TestJudge: the order of nodes has no effect, and nodes that report nothing are named apart.
func TestJudge(t *testing.T) {
	t.Parallel()
	nodes := []corev1.Node{newNode("d"), newNode("b", "sse2"), newNode("c", "hle", "sse2"), newNode("a", "rtm", "sse2")}
	want := Judgement{Offering: []string{"c"}, Silent: []string{"d"}, Lacking: []Lacking{
		{"a", nodecpu.Lack{Features: []string{"hle"}}}, {"b", nodecpu.Lack{Features: []string{"hle"}}}}}
	for range 2 {
		fleet := New(nodecpu.FromKubeVirt, nodes)
		got := fleet.Judge(hostModel("hle", "sse2"), &corev1.Pod{})
		if reports, silent := fleet.Nodes(); !slices.Equal(reports, []string{"a", "b", "c"}) || !slices.Equal(silent, []string{"d"}) {
			t.Errorf("%q report, %q do not", reports, silent)
		}
		if diff := cmp.Diff(want, got); diff != "" || got.Outlook() != Somewhere {
			t.Errorf("%s (-want +got):\n%s", got.Outlook(), diff)
		}
		slices.Reverse(nodes)
	}
	for outlook, cpu := range map[Outlook]*record.CPU{
		Everywhere: hostModel("sse2"), Nowhere: hostModel("hle", "rtm"), Somewhere: hostModel("rtm"),
	} {
		if got := New(nodecpu.FromKubeVirt, nodes).Judge(cpu, &corev1.Pod{}); got.Outlook() != outlook || (got.Describe() == "") != (outlook == Everywhere) {
			t.Errorf("%s, want %s: %s", got.Outlook(), outlook, got.Describe())
		}
	}
	if silent := New(nodecpu.FromKiln, nodes); silent.Judge(hostModel("sse2"), &corev1.Pod{}).Outlook() != Unreported {
		t.Error("labels of another agent count")
	}
}

// TestNearest: the message names the node that lacks the fewest features.
func TestNearest(t *testing.T) {
	t.Parallel()
	fleet := New(nodecpu.FromKubeVirt, []corev1.Node{newNode("a", "sse2"), newNode("b", "hle", "sse2"), newNode("c", "rtm", "sse2")})
	got := fleet.Judge(hostModel("hle", "rtm", "sse2"), &corev1.Pod{}).Describe()
	if want := "no node offers the recorded CPU; missing on node 'b': CPU features rtm"; got != want {
		t.Errorf("'%s', want '%s'", got, want)
	}
}

// TestMitigations: a mitigation is named if every node that reports has it, and the guest may not see what a named model implies.
func TestMitigations(t *testing.T) {
	t.Parallel()
	fleet := New(nodecpu.FromKubeVirt, []corev1.Node{newNode("a", "md-clear", "spec-ctrl", "ssbd", "avx2", "sse2"), newNode("b", "md-clear", "ssbd", "sse2"),
		newNode("c")})
	if got := fleet.Judge(hostModel("sse2", "ssbd"), &corev1.Pod{}).Mitigations; !slices.Equal(got, []string{"md-clear"}) {
		t.Errorf("lacks %q", got)
	}
	named := &record.CPU{Requested: "Haswell", Model: "Haswell"}
	if got := fleet.Judge(named, &corev1.Pod{}).Mitigations; got != nil {
		t.Errorf("a named model lacks %q", got)
	}
	if sorted := slices.Sorted(slices.Values(mitigations)); len(slices.Compact(sorted)) != len(mitigations) {
		t.Error("a mitigation is listed twice")
	}
}

// TestSummaries: guests with other CPUs or selectors are not taken for one another.
func TestSummaries(t *testing.T) {
	t.Parallel()
	old := newNode("a", "hle", "sse2")
	old.Labels["pool"] = "old"
	fleet := New(nodecpu.FromKubeVirt, []corev1.Node{old, newNode("b", "sse2")})
	pooled := PodOf(&v1.VirtualMachineInstanceSpec{NodeSelector: map[string]string{"pool": "old"}})
	for range 2 {
		for i, want := range []Outlook{Somewhere, Everywhere, Everywhere, Nowhere} {
			cpu, pod := hostModel("hle"), &corev1.Pod{}
			switch i {
			case 1:
				pod = pooled
			case 2:
				cpu = hostModel("sse2")
			case 3:
				cpu = hostModel("h", "le")
			}
			if got, err := fleet.Summarize(cpu, pod); err != nil || got.Outlook != want {
				t.Errorf("%d: %s, want %s: %v", i, got.Outlook, want, err)
			}
		}
	}
}

// BenchmarkSummarize is a round of 10,000 guests of 20 CPUs on 1,000 nodes of 5 offers.
func BenchmarkSummarize(b *testing.B) {
	var nodes []corev1.Node
	var features []string
	for i := range 100 {
		features = append(features, fmt.Sprintf("feature-%03d", i))
	}
	for i := range 1000 {
		nodes = append(nodes, newNode(fmt.Sprint("node-", i), features[i%5:]...))
	}
	for b.Loop() {
		began := time.Now()
		fleet := New(nodecpu.FromKubeVirt, nodes)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-of-labels")
		for i := range 10_000 {
			if _, err := fleet.Summarize(hostModel(features[i%20:]...), PodOf(&v1.VirtualMachineInstanceSpec{Architecture: "amd64"})); err != nil {
				b.Fatal(err)
			}
		}
	}
}
