package vm

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

func TestPageSize(t *testing.T) {
	pages := func(size string) *v1.Memory { return &v1.Memory{Hugepages: &v1.Hugepages{PageSize: size}} }
	for _, test := range []struct {
		why    string
		memory *v1.Memory
		want   int64
	}{
		{"no memory", nil, 0},
		{"no huge pages", &v1.Memory{}, 0},
		{"pages of 2 MiB", pages("2Mi"), 2 << 20},
		{"pages of 1 GiB", pages("1Gi"), 1 << 30},
		{"no size", pages(""), 0},
		{"no quantity", pages("large"), 0},
		{"a negative size", pages("-2Mi"), 0},
		{"the least size", pages("1"), 1},
	} {
		t.Run(test.why, func(t *testing.T) {
			if got := PageSize(test.memory); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestIsMemory(t *testing.T) {
	for amount, want := range map[string]bool{
		"0": false, "-1": false, "1": true, "4Pi": true, "4503599627370497": false, "100Ei": false, "1e400": false, "-1e400": false, "1e-400": true,
	} {
		if got := IsMemory(resource.MustParse(amount)); got != want {
			t.Errorf("%s: got %v, want %v", amount, got, want)
		}
	}
}

// TestFixedMemory has each reason for which memory cannot grow, and what is nearest to it and grows.
func TestFixedMemory(t *testing.T) {
	const misaligned, misalignedMax = "memory.guest '1025Mi' cannot grow: only a multiple of 2 MiB can", "must be a multiple of 2 MiB"
	for _, test := range []struct {
		why, guest, ceiling string
		change              func(*v1.VirtualMachineInstanceSpec)
		want                string
	}{
		{"the least memory that grows", "1Gi", "1026Mi", nil, ""},
		{"a block less", "1022Mi", "1Gi", nil, "memory below 1Gi cannot grow"},
		{"half a block more", "1025Mi", "2Gi", nil, misaligned},
		{"to half a block more", "1Gi", "1025Mi", nil, misalignedMax},
		{"pages of 2 MiB", "1026Mi", "1028Mi", pagesOf("2Mi"), ""},
		{"pages of 1 GiB", "1Gi", "2Gi", pagesOf("1Gi"), ""},
		{"half a page of 1 GiB", "1536Mi", "2Gi", pagesOf("1Gi"), "memory.guest '1536Mi' cannot grow: only a multiple of 1024 MiB can"},
		{"to half a page of 1 GiB", "1Gi", "1536Mi", pagesOf("1Gi"), "must be a multiple of 1024 MiB"},
		{"CPUs as they are", "1Gi", "2Gi", cpus(v1.CPU{Cores: 2}), ""},
		{"realtime", "1Gi", "2Gi", cpus(v1.CPU{Realtime: &v1.Realtime{}}), "memory cannot grow with cpu.realtime"},
		{"the host's NUMA nodes", "1Gi", "2Gi", cpus(v1.CPU{NUMA: &v1.NUMA{GuestMappingPassthrough: &v1.NUMAGuestMappingPassthrough{}}}),
			"memory cannot grow with cpu.numa.guestMappingPassthrough"},
		{"encryption", "1Gi", "2Gi", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.LaunchSecurity = &v1.LaunchSecurity{} },
			"memory cannot grow with launchSecurity"},
		{"another architecture", "1Gi", "2Gi", func(s *v1.VirtualMachineInstanceSpec) { s.Architecture = "arm64" },
			"memory cannot grow on architecture 'arm64'"},
	} {
		t.Run(test.why, func(t *testing.T) {
			guest := resource.MustParse(test.guest)
			spec := &v1.VirtualMachineInstanceSpec{Architecture: "amd64", Domain: v1.DomainSpec{Memory: &v1.Memory{Guest: &guest}}}
			if test.change != nil {
				test.change(spec)
			}
			got, ofArchitecture := FixedMemory(spec, resource.MustParse(test.ceiling))
			if got != test.want || ofArchitecture != (spec.Architecture == "arm64") {
				t.Errorf("got '%s', of the architecture: %t, want '%s'", got, ofArchitecture, test.want)
			}
			if can := CanGrow(spec, resource.MustParse(test.ceiling)); can != (test.want == "") {
				t.Errorf("CanGrow is %t", can)
			}
		})
	}
}

func pagesOf(size string) func(*v1.VirtualMachineInstanceSpec) {
	return func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Domain.Memory.Hugepages = &v1.Hugepages{PageSize: size}
	}
}

func cpus(cpu v1.CPU) func(*v1.VirtualMachineInstanceSpec) {
	return func(spec *v1.VirtualMachineInstanceSpec) { spec.Domain.CPU = &cpu }
}
