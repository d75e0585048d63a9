package observer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu/fleet"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// cluster is a fake cluster with a controller, whose writes it counts.
type cluster struct {
	testing.TB
	client.WithWatch
	controller *Controller
	writes     int
	// failing returns the error of a write.
	failing func(client.Object) error
	now     time.Time
}

func newCluster(t testing.TB, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), v1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &cluster{TB: t, now: time.Unix(1_000_000, 0)}
	c.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.GuestHardware{}).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, inner client.Client, name string, object client.Object,
			patch client.Patch, options ...client.SubResourcePatchOption) error {
			c.writes++
			if c.failing != nil {
				if err := c.failing(object); err != nil {
					return err
				}
			}
			return inner.SubResource(name).Patch(ctx, object, patch, options...)
		}}).Build()
	c.controller = &Controller{Client: c, Cached: c, Configuration: config.Default, Now: func() time.Time { return c.now }}
	return c
}

// newNode returns a node whose agent reports features; without features it reports nothing.
func newNode(name string, features ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelArchStable: "amd64"}}}
	for _, feature := range features {
		node.Labels[v1alpha1.LabelCPUFeature+feature] = "true"
	}
	return node
}

// newHardware returns the GuestHardware of a guest that booted with host-model.
func newHardware(name string, features ...string) *v1alpha1.GuestHardware {
	slices.Sort(features)
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	hardware.Spec.Hardware = &v1alpha1.HardwareRecord{CPU: &record.CPU{Requested: "host-model", Model: "EPYC", Features: features,
		Topology: record.Topology{Sockets: 1, Cores: 1, Threads: 1}}}
	return hardware
}

// round makes a round, and returns how many conditions it wrote.
func (c *cluster) round() int {
	c.Helper()
	c.writes = 0
	c.now = c.now.Add(time.Hour)
	if _, err := c.controller.Reconcile(c.Context(), ctrl.Request{}); err != nil {
		c.Error(err)
	}
	return c.writes
}

// reasons returns the reason of the condition of each guest that has one.
func (c *cluster) reasons() string {
	c.Helper()
	var list v1alpha1.GuestHardwareList
	if err := c.List(c.Context(), &list); err != nil {
		c.Fatal(err)
	}
	var texts []string
	for i := range list.Items {
		if found := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1alpha1.ConditionCPUOffered); found != nil {
			texts = append(texts, fmt.Sprintf("%s %s %s", list.Items[i].Name, found.Status, found.Reason))
		}
	}
	return strings.Join(texts, ", ")
}

// expect makes a round, and compares the conditions.
func (c *cluster) expect(why, want string, writes int) {
	c.Helper()
	wrote := c.round()
	if got := c.reasons(); got != want || wrote != writes {
		c.Errorf("%s: %d writes, want %d:\n%s\nwant\n%s", why, wrote, writes, got, want)
	}
	if wrote = c.round(); wrote != 0 {
		c.Errorf("%s: the next round writes %d conditions", why, wrote)
	}
}

func (c *cluster) message(name string) string {
	c.Helper()
	return c.condition(name, v1alpha1.ConditionCPUOffered).Message
}

// condition returns a condition of a guest, nil if the guest does not have it.
func (c *cluster) condition(name, kind string) *metav1.Condition {
	c.Helper()
	hardware := &v1alpha1.GuestHardware{}
	if err := c.Get(c.Context(), client.ObjectKey{Namespace: "shop", Name: name}, hardware); err != nil {
		c.Fatal(err)
	}
	return meta.FindStatusCondition(hardware.Status.Conditions, kind)
}

func (c *cluster) relabel(name string, features ...string) {
	c.Helper()
	changed := newNode(name, features...)
	if err := c.Update(c.Context(), changed); err != nil {
		c.Fatal(err)
	}
}

