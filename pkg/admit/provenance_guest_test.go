package admit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// TestGuestsAreExplainedByTheirVMs: a stored guest tells the same as its VM, and what else has come to it.
func TestGuestsAreExplainedByTheirVMs(t *testing.T) {
	t.Parallel()
	vm, in := decode[v1.VirtualMachine](t, explained), explainedInput(t, `{devices: {preferredDiskBus: virtio}}`)
	vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: "seed"}
	made := Instance(&vm)
	record := &record.Record{UUID: "5d307ca9-b3ef-428c-8861-06e72d69f223"} // of a domain that ran elsewhere
	identity.Recall(made, record)
	identity.Fill(made, "seed")
	stored, verdict := VMI(made, in)
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	origins := func(e Explanation) map[string]string {
		all := map[string]string{}
		for _, fact := range e.Fields {
			all[fact.Path] = leaves.Leaf{Value: fact.Value}.Text() + " " + fact.Origin.String()
		}
		return all
	}
	const uuid, serial, mac = "spec.domain.firmware.uuid", "spec.domain.firmware.serial", "spec.domain.devices.interfaces[0].macAddress"
	got, want := ExplainGuest(stored, &vm, record, in), origins(ExplainVM(&vm, in))
	want[uuid] = `"5d307ca9-b3ef-428c-8861-06e72d69f223" record (GuestHardware web)`
	want[serial] = `"` + stored.Spec.Domain.Firmware.Serial + `" default (identity)`
	want[mac] = `"` + stored.Spec.Domain.Devices.Interfaces[0].MacAddress + `" default (identity)`
	delete(want, "spec.domain.firmware") // it is not empty
	if diff := cmp.Diff(want, origins(got)); diff != "" || len(got.Notes) > 0 {
		t.Errorf("notes %q; (-of the VM +of the guest):\n%s", got.Notes, diff)
	}
	if diff := cmp.Diff(ExplainVM(&vm, in).NotApplied, got.NotApplied); diff != "" {
		t.Errorf("not applied (-of the VM +of the guest):\n%s", diff)
	}

	vm.Spec.Template.Spec.Domain.Devices.Disks[0].Disk.Bus = "virtio" // an owner's edit, for the next start
	stored.Spec.Domain.Memory.Guest.Add(stored.Spec.Domain.Memory.Guest.DeepCopy())
	stored.Spec.Subdomain = "other"
	got = ExplainGuest(stored, &vm, record, in)
	want["spec.domain.devices.disks[0].disk.bus"] = `"sata" elsewhere`
	want["spec.domain.memory.guest"] = `"4Gi" elsewhere`
	want["spec.subdomain"] = `"other" elsewhere`
	if diff := cmp.Diff(want, origins(got)); diff != "" || !slices.Equal(got.Notes, []string{noteElse}) {
		t.Errorf("notes %q; after edits (-want +got):\n%s", got.Notes, diff)
	}
}

// TestBareGuests: of a stored guest without a VM it is said once that user and admission cannot be told apart.
func TestBareGuests(t *testing.T) {
	t.Parallel()
	vm, in := decode[v1.VirtualMachine](t, explained), explainedInput(t, `{devices: {preferredRng: {}, preferredLunBus: scsi}}`)
	vmi := Instance(&vm)
	if got := ExplainVMI(vmi, in); len(got.Notes) > 0 || len(got.NotApplied) != 3 {
		t.Errorf("a manifest is the user's: %q %v, want the preference's LUN bus and two fields of the preset", got.Notes, got.NotApplied)
	}
	vmi.UID = "u"
	if got := ExplainVMI(vmi, in); len(got.Notes) != 1 || len(got.NotApplied) != 2 || !strings.Contains(got.Notes[0], "admission") {
		t.Errorf("a stored guest: %q %v", got.Notes, got.NotApplied)
	}
}
