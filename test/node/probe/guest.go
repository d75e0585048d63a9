package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// reportGuest says what a launcher finds in its pod: each device with owner, group, mode and whether it can be opened, and which namespaces it may make.
func reportGuest(devices []string) error {
	for _, device := range devices {
		info, err := os.Stat(device)
		if err != nil {
			return err
		}
		of := info.Sys().(*syscall.Stat_t)
		file, err := os.OpenFile(device, os.O_RDWR, 0)
		if err == nil {
			err = file.Close()
		}
		fmt.Printf("%s %d:%d %04o %s\n", device, of.Uid, of.Gid, info.Mode().Perm(), outcomeOf(err))
	}
	// As passt: a user namespace with the others, except the network namespace.
	const others = unix.CLONE_NEWUSER | unix.CLONE_NEWIPC | unix.CLONE_NEWNS | unix.CLONE_NEWUTS
	fmt.Println("isolated as passt:", outcomeOf(isolateWithin(&syscall.SysProcAttr{Unshareflags: others})))
	fmt.Println("unshare with a network:", outcomeOf(isolateWithin(&syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET})))
	fmt.Println("clone with a network:", outcomeOf(isolateWithin(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET})))
	return nil
}

func outcomeOf(err error) string {
	var number syscall.Errno
	switch {
	case err == nil:
		return "yes"
	case errors.As(err, &number):
		return number.Error()
	}
	return err.Error()
}

// isolateWithin runs isolate in new namespaces, as their root: otherwise its capabilities there would end with the exec.
func isolateWithin(attributes *syscall.SysProcAttr) error {
	attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	cmd := exec.Command("/proc/self/exe", "isolate")
	cmd.SysProcAttr, cmd.Stderr = attributes, os.Stdout
	return cmd.Run()
}

// isolate takes the steps of isolation.c of passt: an empty root file system, and a PID namespace for children.
func isolate() error {
	runtime.LockOSThread()
	const dir = "/tmp"
	steps := []struct {
		what string
		take func() error
	}{
		{"mount /", func() error { return unix.Mount("", "/", "", unix.MS_UNBINDABLE|unix.MS_REC, "") }},
		{"mount tmpfs", func() error {
			return unix.Mount("", dir, "tmpfs", unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_RDONLY, "nr_inodes=2,nr_blocks=0")
		}},
		{"chdir", func() error { return unix.Chdir(dir) }},
		{"pivot_root", func() error { return unix.PivotRoot(".", ".") }},
		{"umount2", func() error { return unix.Unmount(".", unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }},
		{"unshare", func() error { return unix.Unshare(unix.CLONE_NEWPID) }},
	}
	for _, step := range steps {
		if err := step.take(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	if _, err := os.Stat("/proc"); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the root is not empty: %v", err)
	}
	return nil
}