// TestFeatureVanishes: nodes lose TSX one after the other, and exactly the guests with TSX are named before they start again. A new record ends it.
func TestFeatureVanishes(t *testing.T) {
	c := newCluster(t, newNode("a", "hle", "rtm", "sse2"), newNode("b", "hle", "rtm", "sse2"), newHardware("tsx", "hle", "rtm", "sse2"),
		newHardware("web", "sse2"), &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}})
	c.expect("all nodes offer all", "tsx True EveryNodeOffers, web True EveryNodeOffers", 2)
	c.relabel("b", "sse2")
	c.expect("a node lost a feature", "tsx True SomeNodesLack, web True EveryNodeOffers", 1)
	if got, want := c.message("tsx"), "some nodes lack the recorded CPU; missing on node 'b': CPU features hle, rtm"; got != want {
		t.Errorf("'%s', want '%s'", got, want)
	}
	c.relabel("a", "rtm", "sse2")
	c.expect("the other one, too", "tsx False NoNodeOffers, web True EveryNodeOffers", 1)
	if got := c.message("tsx"); !strings.HasPrefix(got, "no node offers the recorded CPU; missing on node 'a': CPU features hle. With 'kubectl kiln repin") {
		t.Error(got)
	}
	for outlook, want := range map[fleet.Outlook]float64{fleet.Everywhere: 1, fleet.Somewhere: 0, fleet.Nowhere: 1, fleet.Unreported: 0, unrecorded: 1} {
		if got := testutil.ToFloat64(guestCPUs.WithLabelValues(string(outlook))); got != want {
			t.Errorf("%v guests are %s, want %v", got, outlook, want)
		}
	}
	forgotten := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"hardware": {"cpu": {"requested": "none"}}}}`))
	if err := c.Patch(t.Context(), newHardware("tsx"), forgotten); err != nil {
		t.Fatal(err)
	}
	c.expect("the next boot records another CPU", "web True EveryNodeOffers", 1)
}

// TestFirstSeen: a guest that had booted before its CPU was recorded has a condition with this CPU, also if no node reports CPUs. 'repin --cpu' ends it. A
// guest with host-passthrough keeps no CPU, and has no such condition.
func TestFirstSeen(t *testing.T) {
	seen, host := newHardware("seen", "hle", "sse2"), newHardware("host", "sse2")
	seen.Spec.Hardware.CPU.FirstSeen, host.Spec.Hardware.CPU.FirstSeen, host.Spec.Hardware.CPU.Requested = true, true, "host-passthrough"
	c := newCluster(t, newNode("a"), seen, host, newHardware("web", "sse2"))
	message := func() string {
		var texts []string
		for _, name := range []string{"seen", "host", "web"} {
			if found := c.condition(name, v1alpha1.ConditionCPUFirstSeen); found != nil {
				texts = append(texts, fmt.Sprintf("%s %s %s: %s", name, found.Status, found.Reason, found.Message))
			}
		}
		return strings.Join(texts, "\n")
	}
	c.expect("nothing reports", "", 1)
	const want = "seen True BootedBefore: the guest had booted before its CPU was recorded. The CPU that was seen first is 'EPYC' with 2 features. Whether " +
		"earlier boots had it cannot be known. Later boots have it: nothing has to be done. With 'kubectl kiln repin --cpu' the next boot records the CPU of its node"
	if got := message(); got != want {
		t.Errorf("'%s', want '%s'", got, want)
	}
	c.relabel("a", "sse2")
	c.expect("a node reports", "host True EveryNodeOffers, seen False NoNodeOffers, web True EveryNodeOffers", 3)
	if got := message(); got != want {
		t.Errorf("beside CPUOffered: '%s', want '%s'", got, want)
	}
	forgotten := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"hardware": {"cpu": {"requested": "none", "firstSeen": null}}}}`))
	if err := c.Patch(t.Context(), newHardware("seen"), forgotten); err != nil {
		t.Fatal(err)
	}
	c.expect("the next boot records another CPU", "host True EveryNodeOffers, web True EveryNodeOffers", 1)
	if got := message(); got != "" {
		t.Error(got)
	}
}

// TestUnreportedNodes: without a report there is no condition, and a node that reports nothing is no node that lacks something.
func TestUnreportedNodes(t *testing.T) {
	c := newCluster(t, newNode("a"), newNode("b"), newHardware("web", "sse2"))
	c.expect("no agent", "", 0)
	c.relabel("a", "sse2")
	c.expect("one node reports", "web True EveryNodeOffers", 1)
	c.relabel("a")
	c.expect("the agent has gone", "", 1)
}

// TestSelectedNodes: only nodes count that the guest may start on, by its VMI, and otherwise by the template of the VM.
func TestSelectedNodes(t *testing.T) {
	old, arm := newNode("old", "hle", "sse2"), newNode("arm", "asimd")
	old.Labels["pool"], arm.Labels[corev1.LabelArchStable] = "old", "arm64"
	tainted := newNode("tainted", "sse2")
	tainted.Spec.Taints = []corev1.Taint{{Key: "control-plane", Effect: corev1.TaintEffectNoSchedule}}
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "vm"}}
	vm.Annotations = map[string]string{v1alpha1.AnnotationArchitecture: "amd64"}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	runs := vm.DeepCopy()
	runs.Name = "runs"
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "runs"}}
	vmi.Spec.Architecture, vmi.Spec.NodeSelector = "amd64", map[string]string{"pool": "old"}
	c := newCluster(t, old, newNode("new", "sse2"), arm, tainted, vm, runs, vmi, newHardware("vm", "hle", "sse2"), newHardware("runs", "hle", "sse2"))
	c.expect("selectors", "runs True EveryNodeOffers, vm True SomeNodesLack", 2)
	if got := c.message("vm"); !strings.Contains(got, "node 'new'") {
		t.Error(got)
	}
	if err := c.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	c.expect("the pool has gone", "vm False NoNodeOffers", 2)
}

