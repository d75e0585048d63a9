package ownwrite

import (
	"testing"
	"time"

	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOwnWriteThatNeverArrives: a restored etcd starts again with lower resource versions. The VM is reconciled, after Arrives.
func TestOwnWriteThatNeverArrives(t *testing.T) {
	var written Memo
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	vm := &v1.VirtualMachine{}
	vm.Namespace, vm.Name = "team", "a"
	at := func(version string) *v1.VirtualMachine {
		vm := vm.DeepCopy()
		vm.ResourceVersion = version
		return vm
	}
	for _, test := range []struct {
		why, version string
		at           time.Time
		want         bool
	}{
		{"older", "99", now, true},
		{"the one that was written", "100", now, false},
		{"newer", "1000", now, false},
		{"not a number", "a", now, false},
		{"older, later", "99", now.Add(Arrives), false},
		{"older, and the clock went back", "99", now.Add(-time.Hour), false},
	} {
		written.Note(at("100"), now)
		if got := written.Ahead(at(test.version), test.at); got != test.want {
			t.Errorf("%s: %t", test.why, got)
		}
		if !test.want && written.Len() != 0 {
			t.Errorf("%s: the version is still remembered", test.why)
		}
	}
	written.Note(at("100"), now)
	written.Forget(client.ObjectKeyFromObject(vm))
	if written.Ahead(at("99"), now) {
		t.Error("a VM that is gone is remembered")
	}
}
