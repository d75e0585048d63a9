package hostresources

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

// TestSerialLog: logSerialConsole false keeps no log.
func TestSerialLog(t *testing.T) {
	for _, logs := range []*bool{nil, new(true), new(false)} {
		vmi := &v1.VirtualMachineInstance{}
		vmi.UID, vmi.Spec.Domain.Devices.LogSerialConsole = "1d9c2f0e-0000-4000-8000-000000000001", logs
		bound, errs := (&BareMachine{State: t.TempDir()}).Bind(t.Context(), vmi, nil)
		if len(errs) > 0 || (bound.SerialLog == "") != (logs != nil && !*logs) {
			t.Errorf("%v: the log is '%s' (%v)", logs, bound.SerialLog, errs)
		}
	}
}
