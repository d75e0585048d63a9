package cgroup2

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kilnvm/kiln/test/node"
)

//go:embed containerd.toml
var containerdText string

var containerdTemplate = template.Must(template.New("containerd.toml").Parse(containerdText))

// diskSize is the size of the machine's disk. The file has holes.
const diskSize = 16 << 30

// makeDisk writes the disk of a machine: the node's files, and containerd's folder with images. Importing them in an emulated machine would take minutes.
func (m *machine) makeDisk(ctx context.Context, archives []string) (err error) {
	tree := filepath.Join(m.dir, "tree")
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	if err := os.MkdirAll(filepath.Join(tree, "store"), 0o711); err != nil {
		return err
	}
	settings := fmt.Sprintf("DIR='%s'\nSTORE='%s'\n", m.node.Dir, m.node.Store)
	err = errors.Join(os.WriteFile(filepath.Join(tree, "settings"), []byte(settings), 0o600),
		os.WriteFile(filepath.Join(tree, "spec.json"), append(m.node.Spec, '\n'), 0o600),
		run(ctx, "cp", "-a", m.node.Dir, filepath.Join(tree, "node")))
	if err != nil {
		return err
	}
	if err := m.importImages(ctx, filepath.Join(tree, "store"), append([]string{m.node.Sandbox}, archives...)); err != nil {
		return fmt.Errorf("images of the machine: %w", err)
	}
	file, err := os.Create(m.disk())
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(diskSize), file.Close()); err != nil {
		return err
	}
	return run(ctx, "mke2fs", "-q", "-F", "-t", "ext4", "-d", tree, m.disk())
}

func (m *machine) disk() string { return filepath.Join(m.dir, "disk") }

// importImages imports images into a folder of containerd's, in a mount namespace of its own.
func (m *machine) importImages(ctx context.Context, root string, archives []string) (err error) {
	socket := filepath.Join(m.dir, "containerd.sock")
	config, err := os.Create(filepath.Join(m.dir, "containerd.toml"))
	if err != nil {
		return err
	}
	values := map[string]string{"Root": root, "State": filepath.Join(m.dir, "containerd"), "Socket": socket}
	if err := errors.Join(containerdTemplate.Execute(config, values), config.Close()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(m.node.Ctr), "containerd"), "--config", config.Name())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	var log strings.Builder
	cmd.Stderr = &log
	started := startAndWait(cmd)
	if err := started.failed; err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if <-started.ended; err != nil {
			err = fmt.Errorf("%w\n%s", err, log.String())
		}
	}()
	for _, err := os.Stat(socket); err != nil; _, err = os.Stat(socket) {
		select {
		case <-started.ended:
			return errors.New("containerd has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	store := &node.Node{Ctr: m.node.Ctr, Containerd: socket}
	for _, file := range archives {
		if err := store.ImportImage(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program to its end. What it says becomes the error.
func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
