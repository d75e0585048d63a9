package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// buildAssets makes the binaries that dir lacks. Two builds at once share the work through a lock, and a
// binary appears under its name only when it is whole, so that an interrupted build can go on later.
func (k kit) buildAssets(ctx context.Context, module, dir string, want map[string]string) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("building %s needs the go command, which is not in PATH: %w", k.what, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close() // gives the lock back; the file stays, or two builds could lock different ones
	if err := waitForLock(ctx, lock); err != nil {
		return err
	}
	todo := k.outdatedAssets(dir, want)
	if len(todo) == 0 {
		return nil // somebody else built them while we waited
	}
	printProgress("building %s from the Go modules of %s into %s, once; cold this takes about %s on 2 cores", k.what, module, dir, k.takes)
	ldflags := "-s -w"
	if want[kubernetes] != "" {
		ldflags += " " + versionFlag(want)
	}
	flags := append([]string{"-ldflags", ldflags}, k.flags...)
	for i, a := range todo {
		started := time.Now()
		printProgress("(%d/%d) %s ...", i+1, len(todo), a.name)
		if err := k.buildOne(ctx, module, filepath.Join(dir, a.name), append(slices.Clone(flags), a.pkg)); err != nil {
			return fmt.Errorf("building %s: %w", a.name, err)
		}
		printProgress("(%d/%d) %s built in %s", i+1, len(todo), a.name, time.Since(started).Round(time.Second))
	}
	return nil
}

func waitForLock(ctx context.Context, lock *os.File) error {
	for reported := false; ; reported = true {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK {
			return err
		}
		if !reported {
			printProgress("another build is running; waiting for it")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// buildOne builds beside the target and renames. The name of the half-built file is fixed: the
// lock guards it, and the next build overwrites what an interrupted one left.
func (k kit) buildOne(ctx context.Context, module, target string, what []string) error {
	partial := filepath.Join(filepath.Dir(target), ".partial")
	defer os.Remove(partial)
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-C", module, "-o", partial}, what...)...)
	// A go.work above this checkout or flags meant for the caller's own build must not decide what is built here.
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS="), k.env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Run(); err != nil {
		return err
	}
	return os.Rename(partial, target)
}
