package backend_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
)

// TestOldHosts: what a host is too old for is refused by the field that asks for it, with the version that is needed and the
// one that is there.
func TestOldHosts(t *testing.T) {
	t.Parallel()
	pool := "ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}, devices: {disks: [{name: a, disk: {bus: virtio}}]}"
	nic := "devices: {interfaces: [{name: default, masquerade: {}}]}"
	for _, c := range []struct{ why, domain, libvirt, qemu, want, words string }{
		{"both are too old", pool, "9.0.0", "7.2.22", "FieldValueForbidden spec.domain.ioThreadsPolicy",
			"multiple IO threads for one disk: needs libvirt 10.0.0, host 'rack1' has libvirt 9.0.0, needs QEMU 9.0.0, host 'rack1' has QEMU 7.2.22"},
		{"QEMU alone", pool, "10.0.0", "8.2.0", "FieldValueForbidden spec.domain.ioThreadsPolicy", "needs QEMU 9.0.0, host 'rack1' has QEMU 8.2.0"},
		{"just new enough: numbers are compared, not texts", pool, "10.0.0", "10.0.0", "", ""},
		{"a host that tells no versions", pool, "", "", "", ""},
		{"a pool without virtio disks asks for nothing",
			"ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}, devices: {disks: [{name: a, disk: {bus: sata}}]}", "9.0.0",
			"7.2.0", "", ""},
		{"an ACPI index", "devices: {interfaces: [{name: default, masquerade: {}, acpiIndex: 3}]}", "7.0.0", "5.2.0",
			"FieldValueForbidden spec.domain.devices.interfaces[0].acpiIndex",
			"needs libvirt 7.3.0"},
		{"a granularity that the user wants",
			"devices: {disks: [{name: a, disk: {bus: virtio}, blockSize: {custom: {logical: 512, physical: 512, discardGranularity: 4096}}}]}", "9.0.0", "7.2.0",
			"FieldValueForbidden spec.domain.devices.disks[0].blockSize.custom.discardGranularity", "needs libvirt 10.0.0"},
		{"the host's enlightenments", "features: {hypervPassthrough: {enabled: true}}", "7.10.0", "7.2.0",
			"FieldValueForbidden spec.domain.features.hypervPassthrough", "needs libvirt 8.0.0"},
		{"an MSDM table", "firmware: {acpi: {msdmNameRef: a}}", "9.0.0", "7.2.0", "FieldValueForbidden spec.domain.firmware.acpi.msdmNameRef",
			"needs libvirt 11.2.0"},
		{"panic device 'pvpanic'", "devices: {panicDevices: [{model: hyperv}, {model: pvpanic}]}", "9.0.0", "7.2.0",
			"FieldValueForbidden spec.domain.devices.panicDevices[1].model", "needs libvirt 9.1.0"},
		{"an igb interface", "devices: {interfaces: [{name: default, masquerade: {}, model: igb}]}", "9.3.0", "7.2.0",
			"FieldValueForbidden spec.domain.devices.interfaces[0].model", "needs QEMU 8.0.0"},
		{"flushing of TLBs", "features: {hyperv: {tlbflush: {extended: {}}}}", "10.10.0", "7.2.0",
			"FieldValueForbidden spec.domain.features.hyperv.tlbflush", "needs libvirt 11.0.0"},
		{"plain flushing of TLBs", "features: {hyperv: {tlbflush: {}}}", "9.0.0", "7.2.0", "", ""},
		{"display of a PCI host device", "devices: {gpus: [{name: a, deviceName: example.org/gpu, virtualGPUOptions: {display: {enabled: true}}}]}",
			"9.0.0", "7.2.0",
			"FieldValueForbidden spec.domain.devices.gpus[0].virtualGPUOptions.display", "needs libvirt 10.2.0"},
		{"passt", nic, "8.0.0", "7.1.0", "FieldValueForbidden spec.domain.devices.interfaces[0]", "needs libvirt 9.1.0"},
		{"a place for the TPM's state", "devices: {tpm: {}}", "10.9.0", "9.0.0", "FieldValueForbidden hostProfile.pathTemplates.swtpm", "needs libvirt 10.10.0"},
		{"no TPM, no place", "cpu: {cores: 1}", "10.9.0", "9.0.0", "", ""},
		{"plain guests ask for nothing", "cpu: {cores: 1}", "6.1.0", "4.2.0", "", ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			volume := "emptyDisk: {capacity: 1Gi}"
			if c.why == "an MSDM table" {
				volume = "secret: {secretName: s}"
			}
			m := backends.Machine(t,
				"{architecture: amd64, domain: {memory: {guest: 1Gi}, "+c.domain+"}, networks: [{name: default, pod: {}}], volumes: [{name: a, "+volume+"}]}")
			m.Host.NodeName, m.Host.LibvirtVersion, m.Host.QEMUVersion = "rack1", c.libvirt, c.qemu
			if c.why == "passt" {
				bind(m, "passt")
			}
			if strings.Contains(c.why, "place") {
				m.Policy = backends.PolicyOf(t, m, backends.HostProfile(t, "p", "{pathTemplates: {swtpm: '/tpm/{{.Name}}'}}"))
			}
			refusal(t, m, c.want, c.words)
		})
	}
}

func bind(m render.Machine, kind string) {
	nic := m.Bindings.NICs["default"]
	nic.Kind = kind
	m.Bindings.NICs["default"] = nic
}
