package instancetype

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// medium has 4 vCPUs and 2 GiB.
func medium(tweaks ...func(*v1beta1.VirtualMachineInstancetypeSpec)) *Instancetype {
	s := &Instancetype{Source: Source{Kind: "VirtualMachineClusterInstancetype", Name: "medium"}}
	s.Spec.CPU.Guest, s.Spec.Memory.Guest = 4, resource.MustParse("2Gi")
	for _, tweak := range tweaks {
		tweak(&s.Spec)
	}
	return s
}

func preference(tweak func(*v1beta1.VirtualMachinePreferenceSpec)) *Preference {
	p := &Preference{Source: Source{Kind: "VirtualMachineClusterPreference", Name: "linux"}}
	tweak(&p.Spec)
	return p
}

func arranged(topology v1beta1.PreferredCPUTopology, options *v1beta1.SpreadOptions) *Preference {
	return preference(func(p *v1beta1.VirtualMachinePreferenceSpec) {
		p.CPU = &v1beta1.CPUPreferences{PreferredCPUTopology: &topology, SpreadOptions: options}
	})
}

func across(a v1beta1.SpreadAcross, ratio uint32) *v1beta1.SpreadOptions {
	return &v1beta1.SpreadOptions{Across: &a, Ratio: &ratio}
}

func TestArrange(t *testing.T) {
	for _, test := range []struct {
		name, why  string
		vcpus      uint32
		preference *Preference
		want       arrangement
	}{
		{"no preference", "one vCPU a socket, so that sockets can be added", 4, nil, arrangement{4, 1, 1}},
		{"cores", "licences count sockets", 4, arranged(v1beta1.Cores, nil), arrangement{1, 4, 1}},
		{"old spelling", "preferCores is cores", 4, arranged(v1beta1.DeprecatedPreferCores, nil), arrangement{1, 4, 1}},
		{"threads", "", 4, arranged(v1beta1.Threads, nil), arrangement{1, 1, 4}},
		{"one vCPU", "there is nothing to spread", 1, arranged(v1beta1.Spread, nil), arrangement{1, 1, 1}},
		{"spread", "two cores a socket by default", 8, arranged(v1beta1.Spread, nil), arrangement{4, 2, 1}},
		{"ratio", "", 8, arranged(v1beta1.Spread, across(v1beta1.SpreadAcrossSocketsCores, 4)), arrangement{2, 4, 1}},
		{"ratio 0", "nothing divides by zero; it means the default", 8, arranged(v1beta1.Spread, across(v1beta1.SpreadAcrossSocketsCores, 0)), arrangement{4, 2, 1}},
		{"threads too", "two threads a core", 8, arranged(v1beta1.Spread, across(v1beta1.SpreadAcrossSocketsCoresThreads, 2)), arrangement{2, 2, 2}},
		{"cores and threads", "", 8, arranged(v1beta1.Spread, across(v1beta1.SpreadAcrossCoresThreads, 2)), arrangement{1, 4, 2}},
		{"threads of a core by the old field", "the author of the preference has said how many", 8, preference(func(p *v1beta1.VirtualMachinePreferenceSpec) {
			p.PreferSpreadSocketToCoreRatio = 4
			p.CPU = &v1beta1.CPUPreferences{PreferredCPUTopology: new(v1beta1.DeprecatedPreferSpread),
				SpreadOptions: &v1beta1.SpreadOptions{Across: new(v1beta1.SpreadAcrossCoresThreads)}}
		}), arrangement{1, 2, 4}},
		{"ratio of 32 bits", "twice the ratio is 0 in 32 bits", 8,
			arranged(v1beta1.Spread, across(v1beta1.SpreadAcrossSocketsCoresThreads, 1<<31)), arrangement{8, 1, 1}},
		{"ratio above 32 bits", "twice the ratio is 2 in 32 bits", 8,
			arranged(v1beta1.Spread, across(v1beta1.SpreadAcrossSocketsCoresThreads, 1<<31+1)), arrangement{8, 1, 1}},
		{"indivisible", "no vCPU is lost", 7, arranged(v1beta1.Spread, nil), arrangement{7, 1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := arrangeVCPUs(test.vcpus, test.preference); got != test.want {
				t.Errorf("%s: got %v, want %v", test.why, got, test.want)
			}
		})
	}
}

// fields are the paths of errors, in their order.
func fields(errs field.ErrorList) (paths []string) {
	for _, err := range errs {
		paths = append(paths, err.Field)
	}
	return paths
}

func guest(tweak func(*v1.DomainSpec)) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	tweak(&vmi.Spec.Domain)
	return vmi
}