// TestManyConditions: a round writes a bounded number of conditions, and the next one the others. A conflict is no error. A round that takes long is followed
// by a rest.
func TestManyConditions(t *testing.T) {
	objects := []client.Object{newNode("a", "sse2")}
	for i := range mostWrites + 1 {
		objects = append(objects, newHardware(fmt.Sprint("vm-", i), "sse2"))
	}
	c := newCluster(t, objects...)
	if wrote := c.round(); wrote != mostWrites {
		t.Errorf("the first round writes %d conditions, want %d", wrote, mostWrites)
	}
	c.failing = func(object client.Object) error {
		c.now = c.now.Add(time.Second)
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("guesthardwares").GroupResource(), object.GetName(), nil)
	}
	result, err := c.controller.Reconcile(t.Context(), ctrl.Request{})
	if err != nil || result.RequeueAfter != pause {
		t.Errorf("a conflict is tried again after %s: %v", result.RequeueAfter, err)
	}
	if result, err = c.controller.Reconcile(t.Context(), ctrl.Request{}); err != nil || result.RequeueAfter != share*time.Second {
		t.Errorf("after a round of a second, the next one waits %s: %v", result.RequeueAfter, err)
	}
	c.failing = nil
	if wrote := c.round(); wrote != 1 {
		t.Errorf("the last round writes %d conditions", wrote)
	}
}

// TestForgedCPUs: a record that no boot can have written has no condition, and the longest names make no long message.
func TestForgedCPUs(t *testing.T) {
	forged := newHardware("forged", "sse2")
	forged.Spec.Hardware.CPU.Features = []string{"a\nb", strings.Repeat("x", 100_000)}
	var long []string
	for i := range v1alpha1.MostCPUFeatures {
		long = append(long, fmt.Sprintf("%s%04d", strings.Repeat("x", v1alpha1.LongestCPUName-4), i))
	}
	c := newCluster(t, newNode("a", "sse2"), forged, newHardware("long", long...))
	c.expect("forged", "long False NoNodeOffers", 1)
	if got := c.message("long"); len(got) > 2000 || !strings.Contains(got, "1012 more features") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// TestEvents: heartbeats and boots with the same CPU cause no round.
func TestEvents(t *testing.T) {
	node, hardware := newNode("a", "sse2"), newHardware("web", "sse2")
	for why, change := range map[string]func(*corev1.Node) bool{
		"heartbeat": func(n *corev1.Node) bool { n.ResourceVersion, n.Spec.Unschedulable = "2", true; return false },
		"label":     func(n *corev1.Node) bool { delete(n.Labels, v1alpha1.LabelCPUFeature+"sse2"); return true },
		"taint":     func(n *corev1.Node) bool { n.Spec.Taints = []corev1.Taint{{Key: "a"}}; return true },
	} {
		changed := node.DeepCopy()
		if want := change(changed); changesNode(event.UpdateEvent{ObjectOld: node, ObjectNew: changed}) != want {
			t.Errorf("%s: want %t", why, want)
		}
	}
	for why, change := range map[string]func(*v1alpha1.GuestHardware) bool{
		"boot": func(h *v1alpha1.GuestHardware) bool {
			h.Spec.Hardware.Machine, h.Status.Boots = "pc-q35-9.2", 2
			return false
		},
		"mark": func(h *v1alpha1.GuestHardware) bool { h.Spec.Hardware.CPU.FirstSeen = true; return true },
		"cpu": func(h *v1alpha1.GuestHardware) bool {
			h.Spec.Hardware.CPU.Features = []string{"hle", "sse2"}
			return true
		},
		"none": func(h *v1alpha1.GuestHardware) bool { h.Spec.Hardware = nil; return true },
	} {
		changed := hardware.DeepCopy()
		if want := change(changed); changesCPU(event.UpdateEvent{ObjectOld: hardware, ObjectNew: changed}) != want {
			t.Errorf("%s: want %t", why, want)
		}
	}
}
