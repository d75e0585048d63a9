package lifecycle

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestGuestsWithoutVM: a VMI without a VM has hardware of its own name, and none if a VM has that name.
func TestGuestsWithoutVM(t *testing.T) {
	bare := func() *v1.VirtualMachineInstance {
		vmi := &v1.VirtualMachineInstance{}
		vmi.Name, vmi.Namespace, vmi.UID = key.Name, key.Namespace, "bare"
		return vmi
	}
	c := newCluster(t, bare())
	c.writeRecord(`{"machine":"q35-1"}`)
	c.setPhase(v1.Running)
	c.reconcileRepeatedly()
	if found := c.hardware(); found.Status.Boots != 1 || found.Status.VirtualMachineUID != "" || found.Spec.Identity != "" {
		t.Errorf("the hardware of a guest without VM: %+v", found)
	}
	c.deleteObject(c.vmi())
	c.reconcileRepeatedly()
	if found := c.hardware(); found != nil {
		t.Errorf("the hardware stays without its guest: %+v", found)
	}

	c = newCluster(t, bare(), newVM(v1.RunStrategyHalted))
	c.setPhase(v1.Scheduled)
	c.reconcileRepeatedly()
	if found := c.hardware(); found != nil || synchronizedReason(c.vmi()) != "NameTaken" {
		t.Errorf("a guest with the name of a VM has hardware %+v, conditions %v", found, c.vmi().Status.Conditions)
	}
	if events := len(c.eventRecorder().Events); events != 1 {
		t.Errorf("%d events, want 1", events)
	}
	c.deleteObject(c.vm())
	c.reconcileRepeatedly()
	if found := c.hardware(); found == nil || found.Status.Guest.UID != "bare" {
		t.Errorf("after the VM has gone the guest has hardware %+v", found)
	}
}

// synchronizedReason returns the reason of condition Synchronized, empty without it.
func synchronizedReason(vmi *v1.VirtualMachineInstance) string {
	for _, c := range vmi.Status.Conditions {
		if c.Type == v1.VirtualMachineInstanceSynchronized {
			return c.Reason
		}
	}
	return ""
}

// TestRestoredHardware: a restored GuestHardware has no status. It belongs to the guest with its seed, whichever is restored first.
func TestRestoredHardware(t *testing.T) {
	const uuid = "5d307ca9-b3ef-428c-8861-06e72d69f223"
	restored := func(identity, record string) *v1alpha1.GuestHardware {
		h := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace, UID: "gh"}}
		h.Spec = v1alpha1.GuestHardwareSpec{Identity: identity, Hardware: parseRecord(t, record)}
		return h
	}
	for _, test := range []struct {
		why, seed string
		hardware  *v1alpha1.GuestHardware
		reason    string // of the VM's failure
		boots     string // with this UUID
	}{
		{"of its seed", "seed", restored("seed", `{"uuid":"`+uuid+`"}`), "", uuid},
		{"captured without a seed, for any guest of the name", "seed", restored("", `{"uuid":"`+uuid+`"}`), "", uuid},
		{"of another seed", "seed", restored("other", `{"uuid":"`+uuid+`"}`), "FailedCreate", ""},
		{"that no boot can have written", "seed", restored("seed", `{"devices":{"disk.a":{"drive":"9:9:9:9"}}}`), "FailedCreate", ""},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := newCluster(t, test.hardware)
			for range 3 { // no VM has come yet
				if _, err := c.records.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			vm := newVM(v1.RunStrategyAlways)
			vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: test.seed}
			if err := c.Create(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
			c.reconcileRepeatedly()
			if failure := failureOf(c.vm()); (failure != nil) != (test.reason != "") || failure != nil && failure.Reason != test.reason {
				t.Errorf("the VM says %+v, want '%s'", failure, test.reason)
			}
			if found := c.hardware(); found == nil || found.UID != "gh" {
				t.Errorf("the restored hardware is gone: %+v", found)
			}
			if vmi := c.vmi(); (vmi != nil) != (test.boots != "") || vmi != nil && string(vmi.Spec.Domain.Firmware.UUID) != test.boots {
				t.Errorf("the guest %+v, want one of UUID '%s'", vmi, test.boots)
			}
		})
	}
}
