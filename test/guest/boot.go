package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Cmdline is the command line of the guest's kernel: no console, since the script writes to the first
// serial port itself; a reboot instead of a hang on a panic, so that QEMU's -no-reboot ends it; no
// self-tests of ciphers, which take a second under TCG; and no test of the timer's interrupt, which an
// emulator without CPU time fails: the kernel panics then, and reboots without an end. The guest reports
// with any other command line too.
const Cmdline = "quiet panic=-1 cryptomgr.notests no_timer_check"

// BootTimeout bounds one boot under TCG in a test. A boot takes ten seconds on idle processors. Beside the other tests of 'make test', on
// processors that other machines share, it has taken more than five minutes.
const BootTimeout = 15 * time.Minute

// WaitReport polls a serial log file, which need not exist yet, until it holds count whole reports
// (one for each boot) and returns the last of these. The error says what the guest wrote instead.
func WaitReport(ctx context.Context, path string, count int) (Report, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		log, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return Report{}, err
		}
		// The last line may be half written; judged now, its count of facts would be wrong.
		reports, err := ParseReports(bytes.NewReader(log[:bytes.LastIndexByte(log, '\n')+1]))
		if err != nil {
			return Report{}, err
		}
		if len(reports) >= count {
			return reports[count-1], nil
		}
		select {
		case <-ctx.Done():
			tail := log[max(0, len(log)-2000):]
			return Report{}, fmt.Errorf("%w after %d of %d: %w; the serial log '%s' ends in:\n%s",
				ErrNoReport, len(reports), count, ctx.Err(), path, tail)
		case <-tick.C:
		}
	}
}

// KVMWorks reports whether a guest boots under KVM here: nil, or why not. A present /dev/kvm is no
// proof: on some nested machines Linux guests hang under it. The probe builds the guest in a
// temporary directory and boots it; without a deadline in ctx it gives up after 20 seconds.
// Tests use TCG unless somebody asks for KVM, since this costs those seconds wherever it fails.
func KVMWorks(ctx context.Context) error {
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		ctx = limited
	}
	dir, err := os.MkdirTemp("", "kiln-kvm-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kernel, initramfs, err := Build(dir)
	if err != nil {
		return err
	}
	_, err = Boot(ctx, kernel, initramfs, "-machine", "q35,accel=kvm", "-cpu", "host", "-m", "256")
	return err
}

// emulator is QEMU's program for guests of this machine's architecture, with its Debian package.
var emulator = map[string][2]string{
	"amd64": {"qemu-system-x86_64", "qemu-system-x86"},
}

// Boot runs the guest directly under QEMU with the given further arguments, returns its first report
// and ends QEMU. It waits as long as ctx allows.
func Boot(ctx context.Context, kernel, initramfs string, args ...string) (Report, error) {
	program, known := emulator[runtime.GOARCH]
	if !known {
		return Report{}, fmt.Errorf("the guest cannot be booted on architecture '%s', only on amd64", runtime.GOARCH)
	}
	if _, err := exec.LookPath(program[0]); err != nil {
		return Report{}, fmt.Errorf("%w: install package '%s'", err, program[1])
	}
	all := append([]string{"-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", kernel, "-initrd", initramfs, "-append", Cmdline}, args...)
	// The parent-death signal is bound to the thread that starts the process, not to the program;
	// it must live until QEMU has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	qemu := exec.CommandContext(ctx, program[0], all...)
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaint bytes.Buffer
	qemu.Stderr = &complaint
	serial, err := qemu.StdoutPipe()
	if err != nil {
		return Report{}, err
	}
	if err := qemu.Start(); err != nil {
		return Report{}, err
	}
	report, err := ParseReport(serial)
	// It is ended from here, so its exit status says nothing; what it printed does.
	_ = qemu.Process.Kill()
	_ = qemu.Wait()
	if err != nil {
		return Report{}, fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), bytes.TrimSpace(complaint.Bytes()))
	}
	return report, nil
}
