package vm

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

func TestTopology(t *testing.T) {
	for _, test := range []struct {
		name, why string
		cpu       *v1.CPU
		want      [3]uint32
	}{
		{"none", "nothing is said", nil, [3]uint32{}},
		{"no counts", "a model alone says nothing of how many", &v1.CPU{Model: "host-model", MaxSockets: 4}, [3]uint32{}},
		{"cores alone", "sockets and threads left out beside cores are 1", &v1.CPU{Cores: 4}, [3]uint32{1, 4, 1}},
		{"all", "as they are", &v1.CPU{Sockets: 2, Cores: 3, Threads: 5}, [3]uint32{2, 3, 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			sockets, cores, threads := Topology(test.cpu)
			if got := [3]uint32{sockets, cores, threads}; got != test.want {
				t.Errorf("%s: got %v, want %v", test.why, got, test.want)
			}
		})
	}
}
