package abi_test

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"libvirt.org/go/libvirtxml"
)

// TestReadCPUAllocations: each rendering reads the CPU, and host-model has a hundred features.
func TestReadCPUAllocations(t *testing.T) {
	cpu := &libvirtxml.DomainCPU{Model: &libvirtxml.DomainCPUModel{Value: "EPYC-Rome"}}
	for i := range 100 {
		cpu.Features = append(cpu.Features, libvirtxml.DomainCPUFeature{Name: fmt.Sprintf("f%02d", i), Policy: []string{"require", "disable"}[i%10/9]})
	}
	if read := abi.ReadCPU(cpu); len(read.Features) != 90 || len(read.DisabledFeatures) != 10 {
		t.Fatalf("%+v", read)
	}
	if allocated := testing.AllocsPerRun(100, func() { abi.ReadCPU(cpu) }); allocated > 2 {
		t.Errorf("%v allocations for two lists", allocated)
	}
}
