package vm

import (
	"math"
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

func TestTopology(t *testing.T) {
	for _, test := range []struct {
		name, why string
		cpu       *v1.CPU
		want      [3]uint32
		vcpus     int64
	}{
		{"none", "nothing is said", nil, [3]uint32{}, 0},
		{"no counts", "a model alone says nothing of how many", &v1.CPU{Model: "host-model", MaxSockets: 4}, [3]uint32{}, 0},
		{"sockets alone", "cores and threads left out beside sockets are 1", &v1.CPU{Sockets: 2}, [3]uint32{2, 1, 1}, 2},
		{"cores alone", "sockets and threads left out beside cores are 1", &v1.CPU{Cores: 4}, [3]uint32{1, 4, 1}, 4},
		{"threads alone", "sockets and cores left out beside threads are 1", &v1.CPU{Threads: 2}, [3]uint32{1, 1, 2}, 2},
		{"all", "as they are", &v1.CPU{Sockets: 2, Cores: 3, Threads: 5}, [3]uint32{2, 3, 5}, 30},
		{"two that are huge", "the product of two counts fits into 64 bits", &v1.CPU{Sockets: math.MaxUint32, Cores: math.MaxInt32},
			[3]uint32{math.MaxUint32, math.MaxInt32, 1}, math.MaxUint32 * math.MaxInt32},
	} {
		t.Run(test.name, func(t *testing.T) {
			sockets, cores, threads := Topology(test.cpu)
			if got := [3]uint32{sockets, cores, threads}; got != test.want {
				t.Errorf("%s: got %v, want %v", test.why, got, test.want)
			}
			if got := VCPUs(test.cpu); got != test.vcpus {
				t.Errorf("%s: got %d vCPUs, want %d", test.why, got, test.vcpus)
			}
		})
	}
}

func TestMirrorsNUMA(t *testing.T) {
	for _, test := range []struct {
		name string
		cpu  *v1.CPU
		want bool
	}{
		{"no CPUs", nil, false},
		{"no NUMA nodes", &v1.CPU{}, false},
		{"NUMA nodes of no kind", &v1.CPU{NUMA: &v1.NUMA{}}, false},
		{"the NUMA nodes of the host", &v1.CPU{NUMA: &v1.NUMA{GuestMappingPassthrough: &v1.NUMAGuestMappingPassthrough{}}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := MirrorsNUMA(test.cpu); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestMaxVCPUs(t *testing.T) {
	for _, test := range []struct {
		architecture string
		most         uint64
		known        bool
	}{{"", 255, true}, {"amd64", 255, true}, {"s390x", 248, true}, {"arm64", 0, false}} {
		if most, known := MaxVCPUs(test.architecture); most != test.most || known != test.known {
			t.Errorf("architecture '%s': got %d, %t", test.architecture, most, known)
		}
	}
}
