package render

import (
	"path"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// withEFI is a machine whose guest has EFI firmware, on a host of the cluster. spec is below spec.domain.
func withEFI(t *testing.T, spec string) Machine {
	t.Helper()
	sparse := decode[v1.VirtualMachineInstance](t, `
metadata: {name: web, namespace: shop, uid: 7f8f8c5e-0000-4000-8000-000000000001}
spec: {architecture: amd64, domain: {memory: {guest: 1Gi}, cpu: {model: qemu64}, `+spec+`}}`)
	explicit, verdict := admit.VMI(&sparse, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors)
	}
	m := Machine{VMI: explicit, Defaults: config.Default().Frontend, Host: backend.Assumed("amd64"), Bindings: backend.AssumedBindings(explicit)}
	m.Host.NodeName = "rack1"
	return m
}

// withBuilds replaces the builds of the host, each by its file name.
func withBuilds(m Machine, names ...string) Machine {
	m.Host.Firmware = nil
	for _, name := range names {
		m.Host.Firmware = append(m.Host.Firmware, backend.Firmware{Architecture: "amd64", Machines: []string{"q35", "pc-q35-*"},
			Code: "/fw/" + name, VarsTemplate: "/fw/vars." + name, Format: strings.TrimPrefix(path.Ext(name), ".")})
	}
	return m
}

const withoutKeys = "firmware: {bootloader: {efi: {secureBoot: false}}}"

// TestRecordedFirmware: a guest keeps the firmware build of its first boot on each host that has it, and the record says when it gets another one.
func TestRecordedFirmware(t *testing.T) {
	t.Parallel()
	var frozen *record.Record
	changes := func(after record.Record) (texts string) {
		for _, change := range record.Compare(*frozen, after) {
			texts += change.Text + ", " + string(change.Verdict)
		}
		return texts
	}
	m := withEFI(t, withoutKeys)
	for _, boot := range []struct {
		why    string
		on     func(Machine) Machine
		build  string // with the format
		change string
	}{
		{"the first boot takes what the host prefers", func(m Machine) Machine { return withBuilds(m, "old.raw", "new.raw") }, "old.raw", ""},
		{"a host that prefers another build", func(m Machine) Machine { return withBuilds(m, "new.raw", "old.raw") }, "old.raw", ""},
		{"a host without the build", func(m Machine) Machine { return withBuilds(m, "new.qcow2") }, "new.qcow2",
			"the firmware build changes from 'old.raw' to 'new.qcow2', " + string(record.Breaks)},
		{"raw is preferred, and the record counts", func(m Machine) Machine { return withBuilds(m, "old.raw", "new.qcow2") }, "new.qcow2", ""},
		{"the existing variables count more than the record", func(m Machine) Machine {
			m.Bindings.NVRAMFormat = "raw"
			return withBuilds(m, "new.qcow2", "old.raw")
		}, "old.raw", "the firmware build changes from 'new.qcow2' to 'old.raw', " + string(record.Breaks)},
	} {
		here := boot.on(m)
		here.Frozen = frozen
		out, errs := Domain(here)
		if len(errs) > 0 {
			t.Fatalf("%s: %v", boot.why, errs.ToAggregate())
		}
		if loader := out.Documents.Domain.OS.Loader; loader.Path != "/fw/"+boot.build || out.Record.Firmware != boot.build {
			t.Errorf("%s: the loader is '%s' and the record has '%s', want '%s'", boot.why, loader.Path, out.Record.Firmware, boot.build)
		}
		if out.Record.SchemaVersion != 2 {
			t.Errorf("%s: schemaVersion %d", boot.why, out.Record.SchemaVersion)
		}
		if frozen != nil {
			if text := changes(out.Record); text != boot.change {
				t.Errorf("%s: the changes are '%s', want '%s'", boot.why, text, boot.change)
			}
			if frozen.Digest != out.Record.Digest {
				t.Errorf("%s: the digest of the hardware depends on the file name", boot.why)
			}
		}
		frozen = &out.Record
	}
	assumed := m
	assumed.Host, assumed.Frozen = backend.Assumed("amd64"), frozen
	if out, errs := Domain(assumed); len(errs) > 0 || out.Record.Firmware != frozen.Firmware {
		t.Errorf("an assumed host changes the record to '%s': %v", out.Record.Firmware, errs.ToAggregate())
	}
	assumed.Frozen = nil
	if out, errs := Domain(assumed); len(errs) > 0 || out.Record.Firmware != "" {
		t.Errorf("the files of an assumed host are recorded: '%s', %v", out.Record.Firmware, errs.ToAggregate())
	}
}