func gibibytes(n int64) *resource.Quantity { return resource.NewQuantity(n<<30, resource.BinarySI) }

func TestConflicts(t *testing.T) {
	for _, test := range []struct {
		name, why   string
		vmi         *v1.VirtualMachineInstance
		vm, sameVMI []string
	}{
		{name: "nothing given", why: "only the instancetype sets the fields", vmi: guest(func(*v1.DomainSpec) {})},
		{
			name: "every area", why: "all conflicts at once",
			vmi: guest(func(d *v1.DomainSpec) {
				d.CPU, d.Memory = &v1.CPU{Cores: 2, Sockets: 2}, &v1.Memory{Guest: gibibytes(1)}
				d.Resources.Requests = corev1.ResourceList{"memory": *gibibytes(1), "cpu": resource.MustParse("1")}
			}),
			vm: []string{"spec.template.spec.domain.resources.requests.cpu", "spec.template.spec.domain.cpu.sockets", "spec.template.spec.domain.cpu.cores",
				"spec.template.spec.domain.memory.guest", "spec.template.spec.domain.resources.requests.memory"},
			sameVMI: []string{"spec.domain.cpu.sockets", "spec.domain.cpu.cores", "spec.domain.memory.guest"},
		},
		{
			name: "equal values", why: "on a VMI they may come from the instancetype, applied before",
			vmi: guest(func(d *v1.DomainSpec) {
				d.CPU, d.Memory = &v1.CPU{Sockets: 4, Cores: 1, Threads: 1}, &v1.Memory{Guest: gibibytes(2)}
			}),
			vm: []string{"spec.template.spec.domain.cpu.sockets", "spec.template.spec.domain.cpu.cores", "spec.template.spec.domain.cpu.threads",
				"spec.template.spec.domain.memory.guest"},
		},
		{
			name: "node selector", why: "an empty one says 'any node', which is another answer",
			vmi: func() *v1.VirtualMachineInstance {
				vmi := guest(func(*v1.DomainSpec) {})
				vmi.Spec.NodeSelector = map[string]string{}
				return vmi
			}(),
			vm: []string{"spec.template.spec.nodeSelector"}, sameVMI: []string{"spec.nodeSelector"},
		},
		{name: "what the instancetype leaves open", why: "the CPU's model is the guest's to choose",
			vmi: guest(func(d *v1.DomainSpec) { d.CPU = &v1.CPU{Model: "Haswell"} })},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := Set{Instancetype: medium(func(s *v1beta1.VirtualMachineInstancetypeSpec) { s.NodeSelector = map[string]string{"zone": "a"} })}
			if diff := cmp.Diff(test.vm, fields(Conflicts(set, test.vmi, field.NewPath("spec", "template")))); diff != "" {
				t.Errorf("VM: %s (-want +got):\n%s", test.why, diff)
			}
			if diff := cmp.Diff(test.sameVMI, fields(Differences(set, test.vmi, nil))); diff != "" {
				t.Errorf("VMI: %s (-want +got):\n%s", test.why, diff)
			}
		})
	}
}

func TestConflictTellsBothValuesAndTheWaysOut(t *testing.T) {
	errs := Conflicts(Set{Instancetype: medium()}, guest(func(d *v1.DomainSpec) { d.Memory = &v1.Memory{Guest: gibibytes(1)} }), nil)
	if len(errs) != 1 {
		t.Fatal(errs)
	}
	for _, want := range []string{"1Gi", "'2Gi'", "VirtualMachineClusterInstancetype 'medium'", "remove the field", "choose an instancetype"} {
		if !strings.Contains(errs[0].Error(), want) {
			t.Errorf("'%v' lacks %q", errs[0], want)
		}
	}
}

