package repin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// cluster is an API server in memory, whose mutating webhook is Kiln's review. It stores VMs and the revisions that the webhook writes.
type cluster struct {
	client.Client
	t       *testing.T
	objects map[string]*unstructured.Unstructured
	version int
	// writes counts the writes, and fail is the number of the write that fails: before it is stored, or after it if lost is set. 0 fails none.
	writes, fail int
	lost         bool
	// before is called before each write that is no dry run.
	before func()
	// read is called before each read of an object that has the name of a VM, with the stored VM.
	read func(*unstructured.Unstructured)
	// down means that no webhook answers, and the API server takes everything.
	down bool
}

func keyOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

func newCluster(t *testing.T, documents ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, objects: map[string]*unstructured.Unstructured{}}
	for _, document := range documents {
		c.apply(document)
	}
	return c
}

// apply stores an object, as 'kubectl apply' does.
func (c *cluster) apply(document string) {
	c.t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		c.t.Fatal(err)
	}
	c.store(object)
}

func (c *cluster) store(object *unstructured.Unstructured) {
	c.version++
	object.SetResourceVersion(fmt.Sprint(c.version))
	c.objects[keyOf(object.GetKind(), object.GetNamespace(), object.GetName())] = object
}

// reader reads what is stored.
func (c *cluster) reader() objects.Reader {
	scheme, err := crdschema.Scheme()
	if err != nil {
		c.t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, object := range c.objects {
		all = append(all, object.DeepCopy())
	}
	return objects.New(scheme, all...)
}

func (c *cluster) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if vm := c.objects[keyOf("VirtualMachine", key.Namespace, key.Name)]; vm != nil && c.read != nil {
		c.read(vm)
	}
	return c.reader().Get(ctx, key, into, options...)
}

func (c *cluster) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.reader().List(ctx, list, options...)
}

// errDown is the error of a connection that was lost.
var errDown = errors.New("connection refused")

// Patch applies a merge patch to a VM, as an API server does: with the version of the patch, the webhook, and dry runs.
func (c *cluster) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	var o client.PatchOptions
	o.ApplyOptions(options)
	dry := slices.Contains(o.DryRun, "All")
	if !dry {
		if c.before != nil {
			c.before()
		}
		if c.writes++; c.writes == c.fail && !c.lost {
			return errDown
		}
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	var change struct {
		Metadata struct {
			Annotations     map[string]*string
			ResourceVersion string
		}
	}
	if err := json.Unmarshal(data, &change); err != nil || patch.Type() != types.MergePatchType {
		c.t.Fatalf("%v: %s", err, data)
	}
	stored := c.objects[keyOf("VirtualMachine", object.GetNamespace(), object.GetName())]
	resource := schema.GroupResource{Resource: "virtualmachines"}
	switch {
	case stored == nil:
		return apierrors.NewNotFound(resource, object.GetName())
	case change.Metadata.ResourceVersion != stored.GetResourceVersion():
		return apierrors.NewConflict(resource, object.GetName(), errors.New("it was changed"))
	}
	next := stored.DeepCopy()
	annotations := next.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range change.Metadata.Annotations {
		if delete(annotations, key); value != nil {
			annotations[key] = *value
		}
	}
	next.SetAnnotations(annotations)
	if !c.down {
		if next, err = c.admit(ctx, next, stored, dry); err != nil {
			return err
		}
	}
	if !dry {
		c.store(next)
	}
	if !dry && c.writes == c.fail {
		return errDown
	}
	into, is := object.(*unstructured.Unstructured)
	if !is {
		c.t.Fatalf("a %T is patched", object)
	}
	into.Object = next.DeepCopy().Object
	return nil
}

// admit runs Kiln's webhook on an update.
func (c *cluster) admit(ctx context.Context, now, old *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	var vm, was v1.VirtualMachine
	for from, to := range map[*unstructured.Unstructured]*v1.VirtualMachine{now: &vm, old: &was} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
			return nil, err
		}
	}
	settings := config.Default()
	reviewer := review.Reviewer{Resolver: resolve.Resolver{Cached: c.reader()}, Configuration: func() config.Cluster { return settings }}
	reviewed, err := reviewer.PrepareVM(ctx, &vm, &was, review.Asker{Name: "somebody"})
	if err != nil {
		return nil, err
	}
	if !reviewed.Allowed() {
		return nil, apierrors.NewInvalid(v1.VirtualMachineGroupVersionKind.GroupKind(), vm.Name, reviewed.Errors)
	}
	stored, drafts := reviewed.Stored()
	next := now.DeepCopy()
	next.SetAnnotations(stored.Annotations)
	for _, draft := range drafts {
		if key := keyOf("ControllerRevision", draft.Namespace, draft.Name); !dry && c.objects[key] == nil {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(draft.Object())
			if err != nil {
				return nil, err
			}
			revision := &unstructured.Unstructured{Object: content}
			revision.SetAPIVersion("apps/v1")
			revision.SetKind("ControllerRevision")
			c.store(revision)
		}
	}
	return next, nil
}