// TestCapturedFirmware: a captured guest keeps the build that it runs with, wherever its file is. A name that later boots would refuse is not recorded.
func TestCapturedFirmware(t *testing.T) {
	t.Parallel()
	m := withBuilds(withEFI(t, withoutKeys), "old.raw")
	out, errs := Domain(m)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	m.Host = backend.Assumed("amd64")
	for file, want := range map[string]string{"/fw/old.raw": "old.raw", "/fw/a b": "", "/fw/..": ""} {
		running, err := copyDomain(out.Documents.Domain)
		if err != nil {
			t.Fatal(err)
		}
		running.OS.Loader.Path = file
		captured, errs := Capture(m, running)
		if len(errs) > 0 || captured.Firmware != want || record.Check(&captured) != nil {
			t.Errorf("'%s': captured '%s', want '%s': %v, %v", file, captured.Firmware, want, errs.ToAggregate(), record.Check(&captured))
		}
		if want != "" && captured.SchemaVersion != 2 {
			t.Errorf("'%s': schemaVersion %d", file, captured.SchemaVersion)
		}
	}
}

// TestFirmwareOfOtherGuests: a guest without EFI has none, which is not the same as a guest whose firmware no boot has recorded.
func TestFirmwareOfOtherGuests(t *testing.T) {
	t.Parallel()
	bios, errs := Domain(withEFI(t, "firmware: {}"))
	if len(errs) > 0 || bios.Record.Firmware != record.NoFirmware || bios.Record.SchemaVersion != 4 {
		t.Fatalf("%v: '%s'", errs.ToAggregate(), bios.Record.Firmware)
	}
	efi := withEFI(t, withoutKeys)
	efi.Frozen = &bios.Record
	changed, errs := Domain(efi)
	if len(errs) > 0 || changed.Record.Firmware != "OVMF_CODE_4M.fd" {
		t.Fatalf("%v: '%s'", errs.ToAggregate(), changed.Record.Firmware)
	}
	if changes := record.Compare(bios.Record, changed.Record); len(changes) != 2 || changes[0].Part != record.PartFirmware ||
		changes[1].Part != record.PartSMBIOS {
		t.Errorf("the firmware is another one, and writes its own strings: %v", changes)
	}
	earlier := bios.Record
	earlier.Firmware, earlier.BIOS = "", nil
	if changes := record.Compare(earlier, changed.Record); len(changes) > 0 {
		t.Errorf("a record of an earlier version has no firmware to compare: %v", changes)
	}
}

// TestReportedFirmware: the build that is reported first is the build that stage 3 chooses by itself, for each class of firmware.
func TestReportedFirmware(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, spec := range []string{
		withoutKeys,
		"firmware: {bootloader: {efi: {}}}, features: {smm: {}}",
		"launchSecurity: {sev: {}}, " + withoutKeys,
		"launchSecurity: {sev: {policy: {encryptedState: true}}}, " + withoutKeys,
		"launchSecurity: {snp: {}}, " + withoutKeys,
		"launchSecurity: {tdx: {}}, " + withoutKeys,
		"machine: {type: pc-q35-7.2}, " + withoutKeys,
	} {
		m := withEFI(t, spec)
		for _, qcow2 := range []bool{false, true} {
			m.Host.Firmware = backend.Assumed("amd64").Firmware
			if qcow2 && !strings.Contains(spec, "snp") && !strings.Contains(spec, "tdx") {
				for _, build := range m.Host.Firmware {
					build.Code, build.Format = build.Code+".qcow2", "qcow2"
					m.Host.Firmware = append([]backend.Firmware{build}, m.Host.Firmware...)
				}
				m.Bindings.NVRAMFormat = "qcow2"
			}
			reported := backend.FirmwareBuilds(m.VMI, m.Host, m.Bindings)
			unnamed := m
			unnamed.Host.NodeName = ""
			out, errs := Domain(unnamed)
			if len(errs) > 0 || len(reported) == 0 {
				t.Errorf("%s: %v, %q", spec, errs.ToAggregate(), reported)
				continue
			}
			if chosen := path.Base(out.Documents.Domain.OS.Loader.Path); reported[0] != chosen {
				t.Errorf("%s: %q is reported, stage 3 chooses '%s'", spec, reported, chosen)
			}
			seen[reported[0]] = true
		}
	}
	if len(seen) < 6 {
		t.Errorf("few builds are compared: %v", seen)
	}
	if reported := backend.FirmwareBuilds(withEFI(t, "firmware: {}").VMI, withEFI(t, withoutKeys).Host, backend.Bindings{}); reported != nil {
		t.Errorf("a guest without EFI has %q", reported)
	}
}
