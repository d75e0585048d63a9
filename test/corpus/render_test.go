package corpus

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// machine is a VMI on the host that offline rendering assumes.
func machine(explicit *v1.VirtualMachineInstance, cluster config.Cluster) render.Machine {
	vmi := explicit.DeepCopy()
	vmi.UID = uid
	m := render.Machine{VMI: vmi, Defaults: cluster.Frontend, Host: backend.Assumed(vmi.Spec.Architecture), Bindings: backend.AssumedBindings(vmi)}
	m.Host.Machines = qemu(vmi, "7.2")
	for i := range m.Host.NUMA { // a guest's memory has no limit, and guestMappingPassthrough needs a NUMA node that holds it
		m.Host.NUMA[i].MemoryKiB = math.MaxInt64 >> 10
	}
	return m
}

// aliases of machines, per architecture, before the version.
var aliases = map[string][2]string{"amd64": {"q35", "pc-q35-"}, "arm64": {"virt", "virt-"}, "s390x": {"s390-ccw-virtio", "s390-ccw-virtio-"}}

// qemu returns the machine types of a QEMU: the machine that the VMI names, the machine of the first boot, and the alias for QEMU's own version.
func qemu(vmi *v1.VirtualMachineInstance, version string) map[string]map[string]string {
	alias := aliases[vmi.Spec.Architecture]
	machines := map[string]string{alias[0]: alias[1] + version}
	for _, name := range []string{alias[1] + "7.2", alias[1] + version, vmi.Spec.Domain.Machine.Type} {
		if machines[name] == "" {
			machines[name] = name
		}
	}
	return map[string]map[string]string{vmi.Spec.Architecture: machines}
}

// elsewhere is another host: another QEMU in another place, other paths, other machines behind the aliases.
func elsewhere(m render.Machine) render.Machine {
	m.Host.NodeName, m.Host.LibvirtVersion, m.Host.QEMUVersion = "elsewhere", "99.0.0", "99.0.0"
	m.Host.Emulators = maps.Clone(m.Host.Emulators)
	for arch := range m.Host.Emulators {
		m.Host.Emulators[arch] = "/opt/qemu/bin/qemu-kvm"
	}
	m.Host.Firmware = slices.Clone(m.Host.Firmware)
	for i := range m.Host.Firmware {
		m.Host.Firmware[i].Code = strings.Replace(m.Host.Firmware[i].Code, "/usr/share", "/opt/share", 1)
	}
	for _, newer := range m.Host.Firmware { // preferred, and not what the guest has booted with
		newer.Code += ".new"
		m.Host.Firmware = slices.Insert(m.Host.Firmware, 0, newer)
	}
	moved := *m.VMI
	moved.Namespace = "elsewhere"
	m.Bindings = backend.AssumedBindings(&moved)
	return m
}

// stages tries the laws of stages 2 and 3 on an explicit VMI that was admitted.
func stages(g generator, explicit *v1.VirtualMachineInstance, cluster config.Cluster) (broken findings) {
	m := machine(explicit, cluster)
	m.Host.NodeName = "here" // an assumed host reports no firmware
	if cpus := 0; len(m.Bindings.CPUs) > 0 {
		for _, node := range m.Host.NUMA {
			cpus += len(node.CPUs)
		}
		if len(m.Bindings.CPUs) > cpus { // a legal guest, and too large for the assumed host
			return nil
		}
	}
	before := text(m)
	rendered, errs := render.Domain(m)
	if len(errs) > 0 {
		broken.add("accepted implies renders", "%v", errs.ToAggregate())
		return broken
	}
	again, _ := render.Domain(m)
	for name, pair := range map[string][2]*libvirtxml.Domain{
		"frontend": {rendered.Frontend, again.Frontend}, "domain": {rendered.Documents.Domain, again.Documents.Domain},
	} {
		broken = append(broken, spelled(name, pair[0], pair[1])...)
	}
	if front, whole := rendered.Record.Digest, abi.Digest(rendered.Documents.Domain); front != whole {
		broken.add("stage 3 leaves the frontend projection alone", "%q", abi.Changes(rendered.Frontend, rendered.Documents.Domain))
	}
	broken = append(broken, twoHosts(m, rendered)...)
	broken = append(broken, edited(g, m, rendered)...)
	broken = append(broken, podLaws(g, explicit)...)
	if after := text(m); after != before {
		broken.add("nothing given is modified", "%s", cmp.Diff(before, after))
	}
	return broken
}

// spelled tries printing: byte-stable, and what is printed reads back to the same.
func spelled(name string, once, twice *libvirtxml.Domain) (broken findings) {
	first, err := once.Marshal()
	if err != nil {
		broken.add("rendering prints", "%s: %v", name, err)
		return broken
	}
	if second, _ := twice.Marshal(); second != first {
		broken.add("rendering is byte-stable", "%s: %s", name, cmp.Diff(first, second))
	}
	var back libvirtxml.Domain
	if err := back.Unmarshal(first); err != nil {
		broken.add("parse(print(x)) = x", "%s: %v", name, err)
	} else if printed, _ := back.Marshal(); printed != first {
		broken.add("parse(print(x)) = x", "%s: %s", name, cmp.Diff(first, printed))
	}
	return broken
}

// twoHosts tries that the guest sees the same on two hosts, at its first boot and with the record of an earlier one.
func twoHosts(m render.Machine, first render.Result) (broken findings) {
	other := elsewhere(m)
	there, errs := render.Domain(other)
	if len(errs) > 0 {
		broken.add("two hosts, one frontend digest", "refused elsewhere: %v", errs.ToAggregate())
	} else if there.Record.Digest != first.Record.Digest {
		broken.add("two hosts, one frontend digest", "first boots: %q", abi.Changes(first.Frontend, there.Frontend))
	}
	// As it is stored: what a boot records, the next one must be able to read.
	stored := &first.Record
	if err := record.Check(stored); err != nil {
		broken.add("records are read again", "%v", err)
		return broken
	}
	other.Frozen = stored
	other.Host.Machines = qemu(other.VMI, "99.0")
	other.Defaults.FreePorts, other.Defaults.EFIVideo, other.Defaults.SMBIOS.Product = 1, "ramfb", "Other"
	record := text(first.Record)
	replayed, errs := render.Domain(other)
	if len(errs) > 0 {
		broken.add("two hosts, one frontend digest", "replay refused: %v", errs.ToAggregate())
		return broken
	}
	if replayed.Record.Digest != first.Record.Digest {
		broken.add("two hosts, one frontend digest", "replay: %q", abi.Changes(first.Frontend, replayed.Frontend))
	}
	replayed.Record.Defaults = first.Record.Defaults
	if text(replayed.Record) != record {
		broken.add("two hosts, one frontend digest", "replay gives another record: %s", cmp.Diff(record, text(replayed.Record)))
	}
	return broken
}