const size = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: medium, uid: s}\n" +
	"spec: {cpu: {guest: 2}, memory: {guest: 2Gi}}\n"

// With these objects, KubeVirt runs the guests.
const (
	kubeVirt = "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\nspec: {configuration: {}}\n" +
		"status: {observedKubeVirtVersion: v1.8.0}\n"
	virtController = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: virt-controller, namespace: kubevirt}\n"
)

// machine returns a VM that is not pinned.
func machine(name string) string {
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", namespace: shop, uid: u-" + name + "}\n" +
		"spec: {runStrategy: Halted, instancetype: {name: medium}, template: {spec: {domain: {devices: {}}}}}\n"
}

// edit is the change that is rehearsed and then made.
func edit(text string) string { return strings.Replace(text, "guest: 2Gi", "guest: 3Gi", 1) }

// pinnedCluster returns a cluster with VMs that are pinned to the instancetype, and the plan of an edit of it.
func pinnedCluster(t *testing.T, names ...string) (*cluster, rehearsal.Plan) {
	t.Helper()
	c := newCluster(t, size)
	for _, name := range names {
		c.apply(machine(name))
		vm := c.vm(name)
		if _, err := Repin(t.Context(), c, vm, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.writes = 0
	return c, planOf(t, c, edit(size))
}

// planOf rehearses a change, and reads the plan from a file.
func planOf(t *testing.T, c *cluster, change string) rehearsal.Plan {
	t.Helper()
	laid := &rehearsal.Laid{}
	if err := laid.AddFiles("change", manifest.Files{Names: []string{"-"}, Stdin: strings.NewReader(change)}); err != nil {
		t.Fatal(err)
	}
	r, err := rehearsal.OfCluster(t.Context(), &workbench.Bench{}, c, "", rehearsal.Options{Laid: laid})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := r.MakePlan().Write(path); err != nil {
		t.Fatal(err)
	}
	plan, err := rehearsal.ReadPlan(path)
	if err != nil || len(plan.Items) == 0 {
		t.Fatalf("%v: %d items", err, len(plan.Items))
	}
	return plan
}

func (c *cluster) vm(name string) *unstructured.Unstructured {
	return c.objects[keyOf("VirtualMachine", "shop", name)].DeepCopy()
}

// run follows a plan with all verdicts.
func run(t *testing.T, c *cluster, plan rehearsal.Plan, more ...func(*PlanRun)) (Planned, error) {
	t.Helper()
	p := &PlanRun{Cluster: c, Bench: &workbench.Bench{}, Only: rehearsal.Repinnable, StopOnDifference: true, Poll: time.Millisecond}
	for _, set := range more {
		set(p)
	}
	return p.Run(t.Context(), plan)
}

// check reports VMs that have other pins than before or after, and revisions that are missing.
func check(t *testing.T, why string, c *cluster, plan rehearsal.Plan) (repinned int) {
	t.Helper()
	for _, item := range plan.Items {
		stored := c.objects[keyOf("VirtualMachine", item.Namespace, item.Name)]
		if stored == nil {
			continue
		}
		switch pins := pin.Read(stored); {
		case samePins(pins, item.To):
			repinned++
			for _, name := range namesOf(pins) {
				if c.objects[keyOf("ControllerRevision", item.Namespace, name)] == nil {
					t.Errorf("%s: %s is pinned to '%s', which is missing", why, item.Name, name)
				}
			}
		case !samePins(pins, item.From):
			t.Errorf("%s: %s has pins %+v, want the earlier pins %+v or the pins of the plan %+v", why, item.Name, pins, item.From, item.To)
		}
	}
	return repinned
}

// TestPlan: each VM gets the pins that were rehearsed, a second run does nothing, and --max makes waves.
func TestPlan(t *testing.T) {
	t.Parallel()
	c, plan := pinnedCluster(t, "a", "b", "c")
	if plan.Items[0].Verdict != rehearsal.Restart || plan.Items[0].From.Equal(plan.Items[0].To) {
		t.Fatalf("%+v", plan.Items[0])
	}
	c.apply(edit(size))
	dry, err := run(t, c, plan, func(p *PlanRun) { p.DryRun = true })
	if err != nil || dry.Counts[ActionRepinned] != 3 || check(t, "dry run", c, plan) != 0 || c.writes != 0 {
		t.Errorf("dry run: %v %+v", err, dry)
	}
	if none, err := run(t, c, plan, func(p *PlanRun) { p.Only = []rehearsal.Verdict{rehearsal.Same, rehearsal.Live} }); err != nil || len(none.Outcomes) != 0 {
		t.Errorf("other verdicts: %v %+v", err, none)
	}
	for _, want := range []int{2, 3, 3} {
		done, err := run(t, c, plan, func(p *PlanRun) { p.Max = 2 })
		if got := check(t, "a wave", c, plan); err != nil || got != want || done.Left != 3-want && done.Left != 0 {
			t.Errorf("a wave: %d repinned, want %d: %v %+v", got, want, err, done)
		}
	}
	if c.writes != 3 {
		t.Errorf("%d writes for 3 VMs", c.writes)
	}
}

// TestPlanUnderKills: a run that dies at any write, before or after the API server has stored it, leaves each VM with the old or the planned pins, and the next
// run completes it.
func TestPlanUnderKills(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for fail := 1; fail <= 4; fail++ {
			c, plan := pinnedCluster(t, "a", "b", "c")
			c.apply(edit(size))
			c.fail, c.lost = fail, lost
			_, err := run(t, c, plan)
			if (err != nil) != (fail <= 3) {
				t.Errorf("write %d, lost %t: %v", fail, lost, err)
			}
			if got := check(t, "killed", c, plan); fail <= 3 && got == 3 && !(lost && fail == 3) {
				t.Errorf("write %d, lost %t: %d VMs are repinned", fail, lost, got)
			}
			if done, err := run(t, c, plan); err != nil || check(t, "resumed", c, plan) != 3 || done.Halted {
				t.Errorf("write %d, lost %t: resumed: %v %+v", fail, lost, err, done)
			}
		}
	}
}

// TestPlanAndOthers: what others did since the rehearsal is kept: a VM that was edited, repinned, deleted or created again gets no pins of the plan.
func TestPlanAndOthers(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(c *cluster){
		"deleted":       func(c *cluster) { delete(c.objects, keyOf("VirtualMachine", "shop", "b")) },
		"created again": func(c *cluster) { c.apply(strings.Replace(machine("b"), "u-b", "u-new", 1)) },
		"edited": func(c *cluster) {
			vm := c.vm("b")
			if err := unstructured.SetNestedField(vm.Object, "Always", "spec", "runStrategy"); err != nil {
				t.Error(err)
			}
			c.store(vm)
		},
		"repinned": func(c *cluster) {
			vm := c.vm("b")
			pins := pin.Read(vm)
			pins.Instancetype = "medium-aaaaaaaaaaaaaaaaaaaaaaaaaa"
			pin.Write(vm, pins)
			c.store(vm)
		},
	} {
		c, plan := pinnedCluster(t, "a", "b", "c")
		c.apply(edit(size))
		change(c)
		before := c.objects[keyOf("VirtualMachine", "shop", "b")]
		done, err := run(t, c, plan)
		if err != nil || done.Counts[ActionRepinned] != 2 || done.Counts[ActionSkipped] != 1 {
			t.Errorf("%s: %v %+v", why, err, done)
		}
		if after := c.objects[keyOf("VirtualMachine", "shop", "b")]; after != before {
			t.Errorf("%s: the VM was written", why)
		}
	}
	// Others write the status of the VM, or the VM itself, between the read and the write of this run.
	c, plan := pinnedCluster(t, "a")
	c.apply(edit(size))
	times := 0
	c.before = func() {
		if times++; times <= 2 {
			vm := c.vm("a")
			vm.Object["status"] = map[string]any{"ready": times%2 == 0}
			c.store(vm)
		}
	}
	if done, err := run(t, c, plan); err != nil || done.Counts[ActionRepinned] != 1 || check(t, "conflicts", c, plan) != 1 {
		t.Errorf("conflicts: %v %+v", err, done)
	}
}

// TestPlanDiffers: a cluster that is not what was rehearsed gives no VM other pins: the change was not made, is another one, or is edited during the run.
func TestPlanDiffers(t *testing.T) {
	t.Parallel()
	for why, later := range map[string]func(c *cluster){
		"not made": func(*cluster) {},
		"another":  func(c *cluster) { c.apply(strings.Replace(size, "guest: 2Gi", "guest: 5Gi", 1)) },
		"during the run": func(c *cluster) {
			c.apply(edit(size))
			c.before = func() { c.apply(strings.Replace(size, "guest: 2Gi", "guest: 5Gi", 1)) }
		},
	} {
		c, plan := pinnedCluster(t, "a", "b")
		later(c)
		done, err := run(t, c, plan)
		if got := check(t, why, c, plan); err != nil || got != 0 {
			t.Errorf("%s: %d VMs are repinned: %v %+v", why, got, err, done)
		}
		if done.Counts[ActionDiffers]+done.Counts[ActionRefused] == 0 {
			t.Errorf("%s: %+v", why, done)
		}
	}
	c, plan := pinnedCluster(t, "a")
	c.apply(edit(size))
	c.down = true
	if _, err := run(t, c, plan); err == nil || !strings.Contains(err.Error(), "no webhook processed") || check(t, "no webhook", c, plan) != 0 {
		t.Errorf("without a webhook: %v", err)
	}
	c.down = false
	c.before = func() { c.down = true }
	if _, err := run(t, c, plan); err == nil || !strings.Contains(err.Error(), "no webhook has written the revisions") {
		t.Errorf("a webhook that dies during the run: %v", err)
	}
	c.down, c.before = false, nil
	if done, err := run(t, c, plan); err != nil || check(t, "the webhook is back", c, plan) != 1 {
		t.Errorf("the webhook is back: %v %+v", err, done)
	}
}

// TestPlanOfUnpinned: a VM without pins gets the rehearsed pins. If an instancetype is edited between the dry run and the write, the VM is pinned to what is
// current, as by any other write, and the run ends.
func TestPlanOfUnpinned(t *testing.T) {
	t.Parallel()
	for _, raced := range []bool{false, true} {
		c := newCluster(t, size)
		c.apply(machine("a"))
		plan := planOf(t, c, edit(size))
		c.apply(edit(size))
		if raced {
			c.before = func() { c.apply(strings.Replace(size, "guest: 2Gi", "guest: 7Gi", 1)) }
		}
		done, err := run(t, c, plan)
		pins := pin.Read(c.vm("a"))
		if err != nil || done.Halted != raced || samePins(pins, plan.Items[0].To) == raced || pins.Instancetype == "" {
			t.Errorf("an edit in between: %t: %v %+v: %+v", raced, err, done, pins)
		}
		if lost := c.vm("a").GetAnnotations()[v1alpha1.AnnotationLostPins]; lost != "" {
			t.Errorf("an edit in between: %t: the VM has lost '%s'", raced, lost)
		}
	}
}

// TestPlanObserves: a VM that asks for a restart although it was rehearsed to stay the same ends the run.
func TestPlanObserves(t *testing.T) {
	t.Parallel()
	c, plan := pinnedCluster(t, "a", "b", "c")
	c.apply(edit(size))
	for i := range plan.Items {
		plan.Items[i].Verdict = rehearsal.Same
	}
	c.before = func() {
		if c.writes == 1 { // before the second write
			vm := c.vm("a")
			vm.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "RestartRequired", "status": "True", "message": "memory"}}}
			c.store(vm)
		}
	}
	done, err := run(t, c, plan)
	if err != nil || !done.Halted || done.Counts[ActionDiffers] != 1 {
		t.Fatalf("%v %+v", err, done)
	}
	if again, err := run(t, c, plan); err != nil || !again.Halted || len(again.Outcomes) != 1 ||
		!strings.Contains(again.Outcomes[0].Reason, "asks for a restart") {
		t.Errorf("a further run halts at the same VM: %v %+v", err, again)
	}
}

