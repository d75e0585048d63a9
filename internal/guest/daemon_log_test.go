package guest

import (
	"bytes"
	"strings"
	"testing"
)

// TestWithoutDevice: only the daemon's lines about /dev/kvm are dropped, however the lines are split into writes.
func TestWithoutDevice(t *testing.T) {
	const (
		first   = "2026-11-28 09:43:20.216+0000: 12936: info : libvirt version: 11.3.0\n"
		cpuid   = "2026-11-28 09:43:20.221+0000: 12936: error : virHostCPUGetCPUID:1422 : Unable to open /dev/kvm: Permission denied\n"
		msr     = "2026-11-28 09:43:20.222+0000: 12936: error : virHostCPUGetMSRFromKVM:1341 : Unable to open /dev/kvm: No such file or directory\n"
		another = "2026-11-28 09:43:20.223+0000: 12936: error : qemuProcessReportLogError:2058 : internal error: Could not access KVM kernel module: /dev/kvm\n"
	)
	given := first + cpuid + msr + another
	for _, size := range []int{1, 7, len(given)} {
		var got bytes.Buffer
		log := WithoutDevice(&got)
		for rest := given; rest != ""; {
			n := min(size, len(rest))
			if written, err := log.Write([]byte(rest[:n])); written != n || err != nil {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		if got.String() != first+another {
			t.Errorf("in writes of %d bytes:\n%s", size, got.String())
		}
	}
	var got bytes.Buffer
	if _, err := WithoutDevice(&got).Write([]byte(strings.Repeat("a", maxHeldLine+1))); err != nil || got.Len() != maxHeldLine+1 {
		t.Errorf("of a line without end %d bytes are passed on, %v", got.Len(), err)
	}
}
