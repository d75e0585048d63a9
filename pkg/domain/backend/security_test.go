package backend_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
)

// TestCouplings: where guest and host do not go together, the error names both sides and the guest is not altered to fit.
func TestCouplings(t *testing.T) {
	t.Parallel()
	kind := func(name string) func(*render.Machine) { return func(m *render.Machine) { bind(*m, name) } }
	policy := func(name, spec string) func(*render.Machine) {
		return func(m *render.Machine) {
			if name != "" {
				bind(*m, name)
			}
			m.Policy = backends.PolicyOf(t, *m, backends.HostProfile(t, "p", spec))
		}
	}
	nic, nicPath := "devices: {interfaces: [{name: default, masquerade: {}}]}", "FieldValueForbidden spec.domain.devices.interfaces[0]"
	disk, diskPath := "devices: {disks: [{name: a, disk: {bus: virtio}}]}", "FieldValueForbidden spec.domain.devices.disks[0].io"
	mirrors := "cpu: {cores: 2, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}"
	for _, c := range []struct {
		why, domain string
		host        func(*render.Machine)
		want, words string
	}{
		{"virtiofs with memory that cannot be shared", "devices: {filesystems: [{name: a, virtiofs: {}}]}", policy("", "{memory: {backing: Anonymous}}"),
			"FieldValueForbidden spec.domain.devices.filesystems", "virtiofs needs shared memory, and hostProfile.memory.backing is 'Anonymous'"},
		{"virtiofs with memory in files", "devices: {filesystems: [{name: a, virtiofs: {}}]}", policy("", "{memory: {backing: File}}"), "", ""},
		{"vhost-user with memory that cannot be shared", nic, policy("vhostuser", "{memory: {backing: Anonymous}}"), nicPath,
			"hostProfile.memory.backing is 'Anonymous'"},
		{"vhost-user needs virtio", "devices: {interfaces: [{name: default, masquerade: {}, model: e1000}]}", kind("vhostuser"), nicPath,
			"which supports model 'virtio' only"},
		{"vhost without a device of the kernel", nic, policy("user", "{net: {vhost: true}}"), nicPath, "hostProfile.net.vhost 'true' needs a tap, bridge or macvtap"},
		{"vhost is for virtio alone, and no other card minds", "devices: {interfaces: [{name: default, masquerade: {}, model: e1000}]}",
			policy("user", "{net: {vhost: true}}"), "", ""},
		{"vhost on a tap", nic, policy("tap", "{net: {vhost: true}}"), "", ""},
		{"a limit that nobody would keep", nic, policy("user", "{net: {inbound: {averageBytesPerSecond: 1000}}}"), nicPath, "hostProfile.net.inbound"},
		{"a filter without a tap", nic, policy("direct", "{net: {filterRef: f}}"), nicPath, "hostProfile.net.filterRef"},
		{"a filter of ours without a tap", nic, policy("vhostuser", "{security: {nwFilter: AntiSpoofing}}"), nicPath, "hostProfile.security.nwFilter"},
		{"in user space nothing is to be filtered", nic, policy("user", "{security: {nwFilter: AntiSpoofing}}"), "", ""},
		{"trust without a macvtap", nic, policy("bridge", "{net: {trustRx: true}}"), nicPath, "hostProfile.net.trustRx"},
		{"trust with one", nic, policy("direct", "{net: {trustRx: true}}"), "", ""},
		{"isolation needs a bridge", nic, policy("tap", "{net: {isolated: true}}"), nicPath, "hostProfile.net.isolated"},
		{"NUMA nodes need pins", mirrors, policy("", "{cpu: {pinStrategy: None}}"), "FieldValueForbidden spec.domain.cpu.numa.guestMappingPassthrough",
			"hostProfile.cpu.pinStrategy is 'None'"},
		{"NUMA nodes need their memory", mirrors, policy("", "{numa: {mode: Interleave}}"),
			"FieldValueForbidden spec.domain.cpu.numa.guestMappingPassthrough", "hostProfile.numa.mode"},
		{"less than the guest's memory", "cpu: {cores: 1}", policy("", "{memory: {hardLimit: 1Gi}}"), "FieldValueForbidden spec.domain.memory.guest",
			"hostProfile.memory.hardLimit"},
		{"native IO over the administrator's cache", "devices: {disks: [{name: a, disk: {bus: virtio}, io: native}]}",
			policy("", "{disk: {cachePolicy: WriteBack}}"), diskPath, "hostProfile.disk.cachePolicy"},
		{"the administrator's native IO over the user's cache", "devices: {disks: [{name: a, disk: {bus: virtio}, cache: writeback}]}",
			policy("", "{disk: {ioPolicy: Native}}"), diskPath, "io 'native' bypasses the host page cache"},
		{"native IO without a cache", disk, policy("", "{disk: {ioPolicy: Native, cachePolicy: DirectSync}}"), "", ""},
		{"zeroes that may not be given back", disk, policy("", "{disk: {detectZeroes: Unmap, discard: Ignore}}"),
			"FieldValueForbidden hostProfile.disk.detectZeroes", "hostProfile.disk.discard"},
		{"a total and a part", disk, policy("", "{diskLimits: {totalIOPS: 1, readIOPS: 1}}"), "FieldValueForbidden hostProfile.diskLimits.totalIOPS",
			"a total limit may not be combined"},
		{"a pool of more than its most", disk, policy("", "{ioThreads: {poolMin: 4, poolMax: 2}}"), "FieldValueForbidden hostProfile.ioThreads.poolMin",
			"hostProfile.ioThreads.poolMax"},
		{"a least pool without a most", disk, policy("", "{ioThreads: {poolMin: 4}}"), "FieldValueForbidden hostProfile.ioThreads.poolMin",
			"hostProfile.ioThreads.poolMax, which must be set"},
		{"a peak above nothing", nic, policy("tap", "{net: {outbound: {peakBytesPerSecond: 4k}}}"),
			"FieldValueForbidden hostProfile.net.outbound.averageBytesPerSecond", "must be set with hostProfile.net.inbound and outbound"},
		{"parts of a cache where CPUs are emulated", "cpu: {cores: 1}", func(m *render.Machine) {
			policy("", "{cache: {l3Sizes: [1Mi]}}")(m)
			m.Host.VirtTypes = []string{"qemu"}
		}, "FieldValueForbidden hostProfile.cache", "cache and memory bandwidth allocation need hardware virtualization"},
		{"CPUs of the host that nobody can tell", "cpu: {cores: 1, dedicatedCpuPlacement: true}", policy("", "{cpu: {reservedHostCPUs: many}}"),
			"FieldValueInvalid hostProfile.cpu.reservedHostCPUs", "such as '0-3,8'"},
		{"a place of boot entries that is no path", "firmware: {bootloader: {efi: {secureBoot: false}}}", policy("", "{pathTemplates: {nvram: '{{.Name}}.fd'}}"),
			"FieldValueInvalid hostProfile.pathTemplates.nvram", "must be an absolute path"},
		{"a guest without boot entries has no use for it", "cpu: {cores: 1}", policy("", "{pathTemplates: {nvram: '{{.Name}}.fd'}}"), "", ""},
		{"a place of TPMs by what no VMI has", "devices: {tpm: {}}", policy("", "{pathTemplates: {swtpm: '/tpm/{{.Owner}}'}}"),
			"FieldValueInvalid hostProfile.pathTemplates.swtpm", "{{.Namespace}}, {{.Name}} and {{.UID}} may stand in it"},
		{"a confinement that nobody can tell", "cpu: {cores: 1}", policy("", "{security: {nwFilter: Spoofing}}"),
			"FieldValueNotSupported hostProfile.security.nwFilter", "AntiSpoofing"},
		{"places of sockets, and tuning, that nobody can tell are left out", "cpu: {cores: 1}",
			policy("", "{pathTemplates: {vnc: vnc, serial: '/run/{{.Owner}}', channel: '/../a'},"+
				" cpu: {emulatorCPUs: many}, ioThreads: {cpus: 3-1}, memory: {hugePageSizes: [1]}, disk: {cachePolicy: none}, graphics: {listen: everywhere}}"), "", ""},
		{"queues of an interface in user space", "cpu: {cores: 2}, devices: {networkInterfaceMultiqueue: true, interfaces: [{name: default, masquerade: {}}]}",
			func(m *render.Machine) {
				nic := m.Bindings.NICs["default"]
				nic.Kind = "user"
				m.Bindings.NICs["default"] = nic
			},
			"FieldValueForbidden spec.domain.devices.networkInterfaceMultiqueue",
			"multiple queues need a tap or bridge, and this host binds the interface in user space"},
		{"one queue needs no tap", "cpu: {cores: 1}, devices: {interfaces: [{name: default, masquerade: {}}]}", func(*render.Machine) {}, "", ""},
		{"the host's own CPU on a host that emulates", "cpu: {cores: 1, model: host-passthrough}", func(m *render.Machine) { m.Host.VirtTypes = []string{"qemu"} },
			"FieldValueForbidden spec.domain.cpu.model", "model 'host-passthrough' needs hardware virtualization"},
		{"the host's own CPU on a host with KVM", "cpu: {cores: 1, model: host-passthrough}", func(*render.Machine) {}, "", ""},
		{"no EFI build for the machine", "firmware: {bootloader: {efi: {secureBoot: false}}}", func(m *render.Machine) { m.Host.Firmware = nil },
			"FieldValueInvalid spec.domain.firmware.bootloader.efi", "has no EFI firmware without enrolled keys for machine"},
		{"keys are not enrolled behind the guest's back", "firmware: {bootloader: {efi: {secureBoot: false}}}",
			func(m *render.Machine) { m.Host.Firmware = m.Host.Firmware[:1] },
			"FieldValueInvalid spec.domain.firmware.bootloader.efi", "without enrolled keys"},
		{"no file for the variables of the firmware", "firmware: {bootloader: {efi: {secureBoot: false}}}", func(m *render.Machine) { m.Bindings.NVRAM = "" },
			"FieldValueInvalid spec.domain.firmware.bootloader.efi", "has no binding for the firmware's variable store"},
		{"no emulator for the architecture", "cpu: {cores: 1}", func(m *render.Machine) { m.Host.Emulators = nil }, "FieldValueInvalid spec.architecture",
			"has no emulator"},
		{"a machine that this QEMU has not", "machine: {type: pc-q35-99.0}", func(m *render.Machine) {
			m.Host.Machines = map[string]map[string]string{"amd64": {"q35": "pc-q35-7.2", "pc-q35-7.2": "pc-q35-7.2"}}
		}, "FieldValueInvalid spec.domain.machine.type", "does not have this machine"},
		{"a device of another kind than at the first boot", "devices: {hostDevices: [{name: fpga, deviceName: example.com/fpga}]}", func(m *render.Machine) {
			dev := m.Bindings.HostDevs["fpga"]
			dev.Address = "not an address"
			m.Bindings.HostDevs["fpga"] = dev
		}, "FieldValueInvalid spec.domain.devices.hostDevices[0]", ""},
		{"an interface that nothing is bound to", "devices: {interfaces: [{name: default, masquerade: {}}]}", func(m *render.Machine) { m.Bindings.NICs = nil },
			"FieldValueInvalid spec.domain.devices.interfaces[0]", "has no binding for this interface"},
		{"a file system without its daemon", "devices: {filesystems: [{name: fs, virtiofs: {}}]}", func(m *render.Machine) { m.Bindings.Filesystems = nil },
			"FieldValueInvalid spec.domain.devices.filesystems[0]", "has no virtiofsd socket"},
	} {
		t.Run(c.why, func(t *testing.T) {
			pages := ""
			if c.domain == mirrors {
				pages = ", hugepages: {pageSize: 2Mi}"
			}
			m := backends.Machine(t,
				"{architecture: amd64, domain: {memory: {guest: 1Gi"+pages+"}, "+c.domain+
					"}, networks: [{name: default, pod: {}}], volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}")
			c.host(&m)
			refusal(t, m, c.want, c.words)
		})
	}
}