// boot boots the guest of a VM with its pins, and changes what its launcher records.
func (c *cluster) boot(name string, change func(*record.Record)) {
	c.t.Helper()
	vm := c.vm(name)
	bench := &workbench.Bench{}
	all, err := bench.Review(c.t.Context(), manifest.Inputs{Named: []manifest.Object{manifest.Stored(vm)}, Reader: c, OfCluster: true}, nil)
	if err != nil || all.Objects[0].Guest == nil {
		c.t.Fatalf("%v: %+v", err, all)
	}
	machine, _, err := bench.Machine(c.t.Context(), all.Objects[0], workbench.Placing{}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	machine.Host.Machines = map[string]map[string]string{"amd64": {"q35": "pc-q35-9.2", "pc-q35-9.2": "pc-q35-9.2"}}
	rendered, errs := render.UnderProfiles(machine.Machine, machine.Profiles)
	if len(errs) > 0 {
		c.t.Fatal(errs.ToAggregate())
	}
	if change != nil {
		change(&rendered.Record)
	}
	vmi := all.Objects[0].Guest.Explicit.DeepCopy()
	vmi.SetGroupVersionKind(v1.VirtualMachineInstanceGroupVersionKind)
	vmi.Namespace, vmi.Name, vmi.UID = "shop", name, types.UID("boot-"+name)
	vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: name, UID: vm.GetUID(), Controller: new(true)}}
	pin.Write(vmi, pin.Read(vm))
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("hardware-" + name)}}
	hardware.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GuestHardware"))
	hardware.Spec.Hardware = &rendered.Record
	hardware.Status.LastBoot = &v1alpha1.HardwareBoot{UID: vmi.UID}
	for _, object := range []any{vmi, hardware} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			c.t.Fatal(err)
		}
		c.store(&unstructured.Unstructured{Object: content})
	}
}

