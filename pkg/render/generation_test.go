package render

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// life is one boot of a VM's guest, or of a bare one.
type life struct {
	vm, vmi  string // UIDs
	identity string
	// marks are annotations of the VM.
	marks map[string]string
	// foreign guests are made by another controller, which tells of the VM as their owner alone.
	foreign bool
	frozen  *record.Record
}

func (l life) boot(t *testing.T) Result {
	t.Helper()
	vmi := takenMachine(t).VMI
	if l.vm != "" {
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: vmi.Name, Namespace: vmi.Namespace, UID: types.UID(l.vm), Annotations: l.marks}}
		vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{Spec: vmi.Spec}
		vmi = admit.Instance(vm)
		vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
		if l.foreign {
			delete(vmi.Annotations, v1alpha1.AnnotationGeneration)
		}
	}
	vmi.UID = types.UID(l.vmi)
	identity.Fill(vmi, l.identity)
	rendered, errs := Domain(Machine{VMI: vmi, Defaults: config.Default().Frontend, Frozen: l.frozen,
		Host: backend.Assumed("amd64"), Bindings: backend.AssumedBindings(vmi)})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return rendered
}

// TestGenerations: the ID changes exactly when the disks may have the content of another time, and nothing else changes with it.
func TestGenerations(t *testing.T) {
	t.Parallel()
	first := life{vm: "vm-1", vmi: "vmi-1", identity: "vm-1"}
	before := first.boot(t)
	again := func(change func(*life)) life {
		next := first
		next.vmi, next.frozen = "vmi-2", &before.Record // each boot is a VMI of its own
		change(&next)
		return next
	}
	for _, test := range []struct {
		why  string
		next life
		same bool
	}{
		{"a restart", again(func(*life) {}), true},
		{"an annotation of no meaning", again(func(l *life) { l.marks = map[string]string{"note": "x"} }), true},
		{"a restart by another's controller", again(func(l *life) { l.foreign = true }), true},
		{"restored from a backup, with its identity", again(func(l *life) { l.vm, l.frozen = "vm-2", nil }), false},
		{"a clone that was given the identity and the hardware", again(func(l *life) { l.vm = "vm-2" }), false},
		{"restored in place by KubeVirt", again(func(l *life) { l.marks = map[string]string{"restore.kubevirt.io/lastRestoreUID": "r-1"} }), false},
		{"older disks put back by hand, as the owner says", again(func(l *life) { l.marks = map[string]string{v1alpha1.AnnotationGeneration: "2"} }), false},
	} {
		after := test.next.boot(t)
		changes := abi.Compare(before.Frontend, after.Frontend)
		switch {
		case test.same && len(changes) > 0:
			t.Errorf("%s: the guest finds changes: %v", test.why, changes)
		case !test.same && (len(changes) != 1 || changes[0].Part != record.PartGenerationID || changes[0].Verdict != record.NeedsRestart):
			t.Errorf("%s: want another generation ID and nothing else, got %v", test.why, changes)
		}
	}
}

func TestGenerationOfBareGuests(t *testing.T) {
	t.Parallel()
	one, same, other := life{vmi: "a", identity: "s"}.boot(t), life{vmi: "a", identity: "s"}.boot(t), life{vmi: "b", identity: "s"}.boot(t)
	if one.Frontend.GenID == nil || one.Frontend.GenID.Value != same.Frontend.GenID.Value {
		t.Errorf("one VMI has two: %v, %v", one.Frontend.GenID, same.Frontend.GenID)
	}
	if one.Frontend.GenID.Value == other.Frontend.GenID.Value {
		t.Error("two VMIs have one")
	}
}

// TestRestoredBareVMI: a bare VMI without a seed has another UID after a restore. With its record the guest finds the UUID, serial and MACs that
// its licences and its network know, unless the owner has set others, and another generation ID.
func TestRestoredBareVMI(t *testing.T) {
	t.Parallel()
	boot := func(uid types.UID, frozen *record.Record, uuid types.UID) Result {
		t.Helper()
		vmi := takenMachine(t).VMI
		vmi.UID, vmi.Spec.Domain.Firmware = uid, nil
		if uuid != "" {
			vmi.Spec.Domain.Firmware = &v1.Firmware{UUID: uuid}
		}
		for i := range vmi.Spec.Domain.Devices.Interfaces {
			vmi.Spec.Domain.Devices.Interfaces[i].MacAddress = ""
		}
		rendered, errs := Domain(Machine{VMI: vmi, Defaults: config.Default().Frontend, Frozen: frozen, Host: backend.Assumed("amd64"),
			Bindings: backend.AssumedBindings(vmi)})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return rendered
	}
	before := boot("6f0b3c52-0000-4000-8000-000000000001", nil, "")
	restored := boot("6f0b3c52-0000-4000-8000-000000000002", &before.Record, "")
	if changes := abi.Compare(before.Frontend, restored.Frontend); len(changes) != 1 || changes[0].Part != record.PartGenerationID {
		t.Errorf("want another generation ID and nothing else, got %v", changes)
	}
	if len(before.Record.MACs) == 0 || before.Record.UUID == "" {
		t.Errorf("the record has UUID '%s' and MACs %v", before.Record.UUID, before.Record.MACs)
	}
	const own = "7f8f8c5e-0000-4000-8000-000000000009"
	if edited := boot("6f0b3c52-0000-4000-8000-000000000002", &before.Record, own); edited.Frontend.UUID != own {
		t.Errorf("the owner sets UUID '%s', and the guest finds '%s'", own, edited.Frontend.UUID)
	}
}
