package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// setFinalizers sets the finalizers of the VMI.
func (c *testCluster) setFinalizers(names ...string) {
	c.Helper()
	vmi := c.vmi()
	vmi.Finalizers = names
	if err := c.Update(c.Context(), vmi); err != nil {
		c.Fatal(err)
	}
}

// writeRecord writes the record, as a launcher does before it starts a guest.
func (c *testCluster) writeRecord(text string) {
	c.Helper()
	if c.vmi().Status.NodeName == "" {
		c.setPhase(v1.Scheduled)
	}
	c.reconcileRepeatedly()
	found := c.hardware()
	if found == nil || found.Status.Guest == nil || found.Status.Guest.UID != c.vmi().UID || found.Status.Guest.NodeName != "node" {
		c.Fatalf("the launcher finds no hardware for its guest: %+v", found)
	}
	found.Spec.Hardware = parseRecord(c.T, text)
	if err := c.Update(c.Context(), found); err != nil {
		c.Fatal(err)
	}
}

func parseRecord(t *testing.T, text string) *v1alpha1.HardwareRecord {
	t.Helper()
	hardware := &v1alpha1.HardwareRecord{}
	if err := json.Unmarshal([]byte(text), hardware); err != nil {
		t.Fatal(err)
	}
	return hardware
}

// hardware returns the GuestHardware, nil if it does not exist.
func (c *testCluster) hardware() *v1alpha1.GuestHardware {
	c.Helper()
	found, err := ownership.ReadHardware(c.Context(), c.Client, key)
	if err != nil {
		c.Fatal(err)
	}
	return found
}

// bootAndShutDown runs a guest from the record of its hardware until it shuts down.
func (c *testCluster) bootAndShutDown(record string) {
	c.Helper()
	c.writeRecord(record)
	c.setPhase(v1.Running)
	c.reconcileRepeatedly()
	c.shutDownGuest()
}

// eventRecorder returns the recorder of the controller's events.
func (c *testCluster) eventRecorder() *events.FakeRecorder {
	return c.controller.Events.(*events.FakeRecorder)
}

func TestRecordedHardwareReturns(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	if found := c.hardware(); found != nil {
		t.Errorf("there is hardware before a launcher has claimed the guest: %+v", found)
	}
	for boot, record := range []string{`{"machine":"q35-1"}`, `{"machine":"q35-1"}`, `{"machine":"q35-2","digest":"x"}`} {
		if found := c.hardware(); boot > 0 && found.Spec.Hardware == nil {
			t.Fatalf("boot %d begins without hardware", boot)
		}
		c.bootAndShutDown(record)
		if boot == 1 {
			c.restartRecords() // the process restarts: its memories are shortcuts
		}
		found := c.hardware()
		if diff := cmp.Diff(parseRecord(t, record), found.Spec.Hardware); diff != "" {
			t.Errorf("boot %d leaves (-want +got):\n%s", boot, diff)
		}
		want := v1alpha1.GuestHardwareStatus{VirtualMachineUID: c.vm().UID, Boots: int64(boot) + 1,
			Guest:    &v1alpha1.HardwareUser{UID: c.vmi().UID, NodeName: "node"},
			LastBoot: &v1alpha1.HardwareBoot{UID: c.vmi().UID, Digest: found.Spec.Hardware.Digest, Time: found.Status.LastBoot.Time}}
		if diff := cmp.Diff(want, found.Status); diff != "" {
			t.Errorf("boot %d leaves (-want +got):\n%s", boot, diff)
		}
		if found.Spec.Identity != c.vm().Annotations[v1alpha1.AnnotationIdentity] || len(found.OwnerReferences) > 0 {
			t.Errorf("identity '%s', owners %v", found.Spec.Identity, found.OwnerReferences)
		}
		c.reconcileRepeatedly()
	}
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
		{name: "seed edited", why: "the guest has been seen", change: setAnnotation(v1alpha1.AnnotationIdentity, "other"), uuid: true, serial: true, mac: true},
		{name: "seed dropped", why: "the guest has been seen", change: setAnnotation(v1alpha1.AnnotationIdentity, ""), uuid: true, serial: true, mac: true},
		{name: "latest", why: "the owner asks for what is derived afresh", change: setAnnotation(v1alpha1.AnnotationHardware, "latest")},
		{name: "own serial", why: "what the user sets wins", change: own, uuid: true, mac: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, newVM(v1.RunStrategyAlways))
			c.reconcileRepeatedly()
			c.bootAndShutDown(record)
			vm := c.vm()
			test.change(vm)
			if err := c.Update(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
			c.reconcileRepeatedly()
			domain := c.vmi().Spec.Domain
			if got := domain.Firmware.UUID == "5d307ca9-b3ef-428c-8861-06e72d69f223"; got != test.uuid {
				t.Errorf("%s: UUID %s", test.why, domain.Firmware.UUID)
			}
			if got := domain.Firmware.Serial == "S-1"; got != test.serial {
				t.Errorf("%s: serial %s", test.why, domain.Firmware.Serial)
			}
			if got := domain.Devices.Interfaces[0].MacAddress; (got == "52:54:00:11:22:33") != test.mac || got == "" {
				t.Errorf("%s: MAC '%s'", test.why, got)
			}
			if found, seed := c.hardware(), c.vm().Annotations[v1alpha1.AnnotationIdentity]; found.Spec.Identity != seed {
				t.Errorf("the hardware is of identity '%s', the VM's is '%s': a backup of both would not fit together", found.Spec.Identity, seed)
			}
		})
	}
}

