package virtcontroller

import "testing"

// TestProtocols: the protocols of the flag.
func TestProtocols(t *testing.T) {
	t.Parallel()
	for protocol, known := range map[string]bool{HookSidecar: true, HookPlugin: true, "": false, "plugin": false} {
		if err := (Hook{Protocol: protocol}).Validate(); (err == nil) != known {
			t.Errorf("'%s': %v", protocol, err)
		}
	}
}
