package guest

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init is process 1 of a container. It runs this program with the same arguments as its child, forwards SIGTERM and SIGINT to the child, and reaps every
// process whose parent has ended. libvirt starts QEMU, swtpm and passt as such orphans, and takes a zombie for a QEMU that refuses to die. Init returns the
// exit status of the child. When process 1 ends, the kernel kills all other processes of the container.
func Init() (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// /proc/self/exe, because the file of the program may be replaced or deleted.
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 1, err
	}
	pid := child.Pid
	go func() {
		for s := range signals {
			_ = unix.Kill(pid, s.(syscall.Signal)) //nolint:forcetypeassert // all signals are on this system
		}
	}()
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && ended != pid:
			continue
		case err != nil:
			return 1, err
		case status.Signaled():
			return 128 + int(status.Signal()), nil // as shells do
		}
		return status.ExitStatus(), nil
	}
}
