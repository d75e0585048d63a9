package catalog

import (
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// The engine itself finds whether an instancetype and a preference work together, and what a VM sees of them: a VM that leaves open all that they could set is
// admitted, and rendered on the host that offline rendering assumes. This package repeats no rule.

// architectures that Kiln boots, in the order in which they are tried.
var architectures = hardware.Architectures

// trialVM is a VM for one trial: the objects to which it refers, and where it runs.
type trialVM struct {
	instancetype.Set
	architecture string
	// efi sets EFI in the VM itself: memory encryption needs it, and an instancetype cannot set it.
	efi bool
}

// trials run VMs through the engine. left is the number of runs that remain. A run takes about a millisecond.
type trials struct {
	cluster config.Cluster
	left    int
}

// explicitVM admits a VM, and returns its explicit VMI. The errors say why the VM is refused.
func (t *trials) explicitVM(m trialVM) (*v1.VirtualMachineInstance, field.ErrorList) {
	t.left--
	vmi, verdict := admit.VM(probeVM(m), nil, admit.Input{Set: m.Set, Cluster: t.cluster})
	return vmi, verdict.Errors
}

// bootVM admits and renders a VM. frozen is the hardware of its last boot; nil for a first boot. The errors say why the VM cannot boot.
func (t *trials) bootVM(m trialVM, frozen *record.Record) (render.Result, field.ErrorList) {
	vmi, refused := t.explicitVM(m)
	if len(refused) > 0 {
		return render.Result{}, refused
	}
	// A fixed seed gives all VMs of a run one UUID and the same MACs, so that no difference comes from them.
	identity.Fill(vmi, "kiln.catalog/probe")
	return render.Domain(render.Machine{
		VMI: vmi, Defaults: t.cluster.Frontend, Frozen: frozen,
		Host: backend.Assumed(m.architecture), Bindings: backend.AssumedBindings(vmi),
	})
}

// probeVM returns a VM with one of each device that a preference can set up and that every architecture has. The VM leaves all settings of the devices open.
func probeVM(m trialVM) *v1.VirtualMachine {
	always := v1.RunStrategyAlways
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "catalog", Name: "probe"}}
	vm.Spec.RunStrategy = &always
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	if m.Instancetype != nil {
		vm.Spec.Instancetype = &v1.InstancetypeMatcher{Kind: m.Instancetype.Kind, Name: m.Instancetype.Name}
	}
	if m.Preference != nil {
		vm.Spec.Preference = &v1.PreferenceMatcher{Kind: m.Preference.Kind, Name: m.Preference.Name}
	}
	claim := func(name string) v1.VolumeSource {
		source := &v1.PersistentVolumeClaimVolumeSource{}
		source.ClaimName = name
		return v1.VolumeSource{PersistentVolumeClaim: source}
	}
	// No disk, interface or input has a bus or model: each is a question to the preference, and then to the defaults.
	spec := &vm.Spec.Template.Spec
	spec.Architecture = m.architecture
	spec.Volumes = []v1.Volume{
		{Name: "root", VolumeSource: claim("root")}, {Name: "lun", VolumeSource: claim("lun")},
		{Name: "drivers", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "drivers:1"}}},
	}
	spec.Networks = []v1.Network{*v1.DefaultPodNetwork(), {Name: "second", NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "second"}}}}
	devices := &spec.Domain.Devices
	devices.Disks = []v1.Disk{
		{Name: "root"}, {Name: "lun", DiskDevice: v1.DiskDevice{LUN: &v1.LunTarget{}}}, {Name: "drivers", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{}}},
	}
	devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface(), *v1.DefaultBridgeNetworkInterface()}
	devices.Interfaces[1].Name = "second"
	devices.Inputs = []v1.Input{{Name: "tablet", Type: v1.InputTypeTablet}}
	devices.Rng = &v1.Rng{}
	if m.efi {
		spec.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{SecureBoot: new(false)}}}
	}
	return vm
}

// architectureClaim is an architecture on which an object should boot, and the field that names it.
type architectureClaim struct{ architecture, path string }

// claimedArchitectures returns the architectures that an object names, each once.
func (o *Object) claimedArchitectures() (all []architectureClaim) {
	add := func(architecture, path string) {
		for _, c := range all {
			if c.architecture == architecture {
				return
			}
		}
		if architecture != "" {
			all = append(all, architectureClaim{architecture, path})
		}
	}
	if o.Instancetype != nil {
		add(o.Instancetype.NodeSelector[corev1.LabelArchStable], "spec.nodeSelector["+corev1.LabelArchStable+"]")
	}
	if p := o.Preference; p != nil {
		if p.Requirements != nil && p.Requirements.Architecture != nil {
			add(*p.Requirements.Architecture, "spec.requirements.architecture")
		}
		if p.PreferredArchitecture != nil {
			add(*p.PreferredArchitecture, "spec.preferredArchitecture")
		}
	}
	if len(all) == 0 { // if the spec names another architecture, the label is wrong, which is a finding of its own
		add(o.Labels[prefix+"arch"], labelPath(prefix+"arch"))
	}
	return all
}

// architecturesOf returns the architectures on which a VM that refers to these objects may boot.
func architecturesOf(objects ...*Object) []string {
	for _, o := range objects {
		if o == nil {
			continue
		}
		if claimed := o.claimedArchitectures(); len(claimed) > 0 {
			var all []string
			for _, c := range claimed {
				all = append(all, c.architecture)
			}
			return all
		}
	}
	return architectures
}

// mostVCPUs is the number of vCPUs at which roomy gives up: the API allows ratios of 32 bits, so that one unit of a preference may have any number of vCPUs.
const mostVCPUs = 4096

// justEnough returns an instancetype with exactly the vCPUs and the memory that a preference requires. It replaces an instancetype that the catalog lacks.
func justEnough(p *v1beta1.VirtualMachinePreferenceSpec) *instancetype.Instancetype {
	least := &instancetype.Instancetype{Source: instancetype.Source{Kind: instancetype.Kinds.Cluster, Name: "just-enough"}}
	least.Spec.CPU.Guest, least.Spec.Memory.Guest = 1, resource.MustParse("1Gi")
	if need := p.Requirements; need != nil && need.CPU != nil {
		least.Spec.CPU.Guest = max(need.CPU.Guest, 1)
	}
	if need := p.Requirements; need != nil && need.Memory != nil && need.Memory.Guest.Cmp(least.Spec.Memory.Guest) > 0 {
		least.Spec.Memory.Guest = need.Memory.Guest.DeepCopy()
	}
	s := instancetype.Set{Instancetype: least, Preference: &instancetype.Preference{Spec: *p}}
	for !instancetype.Fits(s) && least.Spec.CPU.Guest < mostVCPUs {
		least.Spec.CPU.Guest++
	}
	return least
}
