package frontend_test

import (
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/test/frontends"
)

// TestAliases: libvirt requires unique aliases, and the backend finds the binding of a device by its alias. Names of interfaces and host devices may
// begin with a kind.
func TestAliases(t *testing.T) {
	t.Parallel()
	const devices = `
spec: {domain: {devices: {
  disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: sata}}],
  inputs: [{name: disk_a, type: tablet, bus: usb}, {name: input_b, type: tablet, bus: usb}],
  interfaces: [{name: a}, {name: disk_a, bridge: {}}, {name: interface_a, bridge: {}}, {name: interface_interface_a, bridge: {}},
    {name: interface_disk_a, bridge: {}}, {name: interface_, bridge: {}}],
  hostDevices: [{name: a, deviceName: d}, {name: hostdev_a, deviceName: d}, {name: interface_a, deviceName: d}, {name: disk_a, deviceName: d}]}}}`
	in := frontends.With(t, "amd64", "aliases", devices)
	dom := frontends.Rendered(t, in)
	aliases, names := map[string]string{}, map[string][]string{}
	for _, d := range abi.Devices(dom) {
		if d.Alias == nil || *d.Alias == nil {
			continue
		}
		alias := (*d.Alias).Name
		if other, taken := aliases[alias]; taken {
			t.Errorf("%s and %s have the same alias '%s'", other, d.Key(), alias)
		}
		aliases[alias], names[d.Kind] = d.Key(), append(names[d.Kind], d.Name)
	}
	for kind, want := range map[string][]string{
		"disk":      {"a", "b"},
		"interface": {"a", "disk_a", "interface_a", "interface_interface_a", "interface_disk_a", "interface_"},
		"hostdev":   {"a", "hostdev_a", "interface_a", "disk_a"},
		"input":     {"disk_a", "b", "ps2-mouse", "ps2-keyboard"}, // they need no binding, and are recorded under the short name
	} {
		if !slices.Equal(names[kind], want) {
			t.Errorf("devices of kind %s are named %q, want %q", kind, names[kind], want)
		}
	}
	start := backend.Input{Frontend: dom, VMI: in.VMI, Host: backend.Assumed("amd64"), Bindings: backend.AssumedBindings(in.VMI)}
	if _, errs := backend.Render(start); len(errs) > 0 {
		t.Errorf("no binding is found by name: %v", errs.ToAggregate())
	}
}

// TestDuplicateNames: one name twice in one kind is an error at the second, whatever devices of other kinds are named. The error about inputs that the record
// names alike is at the one with that name.
func TestDuplicateNames(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		`spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio}}, {name: a, disk: {bus: virtio}}]}}}`: "spec.domain.devices.disks[1].name",
		`spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio}}, {name: a, disk: {bus: virtio}}],
		  interfaces: [{name: a}]}}}`: "spec.domain.devices.disks[1].name",
		`spec: {domain: {devices: {inputs: [{name: a, type: tablet, bus: usb}, {name: input_a, type: tablet, bus: usb}]}}}`: "spec.domain.devices.inputs[0].name",
		`spec: {domain: {devices: {interfaces: [{name: interface_a}, {name: a, bridge: {}},
		  {name: interface_a, bridge: {}}]}}}`: "spec.domain.devices.interfaces[2].name",
	} {
		if _, errs := frontend.Render(frontends.With(t, "amd64", "twice", more)); len(errs) != 1 || errs[0].Field != want {
			t.Errorf("errors %v, want one at '%s'", errs, want)
		}
	}
}
