package ownership

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

func TestHardwareOwnership(t *testing.T) {
	recorded := &v1alpha1.HardwareRecord{Machine: "pc-q35-7.2"}
	of := func(seed string, vm, vmi types.UID, hardware *v1alpha1.HardwareRecord) *v1alpha1.GuestHardware {
		h := &v1alpha1.GuestHardware{Spec: v1alpha1.GuestHardwareSpec{Identity: seed, Hardware: hardware}}
		h.Status.VirtualMachineUID = vm
		if vmi != "" {
			h.Status.Guest = &v1alpha1.HardwareUser{UID: vmi, NodeName: "n"}
		}
		return h
	}
	vm, bare := Guest{VM: "vm", VMI: "vmi", Identity: "seed"}, Guest{VMI: "vmi"}
	for _, c := range []struct {
		why      string
		guest    Guest
		hardware *v1alpha1.GuestHardware
		want     Ownership
	}{
		{"none", vm, nil, Absent},
		{"the VM's", vm, of("seed", "vm", "before", recorded), Own},
		{"the VM's, whose owner has edited the seed", vm, of("was", "vm", "before", recorded), Own},
		{"restored without status", vm, of("seed", "", "", recorded), Own},
		{"restored with the UID that the VM had", vm, of("seed", "old", "before", recorded), Own},
		{"restored without a seed", vm, of("", "", "", recorded), Own},
		{"restored for another seed", vm, of("other", "", "", recorded), Foreign},
		{"of a VM of this name that is gone", vm, of("other", "old", "before", recorded), Stale},
		{"of a guest without VM that is gone", vm, of("", "", "before", recorded), Stale},
		{"made for another guest, by a process that died", vm, of("other", "", "", nil), Stale},
		{"made for this guest, by a process that died", vm, of("seed", "", "", nil), Own},
		{"a guest without VM: its own", bare, of("", "", "vmi", recorded), Own},
		{"its own, whose VM is gone and left it", bare, of("seed", "vm", "vmi", recorded), Own},
		{"of a guest of this name that is gone, both without seed", bare, of("", "", "before", recorded), Stale},
		{"of a VM of this name that is gone", bare, of("seed", "vm", "before", recorded), Stale},
		{"a guest without seed, and hardware restored for one with a seed", bare, of("seed", "", "", recorded), Foreign},
		{"restored without a seed", bare, of("", "", "", recorded), Own},
		{"a guest with the seed of a VM that is gone", Guest{VMI: "vmi", Identity: "seed"}, of("seed", "old", "before", recorded), Own},
		{"a VM that has no seed yet", Guest{VM: "vm"}, of("", "old", "", recorded), Stale},
	} {
		if got := c.guest.Ownership(c.hardware); got != c.want {
			t.Errorf("%s: ownership %d, want %d", c.why, got, c.want)
		}
	}
}
