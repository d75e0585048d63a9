package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/hardware"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	v1 "kubevirt.io/api/core/v1"
)

// Feature is the name of a feature that libvirt or QEMU has since some version. Errors print it.
type Feature string

// Features that Kiln replaces if the host lacks them: their absence is no error.
const (
	DiscardGranularity Feature = "discard granularity"
	tpmPlace           Feature = "a path for TPM state"
)

// features are newer than libvirt 6.1 and QEMU 4.2, the oldest versions that Kiln supports. The versions are from libvirt's page "Domain XML format" and its
// release notes. The version for discard granularity is from libvirt's tests, because neither names it.
//
// An older libvirt ignores elements that it does not know: without these checks the guest would start without what its owner asked for.
var features = slices.Concat([]versioned{
	{"multiple IO threads for one disk", "10.0.0", "9.0.0", func(h *host) []*field.Path {
		disks := func(d v1.Disk) bool { return hasIOThreads(&d) }
		return pathIf(h.plan.pool > 0 && slices.ContainsFunc(h.spec.Domain.Devices.Disks, disks), h.domain.Child("ioThreadsPolicy"))
	}},
	{DiscardGranularity, "10.0.0", "", func(h *host) (paths []*field.Path) {
		for i, d := range h.spec.Domain.Devices.Disks {
			if d.BlockSize != nil && d.BlockSize.Custom != nil && d.BlockSize.Custom.DiscardGranularity != nil {
				paths = append(paths, h.domain.Child("devices", "disks").Index(i).Child("blockSize", "custom", "discardGranularity"))
			}
		}
		return paths
	}},
	// 9.0.0 has passt in its schema, but does not read it.
	{"passt networking", "9.1.0", "7.2.0", func(h *host) (paths []*field.Path) {
		for i, nic := range h.spec.Domain.Devices.Interfaces {
			paths = append(paths, pathIf(h.Bindings.NICs[nic.Name].Kind == "passt", h.domain.Child("devices", "interfaces").Index(i))...)
		}
		return paths
	}},
	{tpmPlace, "10.10.0", "", func(h *host) []*field.Path {
		return pathIf(h.policy.PathTemplates.SWTPM != "" && len(h.Frontend.Devices.TPMs) > 0, policyPath("pathTemplates", "swtpm"))
	}},
	{"panic device 'pvpanic'", "9.1.0", "6.0.0", func(h *host) (paths []*field.Path) {
		for i, p := range h.spec.Domain.Devices.PanicDevices {
			pci := p.Model != nil && *p.Model == v1.Pvpanic
			paths = append(paths, pathIf(pci, h.domain.Child("devices", "panicDevices").Index(i).Child("model"))...)
		}
		return paths
	}},
	{"IO thread polling", "9.4.0", "", func(h *host) []*field.Path {
		return pathIf(h.policy.IOThreads.PollMaxNanoseconds != nil && h.plan.count > 0, policyPath("ioThreads", "pollMaxNanoseconds"))
	}},
	{"IO thread pool limits", "8.5.0", "7.1.0", func(h *host) []*field.Path {
		p := h.policy.IOThreads
		return pathIf((p.PoolMin != nil || p.PoolMax != nil) && h.plan.count > 0, policyPath("ioThreads", "poolMin"))
	}},
	{"memory allocation threads", "8.2.0", "5.0.0", func(h *host) []*field.Path {
		return pathIf(h.policy.Memory.AllocationThreads != nil, policyPath("memory", "allocationThreads"))
	}},
	{"qcow2 metadata cache size", "7.0.0", "", func(h *host) []*field.Path {
		return pathIf(h.policy.Disk.MetadataCacheSize != nil, policyPath("disk", "metadataCacheSize"))
	}},
	{"io 'io_uring'", "6.3.0", "5.0.0", func(h *host) []*field.Path {
		return pathIf(h.policy.Disk.IOPolicy == "io_uring", policyPath("disk", "ioPolicy"))
	}},
	{"ACPI index of an interface", "7.3.0", "6.0.0", func(h *host) (paths []*field.Path) {
		for i, nic := range h.spec.Domain.Devices.Interfaces {
			paths = append(paths, pathIf(nic.ACPIIndex > 0, h.domain.Child("devices", "interfaces").Index(i).Child("acpiIndex"))...)
		}
		return paths
	}},
	{"fw_cfg files", "6.5.0", "", func(h *host) []*field.Path {
		return pathIf(h.VMI.Annotations[v1.IgnitionAnnotation] != "", field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation))
	}},
	{"Hyper-V passthrough", "8.0.0", "", func(h *host) []*field.Path {
		f := h.spec.Domain.Features
		return pathIf(f != nil && f.HypervPassthrough != nil && f.HypervPassthrough.Enabled != nil && *f.HypervPassthrough.Enabled,
			h.domain.Child("features", "hypervPassthrough"))
	}},
	{"stateless firmware", "8.6.0", "", func(h *host) []*field.Path {
		loader := h.Frontend.OS.Loader
		return pathIf(loader != nil && loader.Stateless == "yes", h.domain.Child("launchSecurity"))
	}},
	{"ACPI table MSDM", "11.2.0", "", func(h *host) []*field.Path {
		f := h.spec.Domain.Firmware
		return pathIf(f != nil && f.ACPI != nil && f.ACPI.MsdmNameRef != "", h.domain.Child("firmware", "acpi", "msdmNameRef"))
	}},
	{"AMD SEV-SNP", "10.5.0", "9.1.0", func(h *host) []*field.Path {
		s := h.Frontend.LaunchSecurity
		return pathIf(s != nil && s.SEVSNP != nil, h.domain.Child("launchSecurity", "snp"))
	}},
	{"more than 255 vCPUs", "6.5.0", "", manyCPUs(255)},
	{"more than 288 vCPUs", "", "8.1.0", manyCPUs(288)},
	{"more than 1024 vCPUs", "", "9.0.0", manyCPUs(1024)},
	{"direct and extended TLB flush", "11.0.0", "7.1.0", func(h *host) []*field.Path {
		f := h.Frontend.Features
		return pathIf(f != nil && f.HyperV != nil && f.HyperV.TLBFlush != nil && (f.HyperV.TLBFlush.Direct != nil || f.HyperV.TLBFlush.Extended != nil),
			h.domain.Child("features", "hyperv", "tlbflush"))
	}},
	// No release notes name it. It came after 10.1; older versions drop it without an error.
	{"display of a PCI host device", "10.2.0", "", func(h *host) (paths []*field.Path) {
		for i := range h.Frontend.Devices.Hostdevs {
			d := &h.Frontend.Devices.Hostdevs[i]
			paths = append(paths, pathIf(d.SubsysPCI != nil && d.SubsysPCI.Display == "on",
				h.hostdevPath(abi.Name("hostdev", d.Alias)).Child("virtualGPUOptions", "display"))...)
		}
		return paths
	}},
	{"Intel TDX", "11.6.0", "10.1.0", func(h *host) []*field.Path {
		s := h.Frontend.LaunchSecurity
		return pathIf(s != nil && s.TDX != nil, h.domain.Child("launchSecurity", "tdx"))
	}},
}, busFeatures(), modelFeatures())

