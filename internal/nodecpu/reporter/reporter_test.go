package reporter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/test/poll"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// machine is a Reporter with its Node.
type machine struct {
	*testing.T
	*Reporter
	// writes counts the patches. asked counts the questions to libvirt.
	writes, asked int
}

// newMachine returns a machine whose Node has labels of others and of an earlier report.
func newMachine(t *testing.T, answer func() (hypervisor.OfferedCPUs, error)) *machine {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"of": "others"},
		Labels: map[string]string{"zone": "a", "kilnvm.io/kvm": "true", "cpu-feature.node.kubevirt.io/hle": "true", "cpu-feature.kilnvm.io/hle": "true",
			"cpu-feature.kilnvm.io/avx2": "false", "cpu-model.kilnvm.io/Haswell": "true", "cpu-vendor.kilnvm.io/Intel": "true", "kilnvm.io/cpu-emulated": "true"}}}
	m := &machine{T: t}
	cluster := fake.NewClientBuilder().WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			m.writes++
			return c.Patch(ctx, o, p, opts...)
		}}).Build()
	m.Reporter = &Reporter{Node: "n", Cluster: cluster, Log: logr.Discard(), Ask: func(context.Context) (hypervisor.OfferedCPUs, error) {
		m.asked++
		return answer()
	}}
	return m
}

func (m *machine) node() *corev1.Node {
	m.Helper()
	node := &corev1.Node{}
	if err := m.Cluster.Get(m.Context(), client.ObjectKey{Name: "n"}, node); err != nil {
		m.Fatal(err)
	}
	return node
}

// report is one round of Run.
func (m *machine) report() string {
	m.Helper()
	if m.labels == nil {
		m.askLibvirt(m.Context())
	}
	if err := m.writeNode(m.Context()); err != nil {
		m.Fatal(err)
	}
	return strings.Join(slices.Sorted(maps.Keys(m.node().Labels)), " ")
}

// TestReports: labels are added and removed by what libvirt offers, also after somebody has changed them. Labels of others stay. libvirt is asked once.
func TestReports(t *testing.T) {
	m := newMachine(t, func() (hypervisor.OfferedCPUs, error) {
		cpu := &v1alpha1.ReportedCPU{Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "sse4.1", strings.Repeat("x", 64)}}
		return hypervisor.OfferedCPUs{HostModel: cpu, Models: []string{"EPYC", "no/label"}}, nil
	})
	const want = "cpu-feature.kilnvm.io/avx2 cpu-feature.kilnvm.io/sse4.1 cpu-feature.node.kubevirt.io/hle cpu-model.kilnvm.io/EPYC cpu-vendor.kilnvm.io/AMD " +
		"kilnvm.io/kvm zone"
	for _, step := range []struct {
		why    string
		change func(*corev1.Node)
		writes int
	}{
		{"the first report", func(*corev1.Node) {}, 1},
		{"nothing has changed", func(*corev1.Node) {}, 0},
		{"somebody removes a label", func(node *corev1.Node) { delete(node.Labels, "cpu-feature.kilnvm.io/avx2") }, 1},
		{"or gives it another value", func(node *corev1.Node) { node.Labels["cpu-feature.kilnvm.io/avx2"] = "false" }, 1},
		{"or adds one", func(node *corev1.Node) { node.Labels["cpu-feature.kilnvm.io/hle"] = "true" }, 1},
	} {
		node := m.node()
		step.change(node)
		if err := m.Cluster.Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		m.writes = 0
		if got := m.report(); got != want || m.writes != step.writes || m.node().Labels["cpu-feature.kilnvm.io/avx2"] != "true" {
			t.Errorf("%s: %d writes, labels '%s'", step.why, m.writes, got)
		}
	}
	if m.asked != 1 || m.node().Annotations["of"] != "others" {
		t.Errorf("libvirt was asked %d times; annotations %v", m.asked, m.node().Annotations)
	}
}

// TestFailure: labels stay after a failure, whose reason is in an annotation until libvirt answers.
func TestFailure(t *testing.T) {
	fails := true
	m := newMachine(t, func() (hypervisor.OfferedCPUs, error) {
		if fails {
			return hypervisor.OfferedCPUs{}, errors.New("no\nlibvirt" + strings.Repeat("x", 100_000))
		}
		return hypervisor.OfferedCPUs{Emulated: true, HostModel: &v1alpha1.ReportedCPU{Model: "max", Features: []string{"pcommit"}}}, nil
	})
	before := strings.Join(slices.Sorted(maps.Keys(m.node().Labels)), " ")
	for range 2 {
		got, failure := m.report(), m.node().Annotations["kilnvm.io/cpu-failure"]
		if got != before || !strings.HasPrefix(failure, "no libvirt") || len(failure) > 4096 {
			t.Errorf("labels '%s', %d bytes of failure: %.100s", got, len(failure), failure)
		}
	}
	fails = false
	const want = "cpu-feature.kilnvm.io/pcommit cpu-feature.node.kubevirt.io/hle kilnvm.io/cpu-emulated kilnvm.io/kvm zone"
	if got, failure := m.report(), m.node().Annotations["kilnvm.io/cpu-failure"]; got != want || failure != "" || m.asked != 3 {
		t.Errorf("labels '%s', want '%s'; failure '%s', libvirt was asked %d times", got, want, failure, m.asked)
	}
}

// TestManyModels: the number of labels is bounded, whatever libvirt says.
func TestManyModels(t *testing.T) {
	m := newMachine(t, func() (o hypervisor.OfferedCPUs, err error) {
		for i := range 10 * mostModels {
			o.Models = append(o.Models, fmt.Sprint("model-", i))
		}
		return o, nil
	})
	if m.report(); len(m.node().Labels) != mostModels+3 { // of others
		t.Errorf("%d labels", len(m.node().Labels))
	}
}

// TestRun: it reports until it is stopped.
func TestRun(t *testing.T) {
	m := newMachine(t, func() (hypervisor.OfferedCPUs, error) { return hypervisor.OfferedCPUs{}, nil })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { m.Reporter.Run(ctx); close(ended) }()
	if !poll.Until(time.Minute, func() bool { return len(m.node().Labels) == 3 }) {
		t.Errorf("labels: %v", m.node().Labels)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}
