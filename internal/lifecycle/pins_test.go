package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestPinsBeforeTheFirstStart(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	c := newCluster(t, vm)
	if result := c.reconcileRepeatedly(); result.RequeueAfter == 0 || c.vmi() != nil {
		t.Fatalf("result %+v, guest %v: a VM of an unknown instancetype must not start, and must be requeued", result, c.vmi())
	}
	if got := conditionReasons(c.vm()); !slices.Contains(got, "FailedFindInstancetype") {
		t.Errorf("conditions %v", got)
	}
	if err := c.Create(t.Context(), smallInstancetype()); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	draft, err := revision.NewDraft(key.Namespace, smallInstancetype())
	if err != nil {
		t.Fatal(err)
	}
	guest := c.vmi()
	if guest == nil || pin.Read(guest).Instancetype != draft.Name || pin.Read(c.vm()).Instancetype != draft.Name {
		t.Fatalf("guest %+v, want one pinned to '%s'", guest, draft.Name)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: draft.Name}, &appsv1.ControllerRevision{}); err != nil {
		t.Error(err)
	}
	status := c.vm().Status
	if status.InstancetypeRef == nil || status.InstancetypeRef.ControllerRevisionRef == nil || status.InstancetypeRef.ControllerRevisionRef.Name != draft.Name {
		t.Errorf("status.instancetypeRef %+v", status.InstancetypeRef)
	}
	if got := conditionReasons(c.vm()); slices.Contains(got, "FailedFindInstancetype") {
		t.Errorf("conditions %v after the instancetype was created", got)
	}
}

// TestStatusOfKubeVirtIsKept: a VM that KubeVirt admitted has its revision only in the status, until Kiln pins it to that revision.
func TestStatusOfKubeVirtIsKept(t *testing.T) {
	vm := newVM(v1.RunStrategyHalted)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	vm.Status.InstancetypeRef = &v1.InstancetypeStatusRef{Name: "small", Kind: "virtualmachineclusterinstancetype",
		ControllerRevisionRef: &v1.ControllerRevisionRef{Name: "a-small-v1beta1-uid-1"}}
	c := newCluster(t, vm, smallInstancetype())
	kept := func() string { return c.vm().Status.InstancetypeRef.ControllerRevisionRef.Name }
	_, _ = c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}) // the revision cannot be read: an error
	if kept() != "a-small-v1beta1-uid-1" || pin.Read(c.vm()).Instancetype != "" {
		t.Fatalf("status %s, pins %v: a VM must not be pinned to another revision than KubeVirt recorded", kept(), pin.Read(c.vm()))
	}
	draft, err := revision.NewDraft(key.Namespace, smallInstancetype())
	if err != nil {
		t.Fatal(err)
	}
	r := draft.Object()
	r.Name, r.OwnerReferences = "a-small-v1beta1-uid-1", []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
	if err := c.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	if kept() != r.Name || pin.Read(c.vm()).Instancetype != r.Name {
		t.Errorf("status %s, pins %v; want '%s'", kept(), pin.Read(c.vm()), r.Name)
	}
}

func conditionReasons(vm *v1.VirtualMachine) (reasons []string) {
	for _, c := range vm.Status.Conditions {
		reasons = append(reasons, c.Reason)
	}
	return reasons
}

// TestRequestsOfUnpinnedVMs: an object reconciles the unpinned VMs that may wait for it, and no others.
func TestRequestsOfUnpinnedVMs(t *testing.T) {
	named, inferring := newVM(v1.RunStrategyAlways), newVM(v1.RunStrategyAlways)
	named.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	named.Spec.Preference = &v1.PreferenceMatcher{Name: "linux", RevisionName: "linux-1"}
	inferring.Name, inferring.Spec.Preference = "b", &v1.PreferenceMatcher{InferFromVolume: "root"}
	var u unpinnedVMs
	for _, vm := range []*v1.VirtualMachine{named, inferring} {
		u.add(vm)
	}
	for _, test := range []struct {
		name, why string
		want      []string
	}{
		{"small", "its instancetype; and an image may recommend it", []string{"a", "b"}},
		{"linux", "its preference", []string{"a", "b"}},
		{"linux-1", "the revision that it names", []string{"a", "b"}},
		{"other", "only a VM that infers may wait for this", []string{"b"}},
	} {
		var got []string
		for _, request := range u.requestsWaitingFor(t.Context(), &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: test.name}}) {
			got = append(got, request.Name)
		}
		if slices.Sort(got); !slices.Equal(got, test.want) {
			t.Errorf("%s: %s: requests %v, want %v", test.name, test.why, got, test.want)
		}
	}
	u.remove(client.ObjectKeyFromObject(inferring))
	if got := u.requestsWaitingFor(t.Context(), &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "other"}}); len(got) != 0 {
		t.Errorf("requests %v for a VM that is pinned", got)
	}
}

