package guestcontroller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/revision"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestBesideKubeVirt: Kiln writes identity and pins of a VM, and the references to the pinned revisions into its status. KubeVirt writes everything else: the
// VMI, the rest of the status, and references for which Kiln has no pin.
func TestBesideKubeVirt(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	vm.Status = v1.VirtualMachineStatus{PrintableStatus: v1.VirtualMachineStatusRunning, Ready: true,
		StateChangeRequests: []v1.VirtualMachineStateChangeRequest{{Action: v1.StartRequest}},
		Conditions:          []v1.VirtualMachineCondition{{Type: v1.VirtualMachineFailure, Status: "True", Reason: "Theirs"}}}
	c := newCluster(t, vm)
	theirs := c.vm().Status
	if result := c.reconcileVM(); result.RequeueAfter == 0 || c.vmi() != nil {
		t.Errorf("a VM of an unknown instancetype: %+v, VMI %v", result, c.vmi())
	}
	if got := c.vm(); got.Annotations[v1alpha1.AnnotationIdentity] == "" || !cmp.Equal(theirs, got.Status) {
		t.Errorf("identity '%s'; the status is changed:\n%s", got.Annotations[v1alpha1.AnnotationIdentity], cmp.Diff(theirs, got.Status))
	}
	if err := c.Create(t.Context(), smallInstancetype()); err != nil {
		t.Fatal(err)
	}
	draft, err := revision.NewDraft(key.Namespace, smallInstancetype())
	if err != nil {
		t.Fatal(err)
	}
	c.reconcileVM()
	want := theirs.DeepCopy()
	want.InstancetypeRef = &v1.InstancetypeStatusRef{Name: "small", ControllerRevisionRef: &v1.ControllerRevisionRef{Name: draft.Name}}
	if got := c.vm(); pin.Read(got).Instancetype != draft.Name || !cmp.Equal(*want, got.Status) {
		t.Errorf("pinned to '%s'; status -want +got\n%s", pin.Read(got).Instancetype, cmp.Diff(*want, got.Status))
	}
	got := c.vm()
	got.Status.InstancetypeRef.ControllerRevisionRef.Name = "vm-small-theirs"
	if err := c.Status().Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	c.reconcileVM()
	if got := c.vm().Status.InstancetypeRef; !cmp.Equal(want.InstancetypeRef, got) {
		t.Errorf("after KubeVirt stored a revision of its own the reference is %+v", got)
	}
	before := c.vm()
	if c.reconcileVM(); c.vm().ResourceVersion != before.ResourceVersion || c.vmi() != nil {
		t.Error("nothing is left to do, and the controller writes")
	}
	if err := c.Delete(t.Context(), c.vm()); err != nil {
		t.Fatal(err)
	}
	c.reconcileVM()
}

// TestReferencesWithoutPins: a matcher that Kiln cannot pin keeps what KubeVirt recorded.
func TestReferencesWithoutPins(t *testing.T) {
	vm := newVM(v1.RunStrategyHalted)
	vm.Spec.Preference = &v1.PreferenceMatcher{Name: "linux"}
	vm.Status.PreferenceRef = &v1.InstancetypeStatusRef{Name: "linux", Kind: "VirtualMachineClusterPreference",
		ControllerRevisionRef: &v1.ControllerRevisionRef{Name: "vm-linux-theirs"}}
	c := newCluster(t, vm)
	if _, err := c.vms.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err == nil || !strings.Contains(err.Error(), "no longer exists") {
		t.Errorf("the revision is gone: %v", err)
	}
	if got := c.vm().Status.PreferenceRef; got == nil || got.ControllerRevisionRef == nil || got.ControllerRevisionRef.Name != "vm-linux-theirs" {
		t.Errorf("the reference is %+v", got)
	}
}

// TestUpgradedReferences: a KubeVirt with a newer API stores the pinned content in it, and names that revision in the status. That reference stays: if the
// status named the pin again, KubeVirt would upgrade it again, and fail because the revision exists. Any other reference is replaced by the pin.
func TestUpgradedReferences(t *testing.T) {
	draft, err := revision.NewDraft(key.Namespace, smallInstancetype())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		why, was, is string
		kept         bool
	}{
		{"upgraded", "instancetype.kubevirt.io/v1beta1", "instancetype.kubevirt.io/v1", true},
		{"upgraded, and another size", `"guest":1`, `"guest":2`, false},
		{"another one of the same API", "", "", false},
	} {
		t.Run(test.why, func(t *testing.T) {
			vm := newVM(v1.RunStrategyHalted)
			vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
			vm.Status.InstancetypeRef = &v1.InstancetypeStatusRef{Name: "small", ControllerRevisionRef: &v1.ControllerRevisionRef{Name: "vm-small-theirs"}}
			pin.Write(vm, v1alpha1.Pins{Instancetype: draft.Name, Presets: []string{}})
			theirs := draft.Object()
			theirs.Name, theirs.OwnerReferences = "vm-small-theirs", []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
			theirs.Data.Raw = []byte(strings.Replace(string(theirs.Data.Raw), test.was, test.is, 1))
			c := newCluster(t, vm, draft.Object(), theirs)
			c.reconcileVM()
			if got := c.vm().Status.InstancetypeRef.ControllerRevisionRef.Name; (got == theirs.Name) != test.kept || !test.kept && got != draft.Name {
				t.Errorf("the status names '%s'", got)
			}
			if got := pin.Read(c.vm()).Instancetype; got != draft.Name {
				t.Errorf("the pin is '%s'", got)
			}
		})
	}
}