// versioned is a feature with the versions that have it.
type versioned struct {
	name          Feature
	libvirt, qemu string // the first versions that have it; empty: any
	// paths returns the fields of this VMI or of the profile that need the feature.
	paths func(*host) []*field.Path
}

// busFeatures are the disk buses that are newer.
func busFeatures() (out []versioned) {
	for _, bus := range hardware.DiskBuses {
		if bus.Libvirt+bus.QEMU == "" {
			continue
		}
		out = append(out, versioned{Feature("disk bus '" + bus.Name + "'"), bus.Libvirt, bus.QEMU, func(h *host) (paths []*field.Path) {
			for i := range h.Frontend.Devices.Disks {
				d := &h.Frontend.Devices.Disks[i]
				paths = append(paths, pathIf(d.Target.Bus == string(bus.Name), h.domain.Child("devices", "disks").Index(i).Child(d.Device, "bus"))...)
			}
			return paths
		}})
	}
	return out
}

// modelFeatures are the models of interfaces that are newer.
func modelFeatures() (out []versioned) {
	for _, model := range hardware.InterfaceModels {
		if model.Libvirt+model.QEMU == "" {
			continue
		}
		out = append(out, versioned{Feature("interface model '" + model.Name + "'"), model.Libvirt, model.QEMU, func(h *host) (paths []*field.Path) {
			for i, nic := range h.spec.Domain.Devices.Interfaces {
				paths = append(paths, pathIf(nic.Model == model.Name, h.domain.Child("devices", "interfaces").Index(i).Child("model"))...)
			}
			return paths
		}})
	}
	return out
}

// manyCPUs returns the path if a VMI of amd64 has more vCPUs than a limit, hot-pluggable ones included.
func manyCPUs(limit uint) func(*host) []*field.Path {
	return func(h *host) []*field.Path {
		return pathIf(h.spec.Architecture == "amd64" && h.Frontend.VCPU.Value > limit, h.domain.Child("cpu"))
	}
}

// pathIf returns the path if a condition holds. It is built only then, because every start evaluates all conditions.
func pathIf(so bool, root *field.Path, names ...string) []*field.Path {
	if !so {
		return nil
	}
	for _, name := range names {
		root = root.Child(name)
	}
	return []*field.Path{root}
}

// Offers reports whether the host's libvirt and QEMU have a feature. A version that is unknown is assumed to be new enough.
func Offers(host Capabilities, name Feature) bool {
	for _, f := range features {
		if f.name == name {
			return len(tooOld(host, f.libvirt, f.qemu)) == 0
		}
	}
	return true
}

// checkVersions refuses features that the host's libvirt or QEMU is too old for.
func (h *host) checkVersions() {
	if h.Host.LibvirtVersion == "" && h.Host.QEMUVersion == "" {
		return
	}
	for _, f := range features {
		old := tooOld(h.Host, f.libvirt, f.qemu)
		if len(old) == 0 {
			continue
		}
		for _, path := range f.paths(h) {
			h.addError(field.Forbidden(path, fmt.Sprintf("%s: %s; run the VMI on a newer host", f.name, strings.Join(h.describeOutdated(old), ", "))))
		}
	}
}

// outdatedProgram is one program that is too old.
type outdatedProgram struct{ program, needs, has string }

func tooOld(host Capabilities, libvirt, qemu string) (old []outdatedProgram) {
	for _, l := range []outdatedProgram{{"libvirt", libvirt, host.LibvirtVersion}, {"QEMU", qemu, host.QEMUVersion}} {
		needs, unimportant := version.ParseGeneric(l.needs)
		has, unknown := version.ParseGeneric(l.has)
		if unimportant == nil && unknown == nil && !has.AtLeast(needs) {
			old = append(old, l)
		}
	}
	return old
}

func (h *host) describeOutdated(old []outdatedProgram) (words []string) {
	for _, l := range old {
		words = append(words, fmt.Sprintf("needs %s %s, %s has %s %s", l.program, l.needs, h.nodeName(), l.program, l.has))
	}
	return words
}