// TestPlanObservesGuests: a guest that has booted with the new pins, and with other hardware than they mean, ends the next run. A guest that has booted with
// the rehearsed hardware or with the pins of before does not.
func TestPlanObservesGuests(t *testing.T) {
	t.Parallel()
	for why, test := range map[string]struct {
		change func(*record.Record)
		early  bool
		want   string
	}{
		"as rehearsed":        {nil, false, ""},
		"a device is missing": {func(r *record.Record) { delete(r.Devices, "memballoon.balloon") }, false, "memballoon 'balloon' is added"},
		"other memory":        {func(r *record.Record) { r.Digest = "sha256:" + strings.Repeat("0", 64) }, false, "does not contain"},
		"with earlier pins":   {func(r *record.Record) { delete(r.Devices, "memballoon.balloon") }, true, ""},
	} {
		c, plan := pinnedCluster(t, "a", "b")
		if test.early {
			c.boot("a", test.change)
		}
		c.apply(edit(size))
		first := func(p *PlanRun) { p.Max = 1 }
		if done, err := run(t, c, plan, first); err != nil || done.Counts[ActionRepinned] != 1 || done.Halted {
			t.Fatalf("%s: %v %+v", why, err, done)
		}
		if !test.early {
			c.boot("a", test.change)
		}
		done, err := run(t, c, plan)
		switch {
		case err != nil:
			t.Errorf("%s: %v", why, err)
		case test.want == "" && (done.Halted || done.Counts[ActionRepinned] != 1):
			t.Errorf("%s: %+v", why, done)
		case test.want != "" && (!done.Halted || len(done.Outcomes) != 1 || !strings.Contains(done.Outcomes[0].Reason, test.want)):
			t.Errorf("%s: want '%s': %+v", why, test.want, done)
		}
	}
}

