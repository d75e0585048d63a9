package hypervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
)

// TestFirmwares: each build has the format of its files, in the order of the descriptors.
func TestFirmwares(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	code, vars := write("code", ""), write("vars", "")
	flash := func(executable, template string) string {
		return fmt.Sprintf(`{"interface-types": ["uefi"], "mapping": {"device": "flash", "executable": {"filename": %q, "format": %q},
			"nvram-template": {"filename": %q, "format": %q}}, "targets": [{"architecture": "x86_64", "machines": ["pc-q35-*"]}], "features": ["acpi-s3"]}`,
			code, executable, vars, template)
	}
	write("30-qcow2.json", flash("QCOW2", "qcow2"))
	write("40-mixed.json", flash("qcow2", "raw"))
	write("50-raw.json", flash("raw", "raw"))
	write("60-memory.json", fmt.Sprintf(`{"interface-types": ["uefi"], "mapping": {"device": "memory", "filename": %q},
		"targets": [{"architecture": "x86_64", "machines": ["pc-q35-*"]}], "features": ["amd-sev-snp"]}`, code))
	got, err := readFirmware([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	build := backend.Firmware{Architecture: "amd64", Machines: []string{"pc-q35-*"}, Features: []string{"acpi-s3"}, Code: code, VarsTemplate: vars}
	other, memory := build, build
	build.Format, other.Format, memory.Format, memory.VarsTemplate, memory.Features = "qcow2", "raw", "raw", "", []string{"amd-sev-snp"}
	if diff := cmp.Diff([]backend.Firmware{build, other, memory}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