func TestApply(t *testing.T) {
	set := Set{
		Instancetype: medium(func(s *v1beta1.VirtualMachineInstancetypeSpec) {
			s.Memory.OvercommitPercent = 15
			s.NodeSelector, s.Annotations = map[string]string{"a": "b"}, map[string]string{"k": "instancetype"}
			s.GPUs = []v1.GPU{{Name: "gpu", DeviceName: "vendor.com/gpu"}}
		}),
		Preference: preference(func(p *v1beta1.VirtualMachinePreferenceSpec) {
			p.Devices = &v1beta1.DevicePreferences{PreferredDiskBus: "virtio", PreferredDisableHotplug: new(false),
				PreferredVirtualGPUOptions: &v1.VGPUOptions{Display: &v1.VGPUDisplayOptions{Enabled: new(true)}}}
			p.Features = &v1beta1.FeaturePreferences{PreferredAcpi: &v1.FeatureState{Enabled: new(true)}}
			p.CPU = &v1beta1.CPUPreferences{PreferredCPUFeatures: []v1.CPUFeature{{Name: "vmx"}}}
		}),
	}
	before := Set{Instancetype: &Instancetype{Spec: *set.Instancetype.Spec.DeepCopy()}, Preference: &Preference{Spec: *set.Preference.Spec.DeepCopy()}}
	vmi := guest(func(d *v1.DomainSpec) {
		d.Features = &v1.Features{ACPI: v1.FeatureState{Enabled: new(false)}}
		d.Devices.DisableHotplug = true
		d.Devices.Disks = []v1.Disk{{Name: "a"}, {Name: "b", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "sata"}}}}
	})
	Apply(set, config.Newest, vmi)
	d := vmi.Spec.Domain
	request := d.Resources.Requests[corev1.ResourceMemory]
	for what, ok := range map[string]bool{
		"4 sockets":                                       d.CPU.Sockets == 4 && d.CPU.Cores == 1 && d.CPU.Threads == 1,
		"2Gi of memory":                                   d.Memory.Guest.Cmp(*gibibytes(2)) == 0,
		"85 % of it requested, to the byte":               request.Value() == 2<<30*85/100,
		"the preferred bus where none is given":           d.Devices.Disks[0].Disk.Bus == "virtio" && d.Devices.Disks[1].Disk.Bus == "sata",
		"the user's word on ACPI":                         !*d.Features.ACPI.Enabled,
		"the user's word on hotplug":                      d.Devices.DisableHotplug,
		"the preferred display on the instancetype's GPU": *d.Devices.GPUs[0].VirtualGPUOptions.Display.Enabled,
		"the preferred CPU feature":                       len(d.CPU.Features) == 1,
		"annotations":                                     vmi.Annotations["k"] == "instancetype",
	} {
		if !ok {
			t.Errorf("missing: %s", what)
		}
	}
	// What was applied is a copy.
	vmi.Spec.NodeSelector["a"], vmi.Annotations["k"] = "changed", "changed"
	*d.Devices.GPUs[0].VirtualGPUOptions.Display.Enabled, d.CPU.Features[0].Name = false, "changed"
	if diff := cmp.Diff(before.Instancetype.Spec, set.Instancetype.Spec) + cmp.Diff(before.Preference.Spec, set.Preference.Spec); diff != "" {
		t.Errorf("the instancetype or preference was changed or aliased:\n%s", diff)
	}
	again := vmi.DeepCopy()
	Apply(Set{Preference: set.Preference}, config.Newest, again)
	if diff := cmp.Diff(len(vmi.Spec.Domain.Devices.Disks), len(again.Spec.Domain.Devices.Disks)); diff != "" {
		t.Errorf("a second application changes something:\n%s", diff)
	}
}

func TestSnapshots(t *testing.T) {
	object := func(name string, spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineInstancetype",
			"metadata": map[string]any{"name": name, "uid": "ignored"}, "spec": spec}
	}
	spec := map[string]any{"cpu": map[string]any{"guest": int64(2)}, "memory": map[string]any{"guest": "1Gi"}, "newer": map[string]any{"field": true}}
	first, err := Take(object("small", spec))
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(first.Name, first.Data); err != nil {
		t.Errorf("a fresh snapshot does not verify: %v", err)
	}
	if !strings.Contains(string(first.Data), `"newer"`) || strings.Contains(string(first.Data), "ignored") {
		t.Errorf("data holds the whole spec and no metadata but the name: %s", first.Data)
	}
	if err := Verify(first.Name, []byte(strings.Replace(string(first.Data), "1Gi", "2Gi", 1))); err == nil {
		t.Error("changed content verifies")
	}
	for _, name := range []string{"a", strings.Repeat("a", 253), strings.Repeat("a", 225) + ".b" + strings.Repeat("c", 20)} {
		long, err := Take(object(name, spec))
		if err != nil || len(validation.IsDNS1123Subdomain(long.Name)) > 0 || long.Name == first.Name {
			t.Errorf("name '%s', %v: not a legal name of its own", long.Name, err)
		}
	}
	read, err := ReadInstancetype(first.Name, first.Data)
	if err != nil || read.Name != "small" || read.Spec.CPU.Guest != 2 {
		t.Errorf("read back %+v, %v", read, err)
	}
	if _, err := ReadPreference(first.Name, first.Data); err == nil {
		t.Error("an instancetype was read as a preference")
	}
}
