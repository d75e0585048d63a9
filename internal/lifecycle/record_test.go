package lifecycle

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
)

func TestRecordedHardwareReturns(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	for boot, record := range []string{`{"machine":"q35-1"}`, `{"machine":"q35-1"}`, `{"machine":"q35-2"}`, `{"machine":"q35-3"}`} {
		c.frontend(record)
		c.phase(v1.Running)
		if boot == 1 {
			c.controller.recorded.forget(key) // the process restarts: what it remembers is only a shortcut
		}
		c.step()
		c.shutDown()
		c.step()
		if got := c.guest().Annotations[v1alpha1.AnnotationFrontend]; got != record {
			t.Errorf("boot %d: the next guest is given '%s', want '%s'", boot, got, record)
		}
	}
	records, err := c.controller.records(t.Context(), c.vm())
	if err != nil || len(records) != kept || string(records[0].Data.Raw) != `{"machine":"q35-3"}` || string(records[1].Data.Raw) != `{"machine":"q35-2"}` {
		t.Errorf("records %v, %v; want the newest two of three", records, err)
	}
}

// TestDiskAddedBetweenBoots: a guest inherits the record of the last boot, and the launcher adds a disk to it.
func TestDiskAddedBetweenBoots(t *testing.T) {
	const one, two = `{"devices":{"disk.root":{"pci":"0000:01:00.0"}}}`, `{"devices":{"disk.data":{"pci":"0000:02:00.0"},"disk.root":{"pci":"0000:01:00.0"}}}`
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	c.boot(one)
	c.step()
	if got := c.guest().Annotations[v1alpha1.AnnotationFrontend]; got != one {
		t.Fatalf("the second boot is given '%s', want '%s'", got, one)
	}
	c.phase(v1.Scheduled) // the controller sees the guest with the record that it inherited, and notes that this one is safe
	c.step()
	c.frontend(two)
	if err := c.Delete(t.Context(), c.guest()); err != nil {
		t.Fatal(err)
	}
	if c.guest() == nil {
		t.Fatal("the guest went before the record of its new disk was saved")
	}
	c.step()
	for boot := 3; boot <= 4; boot++ {
		if got := c.guest().Annotations[v1alpha1.AnnotationFrontend]; got != two {
			t.Errorf("boot %d is given '%s', want '%s'", boot, got, two)
		}
		c.boot(two)
		c.step()
	}
	records, err := c.controller.records(t.Context(), c.vm())
	if err != nil || len(records) != 2 || records[0].Revision != 2 || string(records[0].Data.Raw) != two || string(records[1].Data.Raw) != one {
		t.Errorf("records %v, %v; want one of each hardware that was", records, err)
	}
}

// boot is a guest's whole life: a launcher records its hardware and runs it until it shuts down.
func (c *cluster) boot(record string) {
	c.Helper()
	c.frontend(record)
	c.phase(v1.Running)
	c.step()
	c.shutDown()
}

// TestRecordWinsOverAnotherSeed: identity comes from the seed at the first boot, and from the record at all others.
func TestRecordWinsOverAnotherSeed(t *testing.T) {
	const record = `{"uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223","serial":"S-1","macs":{"default":"52:54:00:11:22:33"}}`
	own := func(vm *v1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Firmware = &v1.Firmware{Serial: "mine"}
	}
	for _, test := range []struct {
		name, why         string
		change            func(*v1.VirtualMachine)
		uuid, serial, mac bool // as recorded
	}{
		{name: "seed edited", why: "the guest has been seen", change: func(vm *v1.VirtualMachine) { vm.Annotations[v1alpha1.AnnotationIdentity] = "other" }, uuid: true, serial: true, mac: true},
		{name: "seed dropped", why: "the guest has been seen", change: func(vm *v1.VirtualMachine) { delete(vm.Annotations, v1alpha1.AnnotationIdentity) }, uuid: true, serial: true, mac: true},
		{name: "latest", why: "the owner asks for what is derived afresh", change: func(vm *v1.VirtualMachine) { vm.Annotations[v1alpha1.AnnotationHardware] = v1alpha1.HardwareLatest }},
		{name: "own serial", why: "what the user sets wins", change: own, uuid: true, mac: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, machine(v1.RunStrategyAlways))
			c.step()
			c.boot(record)
			vm := c.vm()
			test.change(vm)
			if err := c.Update(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
			c.step()
			domain := c.guest().Spec.Domain
			if got := domain.Firmware.UUID == "5d307ca9-b3ef-428c-8861-06e72d69f223"; got != test.uuid {
				t.Errorf("%s: UUID %s", test.why, domain.Firmware.UUID)
			}
			if got := domain.Firmware.Serial == "S-1"; got != test.serial {
				t.Errorf("%s: serial %s", test.why, domain.Firmware.Serial)
			}
			if got := domain.Devices.Interfaces[0].MacAddress; (got == "52:54:00:11:22:33") != test.mac || got == "" {
				t.Errorf("%s: MAC '%s'", test.why, got)
			}
		})
	}
}

