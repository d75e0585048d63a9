package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// bundled is a guest whose host devices are of USB.
func bundled(t *testing.T, devices map[string]backend.HostDev, names ...string) Machine {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "guest", "default", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	for _, name := range names {
		vmi.Spec.Domain.Devices.HostDevices = append(vmi.Spec.Domain.Devices.HostDevices, v1.HostDevice{Name: name, DeviceName: "example.org/" + name})
	}
	cluster := config.Default()
	cluster.Limits.Gates = config.AllGates()
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: resource.NewQuantity(1<<30, resource.BinarySI)}
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: cluster})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	m := Machine{VMI: explicit, Defaults: config.Default().Frontend, Host: backend.Assumed("amd64"), Bindings: backend.AssumedBindings(explicit)}
	m.Bindings.HostDevs = devices
	return m
}

// started boots a guest as a pod does: the facts go to the controller, and its hardware comes back. It returns port and source of each USB device by name.
func started(t *testing.T, m Machine, frozen *record.Record) (map[string]string, *record.Record) {
	t.Helper()
	facts, err := ReadFacts(m.VMI, Report(m.VMI, Facts(m)))
	if err != nil {
		t.Fatal(err)
	}
	m.Frozen = frozen
	hardware, errs := FromFacts(m, facts)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	text, err := hardware.Frontend.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	front, err := ReadFrontend(text)
	if err != nil {
		t.Fatal(err)
	}
	documents, errs := Documents(m, front)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	found := map[string]string{}
	for _, d := range documents.Domain.Devices.Hostdevs {
		from := d.SubsysUSB.Source.Address
		found[abi.Name("hostdev", d.Alias)] = d.Address.USB.Port + " is " + string(rune('0'+*from.Bus)) + "." + string(rune('0'+*from.Device))
	}
	if err := record.Check(&hardware.Record); err != nil {
		t.Fatal(err)
	}
	return found, &hardware.Record
}

// TestBundles: the guest has every USB device that its pod was given, and each keeps its port when others come and go.
func TestBundles(t *testing.T) {
	desk := func(addresses ...string) backend.HostDev {
		return backend.HostDev{Type: "usb", Address: addresses[0], Bundle: addresses[1:]}
	}
	key := backend.HostDev{Type: "usb", Address: "2.7"}
	first, frozen := started(t, bundled(t, map[string]backend.HostDev{"desk": desk("1.4", "1.5", "3.2"), "key": key}, "desk", "key"), nil)
	want := map[string]string{"desk": "1 is 1.4", "desk_2": "2 is 1.5", "desk_3": "3 is 3.2", "key": "4 is 2.7"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first boot (-want +got):\n%s", diff)
	}
	more, _ := started(t, bundled(t, map[string]backend.HostDev{"desk": desk("1.4", "1.5", "3.2", "3.3"), "key": key}, "desk", "key"), frozen)
	want["desk_4"] = "5 is 3.3"
	if diff := cmp.Diff(want, more); diff != "" {
		t.Errorf("one more at a later boot (-want +got):\n%s", diff)
	}
	fewer, _ := started(t, bundled(t, map[string]backend.HostDev{"desk": desk("4.1"), "key": key}, "desk", "key"), frozen)
	if diff := cmp.Diff(map[string]string{"desk": "1 is 4.1", "key": "4 is 2.7"}, fewer); diff != "" {
		t.Errorf("fewer at a later boot (-want +got):\n%s", diff)
	}
}

// TestBundlesRefused: no device is lost in silence, and no two have one name.
func TestBundlesRefused(t *testing.T) {
	three := map[string]backend.HostDev{"desk": {Type: "usb", Address: "1.4", Bundle: []string{"1.5", "3.2"}}}
	two := map[string]backend.HostDev{"desk": {Type: "usb", Address: "1.4", Bundle: []string{"1.5"}}}
	m := bundled(t, three, "desk")
	of := func(devices map[string]backend.HostDev) *libvirtxml.Domain {
		hardware, errs := FromFacts(bundled(t, devices, "desk"), Facts(bundled(t, devices, "desk")))
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		return hardware.Frontend
	}
	const at = "spec.domain.devices.hostDevices[0]: Invalid value: "
	_, errs := Documents(m, of(two))
	if text := errs.ToAggregate(); text == nil || !strings.HasPrefix(text.Error(), at+`"desk": `) || !strings.Contains(text.Error(), "binds 3 USB devices") {
		t.Errorf("hardware of two of three devices: %v", text)
	}
	m.Bindings.HostDevs = two
	_, errs = Documents(m, of(three))
	if text := errs.ToAggregate(); text == nil || !strings.HasPrefix(text.Error(), at+`"desk_3": `) {
		t.Errorf("two devices for hardware of three: %v", text)
	}
	m = bundled(t, map[string]backend.HostDev{"desk": two["desk"], "desk_2": {Type: "usb", Address: "3.1"}}, "desk", "desk_2")
	_, errs = FromFacts(m, Facts(m))
	if text := errs.ToAggregate(); text == nil || !strings.Contains(text.Error(), `Duplicate value: "desk_2"`) {
		t.Errorf("a device that is named like one of a bundle: %v", text)
	}
	alone := bundled(t, map[string]backend.HostDev{"desk_2": {Type: "usb", Address: "3.1"}}, "desk_2")
	if found, _ := started(t, alone, nil); found["desk_2"] != "1 is 3.1" {
		t.Errorf("a device of that name alone is %v", found)
	}
}
