package frontend_test

import (
	"testing"

	"github.com/kilnvm/kiln/test/frontends"
)

// TestPhysicalAddresses: a CPU model reaches the memory that its guest may get.
func TestPhysicalAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arch, model, memory string
		bits                uint
	}{
		{"amd64", "kvm64", "{guest: 2Gi}", 0},
		{"amd64", "kvm64", "{guest: 240Gi, maxGuest: 960Gi}", 0},
		{"amd64", "kvm64", "{guest: 248Gi, maxGuest: 992Gi}", 46},
		{"amd64", "kvm64", "{guest: 2Gi, maxGuest: 1Ti}", 46},
		{"amd64", "host-model", "{guest: 2Ti}", 46},
		{"amd64", "kvm64", "{guest: 2Gi, maxGuest: 64Ti}", 47},
		{"amd64", "host-passthrough", "{guest: 2Gi, maxGuest: 4Ti}", 0},
		{"arm64", "max", "{guest: 2Gi, maxGuest: 4Ti}", 0},
	} {
		dom := frontends.Rendered(t, frontends.With(t, c.arch, "addresses", "spec: {domain: {cpu: {model: "+c.model+", cores: 1}, memory: "+c.memory+"}}"))
		bits := uint(0)
		if dom.CPU.MaxPhysAddr != nil {
			bits = dom.CPU.MaxPhysAddr.Bits
		}
		if bits != c.bits {
			t.Errorf("%s %s with memory %s: %d bits, want %d", c.arch, c.model, c.memory, bits, c.bits)
		}
	}
}