func TestLatestHardwareIsDerivedAfresh(t *testing.T) {
	vm := machine(v1.RunStrategyAlways)
	vm.Annotations = map[string]string{v1alpha1.AnnotationHardware: v1alpha1.HardwareLatest}
	c := newCluster(t, vm)
	c.step()
	c.frontend(`{"machine":"q35-1"}`)
	c.shutDown()
	c.step()
	if got, found := c.guest().Annotations[v1alpha1.AnnotationFrontend]; found {
		t.Errorf("the guest is given '%s' although its owner wants the latest hardware", got)
	}
	c.boot(`{"machine":"q35-2"}`)
	told := "nothing"
	for range len(c.recorder().Events) {
		if event := <-c.recorder().Events; strings.Contains(event, "HardwareChanged") {
			told = event
		}
	}
	if want := "the machine changes from 'q35-1' to 'q35-2'"; !strings.Contains(told, want) {
		t.Errorf("the owner is told '%s', want '%s'", told, want)
	}
}

// TestCapturedHardware: a VM that takes over a guest of elsewhere has the record of it in its template.
func TestCapturedHardware(t *testing.T) {
	const captured = `{"uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223"}`
	vm := machine(v1.RunStrategyAlways)
	vm.Spec.Template.ObjectMeta.Annotations = map[string]string{v1alpha1.AnnotationFrontend: captured}
	c := newCluster(t, vm)
	c.step()
	if got := c.guest(); got.Annotations[v1alpha1.AnnotationFrontend] != captured || got.Spec.Domain.Firmware.UUID != "5d307ca9-b3ef-428c-8861-06e72d69f223" {
		t.Errorf("the first guest has record '%s' and UUID '%s', want those captured", got.Annotations[v1alpha1.AnnotationFrontend], got.Spec.Domain.Firmware.UUID)
	}
	const own = `{"machine":"q35-1","uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223"}`
	c.boot(own)
	c.step()
	if got := c.guest().Annotations[v1alpha1.AnnotationFrontend]; got != own {
		t.Errorf("the second guest has record '%s', want that of the first's boot", got)
	}
}

// recorder keeps the events of the controller.
func (c *cluster) recorder() *events.FakeRecorder {
	return c.controller.Events.(*events.FakeRecorder)
}

// TestNamesOfRecords: a VM's name may be 253 characters long, and have dots anywhere.
func TestNamesOfRecords(t *testing.T) {
	for _, name := range []string{"a", strings.Repeat("a", 253), strings.Repeat("a", 199) + "." + strings.Repeat("b", 53), strings.Repeat("a.", 126) + "a"} {
		vm := machine(v1.RunStrategyHalted)
		vm.Name = name
		c := newCluster(t, vm)
		if _, err := c.controller.save(t.Context(), vm, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		records, err := c.controller.records(t.Context(), vm)
		if err != nil || len(records) != 1 {
			t.Fatalf("records %v, %v", records, err)
		}
		if problems := validation.IsDNS1123Subdomain(records[0].Name); len(problems) > 0 {
			t.Errorf("'%s': %v", records[0].Name, problems)
		}
	}
}
