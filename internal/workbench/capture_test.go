package workbench

import (
	"strings"
	"testing"
)

// TestDomainsAreBounded: a device without an end is an error that names it.
func TestDomainsAreBounded(t *testing.T) {
	if _, err := ReadRunning("/dev/zero", nil); err == nil || !strings.Contains(err.Error(), "has more than 64 MiB") {
		t.Errorf("a domain without an end: %v", err)
	}
}
