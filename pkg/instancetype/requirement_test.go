package instancetype

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// wanting is a preference with requirements, and with a topology if one is given.
func wanting(topology v1beta1.PreferredCPUTopology, needs v1beta1.PreferenceRequirements) *Preference {
	return preference(func(p *v1beta1.VirtualMachinePreferenceSpec) {
		p.Requirements = &needs
		if topology != "" {
			p.CPU = &v1beta1.CPUPreferences{PreferredCPUTopology: &topology}
		}
	})
}

func vcpus(n uint32) v1beta1.PreferenceRequirements {
	return v1beta1.PreferenceRequirements{CPU: &v1beta1.CPUPreferenceRequirement{Guest: n}}
}

func TestRequirements(t *testing.T) {
	all := vcpus(8)
	all.Memory, all.Architecture = &v1beta1.MemoryPreferenceRequirement{Guest: *gibibytes(4)}, new("arm64")
	spread := wanting(v1beta1.Spread, vcpus(8))
	threads := wanting(v1beta1.Spread, vcpus(5))
	threads.Spec.CPU.SpreadOptions = across(v1beta1.SpreadAcrossCoresThreads, 2)
	everything := wanting(v1beta1.Spread, vcpus(9))
	everything.Spec.CPU.SpreadOptions = across(v1beta1.SpreadAcrossSocketsCoresThreads, 2)
	for _, test := range []struct {
		name, why string
		set       Set
		// written is what the user wrote of the CPU; the explicit guest has it, 2 GiB and amd64.
		written *v1.CPU
		want    []string
	}{
		{"all with an instancetype", "the instancetype can be changed, but it has no architecture", Set{Instancetype: medium(), Preference: wanting("", all)}, nil,
			[]string{"spec.instancetype", "spec.instancetype", "spec.template.spec.architecture"}},
		{"all without an instancetype", "the guest's own fields can be changed", Set{Preference: wanting("", all)}, &v1.CPU{Sockets: 4},
			[]string{"spec.template.spec.domain.cpu.sockets", "spec.template.spec.domain.memory", "spec.template.spec.architecture"}},
		{"no CPU written", "a path ends where the user's object does", Set{Preference: wanting("", vcpus(2))}, nil, []string{"spec.template.spec.domain.cpu"}},
		{"instancetype of enough", "", Set{Instancetype: medium(), Preference: wanting(v1beta1.Cores, vcpus(4))}, nil, nil},
		{"cores count", "4 sockets are no cores", Set{Preference: wanting(v1beta1.Cores, vcpus(4))}, &v1.CPU{Sockets: 4, Cores: 1, Threads: 1},
			[]string{"spec.template.spec.domain.cpu.cores"}},
		{"threads count", "", Set{Preference: wanting(v1beta1.Threads, vcpus(2))}, &v1.CPU{Sockets: 4}, []string{"spec.template.spec.domain.cpu.threads"}},
		{"any counts the product", "", Set{Preference: wanting(v1beta1.Any, vcpus(8))}, &v1.CPU{Sockets: 2, Cores: 2, Threads: 2}, nil},
		{"left out is one", "4 cores of the one socket that is meant", Set{Preference: wanting(v1beta1.Any, vcpus(4))}, &v1.CPU{Cores: 4}, nil},
		{"one socket is meant", "", Set{Preference: wanting(v1beta1.Sockets, vcpus(1))}, &v1.CPU{Cores: 4}, nil},
		{"spread counts both", "threads do not count", Set{Preference: spread}, &v1.CPU{Sockets: 2, Cores: 2, Threads: 2}, []string{"spec.template.spec.domain.cpu"}},
		{"cores and threads", "sockets do not count", Set{Preference: threads}, &v1.CPU{Sockets: 2, Cores: 2, Threads: 2}, []string{"spec.template.spec.domain.cpu"}},
		{"sockets, cores and threads", "", Set{Preference: everything}, &v1.CPU{Sockets: 2, Cores: 2, Threads: 2}, []string{"spec.template.spec.domain.cpu"}},
		{"instancetype that cannot be spread", "7 vCPUs are no pairs; reported whatever is required",
			Set{Instancetype: medium(func(s *v1beta1.VirtualMachineInstancetypeSpec) { s.CPU.Guest = 7 }),
				Preference: arranged(v1beta1.Spread, nil)}, nil, []string{"spec.preference"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			written := v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{CPU: test.written}}
			explicit := guest(func(d *v1.DomainSpec) { d.CPU, d.Memory = test.written, &v1.Memory{Guest: gibibytes(2)} })
			explicit.Spec.Architecture = "amd64"
			got := fields(Requirements(test.set, explicit, &written, field.NewPath("spec")))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
		})
	}
}

// TestShortfall: a list of instancetypes says what is missing in the words of the error that a VM would get.
func TestShortfall(t *testing.T) {
	memory := v1beta1.PreferenceRequirements{Memory: &v1beta1.MemoryPreferenceRequirement{Guest: *gibibytes(64)}}
	both := vcpus(8)
	both.Memory = memory.Memory
	for name, test := range map[string]struct {
		set  Set
		want string
	}{
		"enough": {Set{Instancetype: medium(), Preference: wanting("", vcpus(1))}, ""},
		"vCPUs":  {Set{Instancetype: medium(), Preference: wanting("", vcpus(8))}, " requires 8 vCPUs"},
		"memory": {Set{Instancetype: medium(), Preference: wanting("", memory)}, " requires 64Gi of memory"},
		"both":   {Set{Instancetype: medium(), Preference: wanting("", both)}, " requires 8 vCPUs"},
		"spread": {Set{Instancetype: medium(func(s *v1beta1.VirtualMachineInstancetypeSpec) { s.CPU.Guest = 7 }),
			Preference: arranged(v1beta1.Spread, nil)}, " has 7 vCPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			explicit := &v1.VirtualMachineInstance{}
			Apply(test.set, config.Newest, explicit)
			errs := Requirements(test.set, explicit, &explicit.Spec, field.NewPath("spec"))
			got := Shortfall(test.set)
			if (got == "") != (len(errs) == 0) || !strings.HasSuffix(got, test.want) || (test.want == "") != (got == "") {
				t.Fatalf("got %q, with the errors %v", got, errs)
			}
			if len(errs) > 0 && !strings.Contains(errs[0].Detail, got+": ") {
				t.Errorf("%q is not in %q", got, errs[0].Detail)
			}
		})
	}
}
