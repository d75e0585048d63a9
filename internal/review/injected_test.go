package review

import "testing"

// TestKnownProtocols: the protocols of the flag.
func TestKnownProtocols(t *testing.T) {
	t.Parallel()
	for protocol, known := range map[string]bool{HookSidecar: true, HookPlugin: true, "": false, "plugin": false} {
		if err := (Hook{Protocol: protocol}).Known(); (err == nil) != known {
			t.Errorf("'%s': %v", protocol, err)
		}
	}
}
