package revision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clock begins at a whole second, as marks are of seconds.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

// informed answers as the cache of a manager does, which cannot continue a list and never says that it has ended.
type informed struct{ client.Client }

func (i informed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if (&client.ListOptions{}).ApplyOptions(options).Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	err := i.Client.List(ctx, list, options...)
	list.SetContinue("continue-not-supported")
	return err
}

func collector(c client.Client) (*Collector, *clock) {
	clock := &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return &Collector{Cached: informed{c}, Live: c, Grace: MinGrace, Now: clock.now}, clock
}

// there reports whether a revision exists, and whether it is marked.
func there(t *testing.T, c client.Client, d Draft) (exists, marked bool) {
	t.Helper()
	var r appsv1.ControllerRevision
	err := c.Get(t.Context(), client.ObjectKey{Namespace: d.Namespace, Name: d.Name}, &r)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil, Marked(&r)
}

func TestCollect(t *testing.T) {
	d := draft(t, "s", "1Gi")
	vm := func(change func(*v1.VirtualMachine)) client.Object {
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "team"}}
		change(vm)
		return vm
	}
	pins := map[string]string{v1alpha1.AnnotationPins: `{"instancetype":"` + d.Name + `"}`}
	for _, test := range []struct {
		name, why string
		user      client.Object
		kept      bool
	}{
		{name: "nothing", why: "nobody needs it"},
		{name: "pin", why: "the VM boots from it", user: vm(func(vm *v1.VirtualMachine) { vm.Annotations = pins }), kept: true},
		{name: "pin of another kind", why: "a newer release pins more", user: vm(func(vm *v1.VirtualMachine) {
			vm.Annotations = map[string]string{v1alpha1.AnnotationPins: `{"presets":"` + d.Name + `"}`}
		}), kept: true},
		{name: "unreadable pins", why: "they may mean anything",
			user: vm(func(vm *v1.VirtualMachine) { vm.Annotations = map[string]string{v1alpha1.AnnotationPins: "{"} }), kept: true},
		{name: "revisionName", why: "the user names it", user: vm(func(vm *v1.VirtualMachine) {
			vm.Spec.Preference = &v1.PreferenceMatcher{RevisionName: d.Name}
		}), kept: true},
		{name: "status", why: "KubeVirt resolves by it", user: vm(func(vm *v1.VirtualMachine) {
			vm.Status.InstancetypeRef = &v1.InstancetypeStatusRef{ControllerRevisionRef: &v1.ControllerRevisionRef{Name: d.Name}}
		}), kept: true},
		{name: "guest", why: "it may outlive its VM",
			user: &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "team", Annotations: pins}}, kept: true},
		{name: "snapshot", why: "it is restored by it", user: &snapshot.VirtualMachineSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "team",
			Annotations: map[string]string{v1alpha1.AnnotationPins: `{"revisions":["other","` + d.Name + `"]}`}}}, kept: true},
		{name: "snapshot of KubeVirt", why: "its VM names it", user: &snapshot.VirtualMachineSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "team"}, Spec: snapshot.VirtualMachineSnapshotContentSpec{Source: snapshot.SourceSpec{
				VirtualMachine: &snapshot.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Annotations: pins}}}}}, kept: true},
		{name: "unreadable snapshot", why: "it may mean anything", user: &snapshot.VirtualMachineSnapshotContent{ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "team", Annotations: map[string]string{v1alpha1.AnnotationPins: "["}}}, kept: true},
		{name: "elsewhere", why: "revisions are of a namespace",
			user: &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "other", Annotations: pins}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []client.Object{d.Object()}
			if test.user != nil {
				objects = append(objects, test.user)
			}
			c := server(t, objects...)
			collector, clock := collector(c)
			for _, step := range []struct {
				after          time.Duration
				exists, marked bool
			}{{0, true, !test.kept}, {MinGrace - time.Second, true, !test.kept}, {time.Second, test.kept, false}} {
				clock.Time = clock.Add(step.after)
				if err := collector.Collect(t.Context()); err != nil {
					t.Fatal(err)
				}
				if exists, marked := there(t, c, d); exists != step.exists || marked != step.marked {
					t.Errorf("%s: after %s there %v, marked %v; want %v, %v", test.why, step.after, exists, marked, step.exists, step.marked)
				}
			}
		})
	}
}

