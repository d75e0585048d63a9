package guestprofile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeWith is a node of a pool whose agent reports models and features of Intel.
func nodeWith(name, pool, models, features string) *corev1.Node {
	offer := nodecpu.Offer{Vendor: "Intel", Models: map[string]bool{}, Features: map[string]bool{}}
	for model := range strings.FieldsSeq(models) {
		offer.Models[model] = true
	}
	for feature := range strings.FieldsSeq(features) {
		offer.Features[feature] = true
	}
	labels := nodecpu.FromKubeVirt.Labels(offer)
	labels["pool"] = pool
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// shared returns the stored ClusterGuestProfile.
func (c *cluster) shared(t *testing.T) *v1alpha1.ClusterGuestProfile {
	t.Helper()
	p := &v1alpha1.ClusterGuestProfile{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "shared"}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// expectCPU runs the controller until the profile is judged with its CPU, and compares the status.
func (c *cluster) expectCPU(t *testing.T, when, cpu, condition, accepted string) {
	t.Helper()
	c.run(t)
	c.run(t)
	p := c.shared(t)
	got := ""
	if found := p.Status.CommonCPU; found != nil {
		got = found.Model + " " + strings.Join(found.Features, ",")
	}
	if got != cpu {
		t.Errorf("%s: the CPU is '%s', want '%s'", when, got, cpu)
	}
	for of, want := range map[string]string{v1alpha1.ConditionCommonCPU: condition, v1alpha1.ConditionAccepted: accepted} {
		text := ""
		if found := meta.FindStatusCondition(p.Status.Conditions, of); found != nil {
			text = fmt.Sprintf("%s %s", found.Status, found.Reason)
		}
		if text != want {
			t.Errorf("%s: %s is '%s', want '%s': %+v", when, of, text, want, p.Status.Conditions)
		}
	}
}

// withCPU is a cluster with a profile of the nodes of a pool, and the time of its controller.
func withCPU(t *testing.T, objects ...client.Object) (c *cluster, now *time.Time) {
	t.Helper()
	c = newCluster(t, append(objects, object[v1alpha1.ClusterGuestProfile](t, "{metadata: {name: shared, uid: s, generation: 1}, spec: {selector: {}, "+
		"commonCPU: {nodeSelector: {matchLabels: {pool: a}}}}}"), object[corev1.Namespace](t, "{metadata: {name: team}}"))...)
	now = new(time.Time)
	*now = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	c.controller = &Controller{Client: c, Cached: c, Configuration: besideKubeVirt, Now: func() time.Time { return *now }}
	return c, now
}

const (
	common  = "True " + v1alpha1.ReasonCommon
	growing = "True " + v1alpha1.ReasonGrowing
	taken   = "True " + v1alpha1.ReasonAccepted
)

// TestCommonCPU: the status follows the nodes of the selector: at once if they have less in common, after some minutes if they have more, and never if they
// have nothing in common.
func TestCommonCPU(t *testing.T) {
	t.Parallel()
	c, now := withCPU(t, nodeWith("elsewhere", "b", "Haswell", "aes"))
	apply := func(change func(context.Context, client.Object) error, node *corev1.Node) {
		t.Helper()
		if err := change(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	create := func(ctx context.Context, o client.Object) error { return c.Create(ctx, o) }
	remove := func(ctx context.Context, o client.Object) error { return c.Delete(ctx, o) }
	c.expectCPU(t, "no node", " ", "False "+v1alpha1.ReasonNoNodes, "False "+v1alpha1.ReasonCommonCPUMissing)
	apply(create, nodeWith("n1", "a", "Haswell Skylake-Server", "aes avx2 avx512f"))
	c.expectCPU(t, "the first node", "Skylake-Server aes,avx2,avx512f", common, taken)
	weak := nodeWith("n2", "a", "Haswell", "aes avx2")
	apply(create, weak)
	c.expectCPU(t, "a weaker node", "Haswell aes,avx2", common, taken)
	limits := c.shared(t).Status.CommonCPU.LimitedBy
	if len(limits) != 1 || limits[0].Names[0] != "n2" || limits[0].Model != "Skylake-Server" || limits[0].FeatureNames[0] != "avx512f" {
		t.Errorf("limits %+v", limits)
	}
	apply(remove, weak)
	c.expectCPU(t, "the weaker node vanishes", "Haswell aes,avx2", growing, taken)
	if result, err := c.controller.Reconcile(t.Context(), ofCluster); err != nil || result.RequeueAfter != growAfter {
		t.Errorf("it is judged again after %s: %v", result.RequeueAfter, err)
	}
	*now = now.Add(growAfter - time.Second)
	c.expectCPU(t, "for some minutes", "Haswell aes,avx2", growing, taken)
	apply(create, nodeWith("n2", "a", "Haswell", "aes avx2"))
	c.expectCPU(t, "it is back", "Haswell aes,avx2", common, taken)
	apply(remove, nodeWith("n2", "a", "", ""))
	*now = now.Add(growAfter)
	c.expectCPU(t, "it vanishes again", "Haswell aes,avx2", growing, taken)
	*now = now.Add(growAfter)
	c.expectCPU(t, "for long", "Skylake-Server aes,avx2,avx512f", common, taken)
	lie := nodeWith("n3", "a", "", "")
	lie.Labels = nodecpu.FromKubeVirt.Labels(nodecpu.Offer{Vendor: "AMD", Features: map[string]bool{"aes": true}})
	lie.Labels["pool"] = "a"
	apply(create, lie)
	c.expectCPU(t, "a node of another vendor", "Skylake-Server aes,avx2,avx512f", "False "+v1alpha1.ReasonVendorsDiffer, taken)
	if text := meta.FindStatusCondition(c.shared(t).Status.Conditions, v1alpha1.ConditionCommonCPU).Message; !strings.Contains(text, "n3") ||
		!strings.Contains(text, "New VMs get the last CPU in common, model 'Skylake-Server'") {
		t.Error(text)
	}
	apply(remove, lie)
	apply(remove, nodeWith("n1", "a", "", ""))
	c.expectCPU(t, "no node is left", "Skylake-Server aes,avx2,avx512f", "False "+v1alpha1.ReasonNoNodes, taken)
	before := c.writes
	if c.run(t); c.writes != before {
		t.Errorf("%d writes, although nothing has changed", c.writes-before)
	}
	edit := func(change func(*v1alpha1.ClusterGuestProfile)) {
		t.Helper()
		p := c.shared(t)
		p.Generation++
		if change(p); c.Update(t.Context(), p) != nil {
			t.Fatal("not edited")
		}
	}
	edit(func(p *v1alpha1.ClusterGuestProfile) { p.Spec.CommonCPU.NodeSelector = nil })
	c.expectCPU(t, "all nodes", "Haswell aes", common, taken)
	apply(create, nodeWith("n1", "a", "Haswell Skylake-Server", "aes avx2 avx512f"))
	edit(func(p *v1alpha1.ClusterGuestProfile) {
		p.Spec.CommonCPU.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}
	})
	c.expectCPU(t, "who edits the selector does not wait", "Skylake-Server aes,avx2,avx512f", common, taken)
	edit(func(p *v1alpha1.ClusterGuestProfile) {
		p.Spec.Template.Spec.Raw = []byte(`{"domain":{"cpu":{"model":"EPYC"}}}`)
	})
	c.expectCPU(t, "a mistake", "Skylake-Server aes,avx2,avx512f", common, "False "+v1alpha1.ReasonInvalidField)
	edit(func(p *v1alpha1.ClusterGuestProfile) { p.Spec.CommonCPU, p.Spec.Template.Spec.Raw = nil, nil })
	c.expectCPU(t, "without the field", "", "", taken)
}

// TestCommonCPUConflicts: two profiles that fill different CPUs are in conflict, and a profile that extends one without a CPU is not accepted.
func TestCommonCPUConflicts(t *testing.T) {
	t.Parallel()
	c, _ := withCPU(t, object[v1alpha1.ClusterGuestProfile](t, "{metadata: {name: other, uid: o}, spec: {selector: {}, template: {spec: {domain: {cpu: "+
		"{model: EPYC}}}}}}"), own(t, "above", "extends: [{kind: ClusterGuestProfile, name: shared}]"))
	c.run(t)
	if got := meta.FindStatusCondition(c.status(t, "above").Conditions, v1alpha1.ConditionAccepted); got.Reason != v1alpha1.ReasonCommonCPUMissing ||
		!strings.Contains(got.Message, "ClusterGuestProfile 'shared'") {
		t.Errorf("%+v", got)
	}
	if err := c.Create(t.Context(), nodeWith("n1", "a", "Haswell", "aes")); err != nil {
		t.Fatal(err)
	}
	c.run(t)
	c.run(t)
	if got := meta.FindStatusCondition(c.status(t, "above").Conditions, v1alpha1.ConditionAccepted); got.Reason != v1alpha1.ReasonAccepted {
		t.Errorf("%+v", got)
	}
	if got := meta.FindStatusCondition(c.shared(t).Status.Conditions, v1alpha1.ConditionConflicting); got.Status != metav1.ConditionTrue ||
		!strings.Contains(got.Message, "ClusterGuestProfile 'other' (spec.domain.cpu.model)") {
		t.Errorf("%+v", got)
	}
}

// listing counts the lists of nodes.
type listing struct {
	client.Reader
	nodes int
}

func (l *listing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*corev1.NodeList); is {
		l.nodes++
	}
	return l.Reader.List(ctx, list, options...)
}

// TestNodesAreReadOnChanges: nodes are watched from the first profile with spec.commonCPU on, and read again only after one of them has changed.
func TestNodesAreReadOnChanges(t *testing.T) {
	t.Parallel()
	c, _ := withCPU(t, nodeWith("n1", "a", "Haswell", "aes"))
	reads, followed := &listing{Reader: c}, 0
	c.controller.Cached = reads
	c.controller.follow = func(context.Context) error { followed++; return nil }
	for range 5 {
		c.run(t)
	}
	if reads.nodes != 1 || followed != 1 {
		t.Errorf("%d lists of nodes, watched %d times", reads.nodes, followed)
	}
	c.controller.noteNodes()
	c.run(t)
	c.run(t)
	if reads.nodes != 2 {
		t.Errorf("%d lists of nodes after a change", reads.nodes)
	}
	if err := c.Delete(t.Context(), c.shared(t)); err != nil {
		t.Fatal(err)
	}
	c.controller.noteNodes()
	if c.run(t); reads.nodes != 2 || len(c.controller.common) > 0 {
		t.Errorf("%d lists of nodes without a profile, %d CPUs are kept", reads.nodes, len(c.controller.common))
	}
}

// besideKubeVirt is the configuration of a cluster whose guests KubeVirt runs: the labels of its node-labeller count.
func besideKubeVirt() config.Cluster {
	cluster := config.Default()
	cluster.Limits.KubeVirtGuests = true
	return cluster
}
