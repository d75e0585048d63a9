package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packages are Debian's, unpacked and not installed, so that the machine stays as it is: each with the file that shows that it is there.
var packages = map[string]string{
	"runc":                        "usr/sbin/runc",
	"containernetworking-plugins": "usr/lib/cni/bridge",
}

// installed is where other distributions, and people, put what a package has.
var installed = map[string][]string{
	"runc":                        {"/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc", "/usr/local/bin/runc"},
	"containernetworking-plugins": {"/usr/lib/cni/bridge", "/opt/cni/bin/bridge", "/usr/libexec/cni/bridge"},
}

// findFile gives the file of a package: unpacked below dir if it can be, else the machine's own.
func findFile(ctx context.Context, dir, name string) (string, error) {
	err := unpackPackage(ctx, dir, name)
	if err == nil {
		return filepath.Join(dir, name, packages[name]), nil
	}
	for _, file := range installed[name] {
		if _, missing := os.Stat(file); missing == nil {
			printProgress("taking %s: %v", file, err)
			return file, nil
		}
	}
	return "", err
}

// unpackPackage sees to it that the files of a package lie below dir. An interrupted run leaves none in its place.
func unpackPackage(ctx context.Context, dir, name string) (err error) {
	target := filepath.Join(dir, name)
	if _, err := os.Stat(filepath.Join(target, packages[name])); err == nil {
		return nil
	}
	printProgress("unpacking Debian's package %s into %s", name, target)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err = fetchPackage(ctx, work, name); err != nil {
		// Lists of packages may be absent, or name a version that is gone.
		if err = runProgram(ctx, work, "apt-get", "update", "-qq"); err == nil {
			err = fetchPackage(ctx, work, name)
		}
	}
	if err != nil {
		return fmt.Errorf("unpacking Debian's package '%s': %w", name, err)
	}
	if err := os.Rename(filepath.Join(work, "files"), target); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil // another process was faster
}

func fetchPackage(ctx context.Context, work, name string) error {
	if err := runProgram(ctx, work, "apt-get", "download", "-qq", name); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("apt-get download left %d archives: %w", len(archives), err)
	}
	return runProgram(ctx, work, "dpkg-deb", "-x", archives[0], filepath.Join(work, "files"))
}

// runProgram runs a program to its end; what it says becomes the error.
func runProgram(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