// TestUseTakesTheMarkAway: admission writes what it uses, so that a collector that has already decided comes too late.
func TestUseTakesTheMarkAway(t *testing.T) {
	d := draft(t, "s", "1Gi")
	c := server(t, d.Object())
	collector, clock := collector(c)
	if err := collector.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	revisions, err := listCollectable(t.Context(), c)
	if err != nil || len(revisions) != 1 || !Marked(&revisions[0]) {
		t.Fatalf("revisions %v, %v; want one that is marked", revisions, err)
	}
	clock.Time = clock.Add(MinGrace)
	if err := Write(t.Context(), c, d); err != nil {
		t.Fatal(err)
	}
	if err := collector.deleteUnused(t.Context(), revisions); err != nil { // as it was seen before
		t.Fatal(err)
	}
	if exists, marked := there(t, c, d); !exists || marked {
		t.Errorf("there %v, marked %v; want it unmarked", exists, marked)
	}
}

// fickle answers the first calls of a patch with a conflict, as if others were faster.
type fickle struct {
	client.Client
	conflicts int
}

func (f *fickle) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if f.conflicts--; f.conflicts >= 0 {
		return apierrors.NewConflict(appsv1.Resource("controllerrevisions"), object.GetName(), fmt.Errorf("changed"))
	}
	return f.Client.Patch(ctx, object, patch, options...)
}

func TestRacesForAMark(t *testing.T) {
	d := draft(t, "s", "1Gi")
	marked := d.Object()
	marked.Annotations = map[string]string{v1alpha1.AnnotationUnusedSince: "2026-01-01T00:00:00Z"}
	if err := Write(t.Context(), &fickle{server(t, marked), writeAttempts - 1}, d); err != nil {
		t.Errorf("a race that is lost a few times: %v", err)
	}
	if err := Write(t.Context(), &fickle{server(t, marked.DeepCopy()), 100}, d); !apierrors.IsConflict(err) {
		t.Errorf("one that is lost every time: %v, want a conflict", err)
	}
}

// TestRestoredMark: a backup was taken of a marked revision.
func TestRestoredMark(t *testing.T) {
	for _, mark := range []string{"2025-12-24T00:00:00Z", "soon"} {
		d := draft(t, "s", "1Gi")
		restored := d.Object()
		restored.Annotations = map[string]string{v1alpha1.AnnotationUnusedSince: mark}
		c := server(t)
		collector, clock := collector(c)
		restored.CreationTimestamp = metav1.NewTime(clock.Time)
		if err := c.Create(t.Context(), restored); err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, true, false} { // marked anew, kept, removed
			if err := collector.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			if exists, _ := there(t, c, d); exists != want {
				t.Errorf("mark '%s': there %v at %s, want %v", mark, exists, clock, want)
			}
			clock.Time = clock.Add(MinGrace / 2)
		}
	}
}

// TestWrongClocks: the leader that marked had a clock that was slow, or this one has a fast one. A VM with the revision may be about to be stored.
func TestWrongClocks(t *testing.T) {
	d := draft(t, "s", "1Gi")
	c := server(t, d.Object())
	slow, clock := collector(c)
	clock.Time = clock.Add(-time.Hour)
	if err := slow.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, clock := collector(c)
	for _, step := range []struct {
		after  time.Duration
		exists bool
	}{{0, true}, {MinGrace - time.Second, true}, {time.Second, false}} {
		clock.Time = clock.Add(step.after)
		if err := next.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exists, _ := there(t, c, d); exists != step.exists {
			t.Errorf("after %s more there %v, want %v", step.after, exists, step.exists)
		}
	}
}

func TestGraceIsBounded(t *testing.T) {
	collector, _ := collector(server(t))
	collector.Grace = MinGrace - 1
	if err := collector.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "at least 10m") {
		t.Errorf("got %v: requests may live longer than this", err)
	}
}
