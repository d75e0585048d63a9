package render

import (
	"errors"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Capture is stage 2 in reverse: it returns the record of a running guest that another program started. Later boots with this record give the guest the same
// hardware. m.VMI is the explicit spec of the guest; m.Frozen is not used. Each difference between the running domain and the spec is an error at the field
// that it comes from, because a partial record would move the hardware that it leaves out.
func Capture(m Machine, running *libvirtxml.Domain) (record.Record, field.ErrorList) {
	vmi := withIdentity(m.VMI, nil)
	fresh, errs := renderWith(m, vmi, nil)
	if len(errs) > 0 {
		return record.Record{}, errs
	}
	seen, err := copyDomain(running)
	if err != nil {
		return record.Record{}, field.ErrorList{field.InternalError(nil, err)}
	}
	dropChipsetWatchdog(seen)
	ours := hasOwnAliases(seen)
	copyAliases(seen, fresh)
	readIgnition(seen)
	captured := abi.Freeze(seen, m.Defaults.Version)
	CaptureCPU(&captured, m.VMI, seen)
	// Where the spec leaves the identity open, the running guest's counts.
	vmi = withIdentity(m.VMI, &captured)
	again, errs := renderWith(m, vmi, &captured)
	if len(errs) > 0 {
		return record.Record{}, errs
	}
	if again, errs = omitDefaults(m, vmi, &captured, seen, again); len(errs) > 0 {
		return record.Record{}, errs
	}
	adopted := compareAdopted(m, vmi, captured, seen, again)
	for _, change := range adopted.Changes {
		errs = append(errs, field.Forbidden(originOfChange(&vmi.Spec, change), "the next boot would have different hardware: "+change.Text))
	}
	if len(errs) > 0 && !ours {
		errs = append(field.ErrorList{foreignDomainError()}, errs...)
	}
	return adopted.Record, errs
}

// GuestHardware returns a captured record as the object that the next boot of the VMI reads. It holds the seed of the VMI. Without a seed it applies to any VMI
// of that namespace and name.
func GuestHardware(vmi *v1.VirtualMachineInstance, captured record.Record) *v1alpha1.GuestHardware {
	hardware := &v1alpha1.GuestHardware{}
	hardware.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GuestHardware"))
	hardware.Namespace, hardware.Name = vmi.Namespace, vmi.Name
	hardware.Spec = v1alpha1.GuestHardwareSpec{Identity: vmi.Annotations[v1alpha1.AnnotationIdentity], Hardware: &captured}
	return hardware
}

// copyDomain returns a deep copy of a domain.
func copyDomain(dom *libvirtxml.Domain) (*libvirtxml.Domain, error) {
	text, err := dom.Marshal()
	if err != nil {
		return nil, err
	}
	var out libvirtxml.Domain
	if err := out.Unmarshal(text); err != nil {
		return nil, err
	}
	if out.Devices == nil {
		return nil, errors.New("the domain has no devices; give its complete XML")
	}
	return &out, nil
}

// copyAliases gives the devices of a running domain the aliases of the spec's devices. Devices match by name, as Kiln and KubeVirt set it,
// else by kind, model and bus, else by kind and bus, else by kind, in their order.
func copyAliases(running, spec *libvirtxml.Domain) {
	named := func(d abi.Device) bool { return d.Alias != nil } // controllers are found by type and index
	have := slices.DeleteFunc(abi.Devices(running), func(d abi.Device) bool { return !named(d) })
	want := slices.DeleteFunc(abi.Devices(spec), func(d abi.Device) bool { return !named(d) || *d.Alias == nil }) // a balloon of model 'none' has no alias
	for _, same := range []func(have, want abi.Device) bool{
		func(have, want abi.Device) bool { return have.Name == want.Name },
		func(have, want abi.Device) bool { return have.Model == want.Model && have.Bus == want.Bus },
		func(have, want abi.Device) bool { return have.Bus == want.Bus },
		func(_, _ abi.Device) bool { return true }, // so that the error says what differs, and not that all is new
	} {
		want = slices.DeleteFunc(want, func(w abi.Device) bool {
			at := slices.IndexFunc(have, func(h abi.Device) bool { return h.Kind == w.Kind && same(h, w) && samePort(h, w) })
			if at < 0 {
				return false
			}
			*have[at].Alias = &libvirtxml.DomainAlias{Name: (*w.Alias).Name}
			have = slices.Delete(have, at, at+1)
			return true
		})
	}
}

// samePort reports whether two channels have the same name in the guest, such as org.qemu.guest_agent.0. It returns true for other devices.
func samePort(have, want abi.Device) bool {
	one, isChannel := have.Element.(*libvirtxml.DomainChannel)
	other, areChannels := want.Element.(*libvirtxml.DomainChannel)
	return !isChannel || !areChannels || portOf(one) == portOf(other)
}

// portOf returns the name by which the guest finds a virtio channel, and an empty name for other channels.
func portOf(c *libvirtxml.DomainChannel) string {
	if c.Target == nil || c.Target.VirtIO == nil {
		return ""
	}
	return c.Target.VirtIO.Name
}

// readIgnition adds the fw_cfg entry for Ignition, which KubeVirt passes on QEMU's command line.
func readIgnition(running *libvirtxml.Domain) {
	if running.QEMUCommandline == nil {
		return
	}
	for _, arg := range running.QEMUCommandline.Args {
		if strings.HasPrefix(arg.Value, "name="+abi.Ignition+",") {
			entry := libvirtxml.DomainSysInfoEntry{Name: abi.Ignition}
			running.SysInfo = append(running.SysInfo, libvirtxml.DomainSysInfo{FWCfg: &libvirtxml.DomainSysInfoFWCfg{Entry: []libvirtxml.DomainSysInfoEntry{entry}}})
		}
	}
}

// adoptSpecCPU replaces the running CPU by the CPU of the next boot if libvirt expanded the spec's at the start: host-passthrough, or a model with the features
// that the host adds and lacks. With host-model the next boot has the captured CPU, with the features that the spec asks for.
func adoptSpecCPU(running, spec *libvirtxml.Domain) {
	if running.CPU == nil || spec.CPU == nil {
		return
	}
	if spec.CPU.Mode == "custom" && (running.CPU.Model == nil || spec.CPU.Model == nil || running.CPU.Model.Value != spec.CPU.Model.Value) {
		return
	}
	cpu := *spec.CPU
	cpu.Topology, cpu.Numa = running.CPU.Topology, running.CPU.Numa
	running.CPU = &cpu
}

// originOfChange returns the field of the spec that a change comes from, or the nearest field above it.
func originOfChange(spec *v1.VirtualMachineInstanceSpec, change record.Change) *field.Path {
	if change.Part != "" {
		return change.Part.Path()
	}
	devices := field.NewPath("spec", "domain", "devices")
	kind, name := record.SplitKey(change.Device)
	for list, names := range namesByKind(&spec.Domain.Devices)[kind] {
		if at := slices.Index(names, name); at >= 0 {
			return devices.Child(list).Index(at)
		}
		if first, _, bundled := abi.CutBundled(name); bundled && kind == "hostdev" && slices.Contains(names, first) {
			return devices.Child(list).Index(slices.Index(names, first))
		}
	}
	if single := map[string]string{"watchdog": "watchdog", "tpm": "tpm", "rng": "rng", "sound": "sound", "video": "video"}[kind]; single != "" {
		return devices.Child(single)
	}
	return devices
}

// namesByKind returns, for each kind of device, the names in the lists of the spec that its devices come from.
func namesByKind(d *v1.Devices) map[string]map[string][]string {
	return map[string]map[string][]string{
		"disk":       {"disks": namesOf(d.Disks, func(d v1.Disk) string { return d.Name })},
		"interface":  {"interfaces": namesOf(d.Interfaces, func(i v1.Interface) string { return i.Name })},
		"filesystem": {"filesystems": namesOf(d.Filesystems, func(f v1.Filesystem) string { return f.Name })},
		"input":      {"inputs": namesOf(d.Inputs, func(i v1.Input) string { return i.Name })},
		"hostdev": {
			"hostDevices": namesOf(d.HostDevices, func(h v1.HostDevice) string { return h.Name }),
			"gpus":        namesOf(d.GPUs, func(g v1.GPU) string { return g.Name }),
			"interfaces":  namesOf(d.Interfaces, func(i v1.Interface) string { return i.Name }),
		},
	}
}

func namesOf[T any](list []T, name func(T) string) (all []string) {
	for _, element := range list {
		all = append(all, name(element))
	}
	return all
}
