package backend_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/pipeline"
)

// TestCouplings: where guest and host do not go together, the error names both sides and the guest is not altered to fit.
func TestCouplings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, domain string
		host        func(*pipeline.Machine)
		want, words string
	}{
		{"queues of an interface in user space", "cpu: {cores: 2}, devices: {networkInterfaceMultiqueue: true, interfaces: [{name: default, masquerade: {}}]}",
			func(m *pipeline.Machine) {
				nic := m.Bindings.NICs["default"]
				nic.Kind = "user"
				m.Bindings.NICs["default"] = nic
			},
			"FieldValueInvalid spec.domain.devices.networkInterfaceMultiqueue", "several queues need a tap or bridge on the host, and this host binds the interface in user space"},
		{"one queue needs no tap", "cpu: {cores: 1}, devices: {interfaces: [{name: default, masquerade: {}}]}", func(*pipeline.Machine) {}, "", ""},
		{"the host's own CPU on a host that emulates", "cpu: {cores: 1, model: host-passthrough}", func(m *pipeline.Machine) { m.Host.VirtTypes = []string{"qemu"} },
			"FieldValueInvalid spec.domain.cpu.model", "needs hardware virtualization, and this host emulates"},
		{"the host's own CPU on a host with KVM", "cpu: {cores: 1, model: host-passthrough}", func(*pipeline.Machine) {}, "", ""},
		{"no EFI build for the machine", "firmware: {bootloader: {efi: {secureBoot: false}}}", func(m *pipeline.Machine) { m.Host.Firmware = nil },
			"FieldValueInvalid spec.domain.firmware.bootloader.efi", "has no EFI firmware without enrolled keys for machine"},
		{"keys are not enrolled behind the guest's back", "firmware: {bootloader: {efi: {secureBoot: false}}}", func(m *pipeline.Machine) { m.Host.Firmware = m.Host.Firmware[:1] },
			"FieldValueInvalid spec.domain.firmware.bootloader.efi", "without enrolled keys"},
		{"no file for the variables of the firmware", "firmware: {bootloader: {efi: {secureBoot: false}}}", func(m *pipeline.Machine) { m.Bindings.NVRAM = "" },
			"FieldValueInvalid spec.domain.firmware.bootloader.efi", "has bound no file for the firmware's variables"},
		{"no emulator for the architecture", "cpu: {cores: 1}", func(m *pipeline.Machine) { m.Host.Emulators = nil }, "FieldValueInvalid spec.architecture", "has no emulator"},
		{"a machine that this QEMU has not", "machine: {type: pc-q35-99.0}", func(m *pipeline.Machine) {
			m.Host.Machines = map[string]map[string]string{"amd64": {"q35": "pc-q35-7.2", "pc-q35-7.2": "pc-q35-7.2"}}
		}, "FieldValueInvalid spec.domain.machine.type", "does not have this machine"},
		{"a device of another kind than at the first boot", "devices: {hostDevices: [{name: fpga, deviceName: example.com/fpga}]}", func(m *pipeline.Machine) {
			dev := m.Bindings.HostDevs["fpga"]
			dev.Address = "not an address"
			m.Bindings.HostDevs["fpga"] = dev
		}, "FieldValueInvalid spec.domain.devices.hostDevices[0]", ""},
		{"an interface that nothing is bound to", "devices: {interfaces: [{name: default, masquerade: {}}]}", func(m *pipeline.Machine) { m.Bindings.NICs = nil },
			"FieldValueInvalid spec.domain.devices.interfaces[0]", "has bound nothing for this interface"},
		{"a file system without its daemon", "devices: {filesystems: [{name: fs, virtiofs: {}}]}", func(m *pipeline.Machine) { m.Bindings.Filesystems = nil },
			"FieldValueInvalid spec.domain.devices.filesystems[0]", "has bound no virtiofsd socket"},
	} {
		t.Run(c.why, func(t *testing.T) {
			m := machine(t, "{architecture: amd64, domain: {memory: {guest: 1Gi}, "+c.domain+"}, networks: [{name: default, pod: {}}]}")
			c.host(&m)
			refusal(t, m, c.want, c.words)
		})
	}
}