func setAnnotation(key, value string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Annotations[key] = value }
}

// TestChangedHardwareIsReported: the event of a boot with the latest hardware names what changed.
func TestChangedHardwareIsReported(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	c.bootAndShutDown(`{"machine":"q35-1"}`)
	c.reconcileRepeatedly()
	c.bootAndShutDown(`{"machine":"q35-2"}`)
	reported := "nothing"
	for range len(c.eventRecorder().Events) {
		if event := <-c.eventRecorder().Events; strings.Contains(event, "HardwareChanged") {
			reported = event
		}
	}
	if want := "the machine changes from 'q35-1' to 'q35-2'"; !strings.Contains(reported, want) {
		t.Errorf("event '%s', want '%s'", reported, want)
	}
}

// TestNewerRecordIsReported: the event of a boot names the fields of a record of a later version, which stay in the record.
func TestNewerRecordIsReported(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	c.bootAndShutDown(`{"schemaVersion":5,"machine":"q35-1","cache":{"model":"EPYC-v4"}}`)
	var events []string
	for range len(c.eventRecorder().Events) {
		events = append(events, <-c.eventRecorder().Events)
	}
	if all := strings.Join(events, "\n"); !strings.Contains(all, "Warning HardwareChanged") || !strings.Contains(all, "does not reproduce, 'cache'") {
		t.Errorf("events:\n%s", all)
	}
	if record := c.hardware().Spec.Hardware; record.SchemaVersion != 5 || string(record.Unknown["cache"]) != `{"model":"EPYC-v4"}` {
		t.Errorf("record %+v", record)
	}
}

// TestHardwareGoesWithItsGuest: the hardware is deleted with its guest, at whatever line the controller died before, and never while another guest needs it.
func TestHardwareGoesWithItsGuest(t *testing.T) {
	restart := func(c *testCluster) { c.restartRecords() }
	for _, test := range []struct {
		why   string
		after func(*testCluster)
		stays bool
	}{
		{"the VM goes", func(c *testCluster) { c.deleteObject(c.vm()); c.deleteObject(c.vmi()) }, false},
		{"its guest outlives it", func(c *testCluster) { c.deleteObject(c.vm()) }, true},
		{"while no controller ran", func(c *testCluster) { c.deleteObject(c.vm()); c.deleteObject(c.vmi()); restart(c) }, false},
		{"the VM stays halted", func(c *testCluster) { c.setRunStrategy(v1.RunStrategyHalted); c.reconcileRepeatedly() }, true},
		{"another VM has the name", func(c *testCluster) {
			c.deleteObject(c.vm())
			c.deleteObject(c.vmi())
			c.createHaltedVM("22222222-aaaa", "")
		}, false},
		{"the VM is made again with its seed", func(c *testCluster) {
			c.deleteObject(c.vm())
			c.deleteObject(c.vmi())
			c.createHaltedVM("22222222-aaaa", "11111111-aaaa")
		}, true},
		{"the VM is deleted and its guest is not gone", func(c *testCluster) { c.deleteObject(c.vm()); restart(c) }, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := newCluster(t, newVM(v1.RunStrategyAlways))
			c.reconcileRepeatedly()
			c.bootAndShutDown(`{"machine":"q35-1"}`)
			test.after(c)
			c.reconcileRepeatedly()
			found := c.hardware()
			if stays := found != nil && found.Spec.Hardware != nil; stays != test.stays {
				t.Errorf("it stays: %t, want %t", stays, test.stays)
			}
		})
	}
}

func (c *testCluster) deleteObject(object client.Object) {
	c.Helper()
	if err := c.Delete(c.Context(), object); err != nil {
		c.Fatal(err)
	}
}

// createHaltedVM creates a halted VM with the name.
func (c *testCluster) createHaltedVM(uid, seed string) {
	c.Helper()
	vm := newVM(v1.RunStrategyHalted)
	vm.UID = "" // the API server gives another one
	if seed != "" {
		vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: seed}
	}
	if err := c.Create(c.Context(), vm); err != nil {
		c.Fatal(err, uid)
	}
}
