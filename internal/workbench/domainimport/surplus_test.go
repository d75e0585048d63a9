package domainimport

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// crowded is archive with more disks on a bus, and with more network cards.
func crowded(disks int, bus string, cards int) string {
	var more strings.Builder
	for i := range disks {
		fmt.Fprintf(&more, "<disk type='file' device='disk'><source file='/images/%d'/><target dev='x%d' bus='%s'/></disk>", i, i, bus)
	}
	for i := range cards {
		fmt.Fprintf(&more, "<interface type='bridge'><source bridge='br%d'/><model type='virtio'/></interface>", i)
	}
	return strings.Replace(archive, "<memballoon model='none'/>", more.String()+"<memballoon model='none'/>", 1)
}

// TestSurplusDevices: if a domain has more devices than the VM has places, only the surplus is left out: the last ones of the longer list. Nothing refers to
// what is left out, and the report has the reason.
func TestSurplusDevices(t *testing.T) {
	for _, test := range []struct {
		disks        int
		bus          string
		cards        int
		keptDisks    int
		keptCards    int
		leftAreNamed string
	}{
		{228, "virtio", 0, 229, 1, ""}, // one device for each place
		{229, "virtio", 0, 229, 1, "no PCI address is left"},
		{240, "virtio", 0, 229, 1, "no PCI address is left"},
		{0, "virtio", 250, 1, 229, "no PCI address is left"}, // the only disk stays
		{150, "virtio", 150, 115, 115, "no PCI address is left"},
		{174, "sata", 0, 175, 1, ""}, // 29 controllers of six drives
		{175, "sata", 0, 175, 1, "no PCI address is left"},
		{250, "sata", 0, 175, 1, "no PCI address is left"},
		{255, "scsi", 0, 256, 1, ""}, // the longest list of the API
		{300, "scsi", 0, 256, 1, "should have at most 256 items"},
		{400, "virtio", 300, 115, 115, ""},
	} {
		name := fmt.Sprintf("%d disks on %s and %d cards", test.disks, test.bus, test.cards)
		made := makeOf(t, crowded(test.disks, test.bus, test.cards), Options{})
		devices, err := devicesOf(made)
		if err != nil {
			t.Fatal(err)
		}
		disks, _ := devices["disks"].([]any)
		cards, _ := devices["interfaces"].([]any)
		if len(disks) != test.keptDisks || len(cards) != test.keptCards || nameIn(disks[0]) != "vda" || nameIn(cards[0]) != "net0" {
			t.Errorf("%s: the VM has %d disks and %d cards, want %d and %d", name, len(disks), len(cards), test.keptDisks, test.keptCards)
		}
		template := made.VM.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		volumes, _ := template["volumes"].([]any)
		networks, _ := template["networks"].([]any)
		if len(volumes) != len(disks) || len(networks) != len(cards) || len(made.Report.Sources) != len(disks)+len(cards) {
			t.Errorf("%s: %d volumes for %d disks, %d networks for %d cards, and %d sources", name, len(volumes), len(disks), len(networks), len(cards),
				len(made.Report.Sources))
		}
		left, reasons := 0, 0
		for _, e := range made.Report.Elements {
			if (strings.HasPrefix(e.Path, "devices/disk[") || strings.HasPrefix(e.Path, "devices/interface[")) && e.Outcome == LeftOut {
				if left++; strings.Contains(strings.Join(e.Details, " "), test.leftAreNamed) {
					reasons++
				}
			}
		}
		want := test.disks + test.cards + 2 - len(disks) - len(cards)
		if left != want || reasons != want || len(made.Report.Notes) != 1 { // the note about omitted defaults
			t.Errorf("%s: %d devices are left out, %d with the reason, want %d; notes %q", name, left, reasons, want, made.Report.Notes)
		}
	}
}

// TestRepairOfSeveral: errors name the places of elements before the first one is removed, and an element with two errors is removed once.
func TestRepairOfSeveral(t *testing.T) {
	const devices = "spec.template.spec.domain.devices"
	vm := func() *unstructured.Unstructured {
		named := func(names ...string) (list []any) {
			for _, name := range names {
				list = append(list, map[string]any{"name": name, "serial": "s"})
			}
			return list
		}
		spec := map[string]any{"domain": map[string]any{"devices": map[string]any{"disks": named("a", "b", "c", "d")}}, "volumes": named("a", "b", "c", "d")}
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}}
	}
	r := &repairer{object: vm(), judged: vm()}
	errs := field.ErrorList{
		field.Invalid(field.NewPath(devices+".disks[0]"), "a", "refused"), field.Invalid(field.NewPath(devices+".disks[1].name"), "b", "refused"),
		field.Invalid(field.NewPath(devices+".disks[1]"), "b", "refused again"), field.Invalid(field.NewPath(devices+".disks[3].serial"), "s", "refused"),
	}
	if !r.repair(errs) {
		t.Fatal("nothing is removed")
	}
	want := "map[spec:map[template:map[spec:map[domain:map[devices:map[disks:[map[name:c serial:s] map[name:d]]]] " +
		"volumes:[map[name:c serial:s] map[name:d serial:s]]]]]]"
	for _, got := range []string{fmt.Sprint(r.object.Object), fmt.Sprint(r.judged.Object)} {
		if got != want {
			t.Errorf("the VM is\n%s, want\n%s", got, want)
		}
	}
	if diff := gocmp.Diff([]string{"the VM does not have " + devices + ".disks[3].serial: " + errs[3].ErrorBody()}, r.notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	reading := r.withReasons(&imported.Reading{})
	if len(reading.Notes) != 2 || reading.Notes[0].Device != "disk.a" || !strings.Contains(reading.Notes[1].Text, "refused") {
		t.Errorf("reasons %+v", reading.Notes)
	}
}
