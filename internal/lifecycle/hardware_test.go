package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// finalizers are those of the guest.
func (c *cluster) finalizers(names ...string) {
	c.Helper()
	vmi := c.guest()
	vmi.Finalizers = names
	if err := c.Update(c.Context(), vmi); err != nil {
		c.Fatal(err)
	}
}

// record is what a launcher writes before it starts a guest.
func (c *cluster) record(text string) {
	c.Helper()
	if c.guest().Status.NodeName == "" {
		c.phase(v1.Scheduled)
	}
	c.step()
	found := c.hardware()
	if found == nil || found.Status.Guest == nil || found.Status.Guest.UID != c.guest().UID || found.Status.Guest.NodeName != "node" {
		c.Fatalf("the launcher finds no hardware for its guest: %+v", found)
	}
	found.Spec.Hardware = recorded(c.T, text)
	if err := c.Update(c.Context(), found); err != nil {
		c.Fatal(err)
	}
}

func recorded(t *testing.T, text string) *v1alpha1.HardwareRecord {
	t.Helper()
	hardware := &v1alpha1.HardwareRecord{}
	if err := json.Unmarshal([]byte(text), hardware); err != nil {
		t.Fatal(err)
	}
	return hardware
}

// hardware is the GuestHardware, nil if there is none.
func (c *cluster) hardware() *v1alpha1.GuestHardware {
	c.Helper()
	found, err := Hardware(c.Context(), c.Client, key)
	if err != nil {
		c.Fatal(err)
	}
	return found
}

// boot is a guest's whole life: a launcher records its hardware and runs it until it shuts down.
func (c *cluster) boot(record string) {
	c.Helper()
	c.record(record)
	c.phase(v1.Running)
	c.step()
	c.shutDown()
}

// recorder keeps the events of the controller.
func (c *cluster) recorder() *events.FakeRecorder {
	return c.controller.Events.(*events.FakeRecorder)
}

func TestRecordedHardwareReturns(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	if found := c.hardware(); found != nil {
		t.Errorf("there is hardware before a launcher has claimed the guest: %+v", found)
	}
	for boot, record := range []string{`{"machine":"q35-1"}`, `{"machine":"q35-1"}`, `{"machine":"q35-2","digest":"x"}`} {
		if found := c.hardware(); boot > 0 && found.Spec.Hardware == nil {
			t.Fatalf("boot %d begins without hardware", boot)
		}
		c.boot(record)
		if boot == 1 {
			c.records.settled, c.records.previous = settledInputs{}, previousHardware{} // the process restarts: its memories are shortcuts
		}
		found := c.hardware()
		if diff := cmp.Diff(recorded(t, record), found.Spec.Hardware); diff != "" {
			t.Errorf("boot %d leaves (-want +got):\n%s", boot, diff)
		}
		want := v1alpha1.GuestHardwareStatus{VirtualMachineUID: c.vm().UID, Boots: int64(boot) + 1,
			Guest:    &v1alpha1.HardwareUser{UID: c.guest().UID, NodeName: "node"},
			LastBoot: &v1alpha1.HardwareBoot{UID: c.guest().UID, Digest: found.Spec.Hardware.Digest, Time: found.Status.LastBoot.Time}}
		if diff := cmp.Diff(want, found.Status); diff != "" {
			t.Errorf("boot %d leaves (-want +got):\n%s", boot, diff)
		}
		if found.Spec.Identity != c.vm().Annotations[v1alpha1.AnnotationIdentity] || len(found.OwnerReferences) > 0 {
			t.Errorf("identity '%s', owners %v", found.Spec.Identity, found.OwnerReferences)
		}
		c.step()
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
		{name: "seed edited", why: "the guest has been seen", change: annotated(v1alpha1.AnnotationIdentity, "other"), uuid: true, serial: true, mac: true},
		{name: "seed dropped", why: "the guest has been seen", change: annotated(v1alpha1.AnnotationIdentity, ""), uuid: true, serial: true, mac: true},
		{name: "latest", why: "the owner asks for what is derived afresh", change: annotated(v1alpha1.AnnotationHardware, "latest")},
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
			if found, seed := c.hardware(), c.vm().Annotations[v1alpha1.AnnotationIdentity]; found.Spec.Identity != seed {
				t.Errorf("the hardware is of identity '%s', the VM's is '%s': a backup of both would not fit together", found.Spec.Identity, seed)
			}
		})
	}
}

func annotated(key, value string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Annotations[key] = value }
}

// TestChangedHardwareIsReported: the event of a boot with the latest hardware names what changed.
func TestChangedHardwareIsReported(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	c.boot(`{"machine":"q35-1"}`)
	c.step()
	c.boot(`{"machine":"q35-2"}`)
	reported := "nothing"
	for range len(c.recorder().Events) {
		if event := <-c.recorder().Events; strings.Contains(event, "HardwareChanged") {
			reported = event
		}
	}
	if want := "the machine changes from 'q35-1' to 'q35-2'"; !strings.Contains(reported, want) {
		t.Errorf("event '%s', want '%s'", reported, want)
	}
}

// TestHardwareGoesWithItsGuest, at whatever line the controller died before, and never while another guest needs it.
func TestHardwareGoesWithItsGuest(t *testing.T) {
	restart := func(c *cluster) { c.records.settled, c.records.previous = settledInputs{}, previousHardware{} }
	for _, test := range []struct {
		why   string
		after func(*cluster)
		stays bool
	}{
		{"the VM goes", func(c *cluster) { c.remove(c.vm()); c.remove(c.guest()) }, false},
		{"its guest outlives it", func(c *cluster) { c.remove(c.vm()) }, true},
		{"while no controller ran", func(c *cluster) { c.remove(c.vm()); c.remove(c.guest()); restart(c) }, false},
		{"the VM stays halted", func(c *cluster) { c.strategy(v1.RunStrategyHalted); c.step() }, true},
		{"another VM has the name", func(c *cluster) { c.remove(c.vm()); c.remove(c.guest()); c.add("22222222-aaaa", "") }, false},
		{"the VM is made again with its seed", func(c *cluster) { c.remove(c.vm()); c.remove(c.guest()); c.add("22222222-aaaa", "11111111-aaaa") }, true},
		{"the VM is deleted and its guest is not gone", func(c *cluster) { c.remove(c.vm()); restart(c) }, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := newCluster(t, machine(v1.RunStrategyAlways))
			c.step()
			c.boot(`{"machine":"q35-1"}`)
			test.after(c)
			c.step()
			found := c.hardware()
			if stays := found != nil && found.Spec.Hardware != nil; stays != test.stays {
				t.Errorf("it stays: %t, want %t", stays, test.stays)
			}
		})
	}
}

func (c *cluster) remove(object client.Object) {
	c.Helper()
	if err := c.Delete(c.Context(), object); err != nil {
		c.Fatal(err)
	}
}

// add makes a halted VM of the name.
func (c *cluster) add(uid, seed string) {
	c.Helper()
	vm := machine(v1.RunStrategyHalted)
	vm.UID = "" // the API server gives another one
	if seed != "" {
		vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: seed}
	}
	if err := c.Create(c.Context(), vm); err != nil {
		c.Fatal(err, uid)
	}
}