func TestRecheckInterval(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	c := newCluster(t, vm)
	for _, want := range []time.Duration{minRecheck, 20 * time.Second, 40 * time.Second, maxRecheck, maxRecheck} {
		if got := c.reconcileRepeatedly().RequeueAfter; got != want {
			t.Errorf("looks again after %s, want %s", got, want)
		}
		c.now = c.now.Add(want)
		if want == minRecheck {
			c.now = c.now.Add(minRecheck)
		}
	}
}

// TestConfigurationIsPinned: a VM is pinned to the configuration of its first reconcile; with hardware 'latest', it is pinned anew at each start.
func TestConfigurationIsPinned(t *testing.T) {
	for _, test := range []struct {
		name, hardware string
		moves          bool
	}{{"kept", "", false}, {"latest", "latest", true}} {
		t.Run(test.name, func(t *testing.T) {
			vm := newVM(v1.RunStrategyAlways)
			vm.Annotations = map[string]string{v1alpha1.AnnotationHardware: test.hardware}
			c := newCluster(t, vm)
			model := "Haswell"
			c.controller.Configuration = func() config.Cluster {
				cluster := config.Default()
				cluster.Defaults.CPUModel = model
				return cluster
			}
			c.reconcileRepeatedly()
			first := pin.Read(c.vmi())
			if first.Configuration == "" || first.Presets == nil || !first.Equal(pin.Read(c.vm())) {
				t.Fatalf("the guest has pins %+v, its VM %+v", first, pin.Read(c.vm()))
			}
			revision := &appsv1.ControllerRevision{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: first.Configuration}, revision); err != nil {
				t.Error(err)
			}
			model = "Nehalem"
			c.reconcileRepeatedly()
			if got := pin.Read(c.vm()); !got.Equal(first) {
				t.Errorf("pins of a running VM moved to %+v", got)
			}
			c.shutDownGuest()
			c.reconcileRepeatedly()
			if got := pin.Read(c.vmi()); got.Equal(first) == test.moves || !got.Equal(pin.Read(c.vm())) {
				t.Errorf("the next guest has pins %+v, its VM %+v, the first had %+v", got, pin.Read(c.vm()), first)
			}
		})
	}
}

// TestRefusedPinsStartNothing: a GuestPolicy may refuse a VM with the presets or profiles that the controller pins. A condition reports the refusal.
// The VM does not start without its pins, and starts when the policy is deleted.
func TestRefusedPinsStartNothing(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	refused := apierrors.NewInvalid(v1.VirtualMachineGroupVersionKind.GroupKind(), key.Name, field.ErrorList{
		field.Invalid(field.NewPath("spec", "template", "spec", "domain", "cpu"), 4, "GuestPolicy 'few': too many"),
	})
	policy := true
	whole := c.Client.(client.WithWatch)
	c.controller.Client = interceptor.NewClient(whole, interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if _, vm := o.(*v1.VirtualMachine); vm && policy {
				return refused
			}
			return w.Patch(ctx, o, p, options...)
		},
	})
	for range 3 {
		if result, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil || result.RequeueAfter == 0 {
			t.Errorf("%+v, %v: want another try later", result, err)
		}
	}
	failure := failureOf(c.vm())
	if c.vmi() != nil || failure == nil || failure.Reason != v1alpha1.ReasonFailedPin || !strings.Contains(failure.Message, "GuestPolicy 'few'") {
		t.Errorf("VMI %v, condition %+v", c.vmi(), failure)
	}
	policy = false
	for range 3 {
		c.reconcileRepeatedly()
	}
	if c.vmi() == nil || failureOf(c.vm()) != nil {
		t.Errorf("VMI %v, condition %+v after the policy is gone", c.vmi(), failureOf(c.vm()))
	}
}
