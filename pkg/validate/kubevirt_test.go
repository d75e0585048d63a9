package validate_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

// besideKubeVirt are the limits of a cluster in which KubeVirt runs guests.
func besideKubeVirt(limits *config.Limits) { limits.KubeVirtGuests = true }

// placedAt is a VMI whose disk or interface has a PCI address.
func placedAt(disk, nic string) given {
	return spec(`{domain: {devices: {disks: [{name: c, cdrom: {bus: sata}}, {name: a, disk: {bus: virtio, pciAddress: "` + disk + `"}}],
		interfaces: [{name: nic, bridge: {}, pciAddress: "` + nic + `"}]}}, networks: [{name: nic, multus: {networkName: net}}],
		volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}}]}`)
}

const twoNodes = `{metadata: {annotations: {kilnvm.io/numa-cells: "2"}}, spec: {domain: {cpu: {sockets: 2}}}}`

var kubeVirtCases = []testCase{
	{why: "two nodes that KubeVirt would not make", rule: "kubevirt/numa-nodes", given: vmi(twoNodes), limits: besideKubeVirt,
		want: forbidden("metadata.annotations[kilnvm.io/numa-cells]")},
	{why: "two nodes that Kiln makes", rule: "kubevirt/numa-nodes", given: vmi(twoNodes)},
	{why: "the one that every guest has", rule: "kubevirt/numa-nodes", given: vmi(`{metadata: {annotations: {kilnvm.io/numa-cells: "1"}}}`),
		limits: besideKubeVirt},
	{why: "no annotation", rule: "kubevirt/numa-nodes", given: vmi(`{}`), limits: besideKubeVirt},
	{why: "slots behind bridges that KubeVirt does not make", rule: "kubevirt/pci-address", given: placedAt("0000:81:01.0", "0000:82:1f.0"),
		limits: besideKubeVirt,
		want:   invalid("spec.domain.devices.disks[1].disk.pciAddress", "spec.domain.devices.interfaces[0].pciAddress")},
	{why: "slots behind bridges that Kiln makes", rule: "kubevirt/pci-address", given: placedAt("0000:81:01.0", "0000:82:1f.0")},
	{why: "the slot of a root port, and one of the root bus", rule: "kubevirt/pci-address", given: placedAt("0000:81:00.0", "0000:00:05.0"),
		limits: besideKubeVirt},
	{why: "no addresses", rule: "kubevirt/pci-address", given: placedAt("", ""), limits: besideKubeVirt},
	{why: "not an address, which another rule refuses", rule: "kubevirt/pci-address", given: placedAt("0001:81:01.0", ""), limits: besideKubeVirt,
		others: []string{"devices/pci-address"}},
}

// TestKubeVirtIgnores: annotations that Kiln's controller and launcher act on have a warning; what Kiln does not serve and KubeVirt does has none.
func TestKubeVirtIgnores(t *testing.T) {
	limits := config.Default().Limits
	besideKubeVirt(&limits)
	for _, c := range []warningCase{
		{"nothing", "{}", nil},
		{"what KubeVirt serves", "spec: {runStrategy: WaitAsReceiver, updateVolumesStrategy: Migration, dataVolumeTemplates: [{metadata: {name: a}}], " +
			"template: {spec: {evictionStrategy: LiveMigrate}}}", nil},
		{"the field of old", "spec: {running: true, runStrategy: null}", []string{"spec.running"}},
		{"a generation", "metadata: {annotations: {kilnvm.io/generation: b}}", []string{"no VM Generation ID"}},
		{"a rollout", "metadata: {annotations: {kilnvm.io/rollout: restart}}", []string{"virtctl"}},
		{"all", "{metadata: {annotations: {kilnvm.io/generation: b, kilnvm.io/rollout: restart}}, spec: {running: true, runStrategy: null}}",
			[]string{"spec.running", "Generation", "virtctl"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			c.check(t, sentences(validate.VMWarnings(object[v1.VirtualMachine](t, legalVM, c.object), limits)))
		})
	}
}
