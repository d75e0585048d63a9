package hypervisor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"libvirt.org/go/libvirtxml"
)

// topology is libvirt's output for a machine with two NUMA nodes, and a third one that has only memory.
const topology = `<capabilities><host><cpu><arch>x86_64</arch></cpu><topology><cells num="3">
<cell id="0"><memory unit="KiB">8388608</memory>
  <pages unit="KiB" size="4">1835008</pages><pages unit="KiB" size="2048">512</pages><pages unit="KiB" size="1048576">0</pages>
  <distances><sibling id="0" value="10"/><sibling id="1" value="21"/><sibling id="4" value="17"/></distances>
  <cpus num="4">
    <cpu id="0" socket_id="0" die_id="0" core_id="0" siblings="0,2"/><cpu id="1" socket_id="0" die_id="1" core_id="0" siblings="1"/>
    <cpu id="2" socket_id="0" die_id="0" core_id="0" siblings="0,2"/><cpu id="3"/>
  </cpus></cell>
<cell id="1"><memory unit="KiB">4194304</memory><cpus num="1"><cpu id="8" socket_id="1" core_id="3" siblings="8"/></cpus></cell>
<cell id="4"><memory unit="KiB">1024</memory></cell>
</cells></topology></host></capabilities>`

func TestNUMANodes(t *testing.T) {
	t.Parallel()
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(topology); err != nil {
		t.Fatal(err)
	}
	want := []backend.NUMANode{
		{
			ID: 0, MemoryKiB: 8 << 20, Pages: map[uint64]uint64{4: 1835008, 2048: 512, 1048576: 0}, Distances: map[int]uint{0: 10, 1: 21, 4: 17},
			// CPU 3 is offline: libvirt lists it without a place.
			CPUs: []backend.CPU{{ID: 0}, {ID: 1, Die: 1}, {ID: 2}},
		},
		{ID: 1, MemoryKiB: 4 << 20, CPUs: []backend.CPU{{ID: 8, Socket: 1, Core: 3}}}, // libvirt reported no pages and no distances
		{ID: 4, MemoryKiB: 1024},
	}
	host := hostFacts(caps, KVMAuto)
	if diff := cmp.Diff(want, host.NUMA); diff != "" {
		t.Errorf("NUMA nodes (-want +got):\n%s", diff)
	}
	if host.Architecture != "amd64" {
		t.Errorf("architecture is '%s'", host.Architecture)
	}
}
