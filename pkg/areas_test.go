package pkg_test

import (
	"strings"
	"testing"
)

// areas are the file names shared by all engine packages: 'ls pkg/*/cpu.go pkg/*/*/cpu.go' is the answer to "what do we
// do about CPUs?".
var areas = strings.Fields("machine cpu memory resources firmware disks networks hostdevices devices features clock iothreads security scheduling")

// TestAreasHaveOneName: a file about an area has the area's name, e.g. disks.go or disks_blockio.go, and not disk.go. Every other name is free.
func TestAreasHaveOneName(t *testing.T) {
	for _, p := range list(t, "./pkg/...") {
		for _, file := range p.GoFiles {
			name, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
			for _, area := range areas {
				if name != area && strings.TrimSuffix(name, "s") == strings.TrimSuffix(area, "s") {
					t.Errorf("%s/%s: other packages call this area '%s'", strings.TrimPrefix(p.ImportPath, module), file, area)
				}
			}
		}
	}
}
