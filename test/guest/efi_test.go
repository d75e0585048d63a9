package guest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/test/nightly"
)

// TestSecureBoot: the disk boots by EFI firmware that has SMM, with Microsoft's keys and without keys. The report says that it was EFI, and whether Secure Boot
// is enforced. Debian's firmware of 2 MiB with SMM (OVMF_CODE.secboot.fd) writes nothing under TCG.
func TestSecureBoot(t *testing.T) {
	nightly.Only(t) // tests of guests in pods boot from this disk, too
	const firmware = "/usr/share/OVMF/"
	if _, err := os.Stat(firmware + "OVMF_VARS_4M.ms.fd"); err != nil {
		t.Skipf("SKIPPED, NO FIRMWARE: install package 'ovmf': %v", err)
	}
	disk, err := BuildDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for variables, secure := range map[string]bool{"OVMF_VARS_4M.fd": false, "OVMF_VARS_4M.ms.fd": true} {
		t.Run(variables, func(t *testing.T) {
			content, err := os.ReadFile(firmware + variables)
			if err != nil {
				t.Fatal(err)
			}
			own, serial := filepath.Join(t.TempDir(), "vars.fd"), filepath.Join(t.TempDir(), "serial")
			if err := os.WriteFile(own, content, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), BootTimeout)
			defer cancel()
			qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-display", "none", "-machine", "q35,smm=on", "-m", "512",
				"-global", "driver=cfi.pflash01,property=secure,value=on", "-serial", "file:"+serial,
				"-drive", "if=pflash,format=raw,readonly=on,file="+firmware+"OVMF_CODE_4M.secboot.fd", "-drive", "if=pflash,format=raw,file="+own,
				"-drive", "if=none,id=root,format=raw,snapshot=on,file="+disk, "-device", "virtio-blk-pci,drive=root,bootindex=1")
			if err := qemu.Start(); err != nil {
				t.Fatal(err)
			}
			report, err := WaitReport(ctx, serial, 1)
			_ = qemu.Process.Kill() // fails if it has ended
			_ = qemu.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if report.Firmware != "efi" || report.SecureBoot != secure {
				t.Errorf("the guest has booted by '%s', with Secure Boot: %v", report.Firmware, report.SecureBoot)
			}
		})
	}
}