// TestPlanWaits: beside KubeVirt, a run with --wait waits until the status of a VM names its new pins, and ends with an error if it never does. The same run
// then goes on.
func TestPlanWaits(t *testing.T) {
	t.Parallel()
	c, _ := pinnedCluster(t, "a", "b")
	c.apply(kubeVirt)
	c.apply(virtController)
	plan := planOf(t, c, edit(size))
	c.apply(edit(size))
	waiting := func(p *PlanRun) { p.Wait = 20 * time.Millisecond }
	if done, err := run(t, c, plan, waiting); err == nil || !strings.Contains(err.Error(), "status does not name the new pins after 20ms") ||
		!strings.Contains(err.Error(), "shop/a") || check(t, "no controller", c, plan) != 1 {
		t.Fatalf("no controller: %v %+v", err, done)
	}
	reads := 0
	c.read = func(vm *unstructured.Unstructured) {
		if reads++; reads%3 == 0 { // the controller is slow
			name := pin.Read(c.vm(vm.GetName())).Instancetype
			vm.Object["status"] = map[string]any{"instancetypeRef": map[string]any{"name": "medium", "kind": "VirtualMachineClusterInstancetype",
				"controllerRevisionRef": map[string]any{"name": name}}}
		}
	}
	long := func(p *PlanRun) { p.Wait = time.Minute }
	if done, err := run(t, c, plan, long); err != nil || done.Counts[ActionAlready] != 1 || done.Counts[ActionRepinned] != 1 ||
		check(t, "a slow controller", c, plan) != 2 {
		t.Errorf("a slow controller: %v %+v", err, done)
	}
}
