package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// sources are folders of the repository whose programs tests start.
type sources struct {
	// root of the repository.
	root string
	// module is the folder of the module, below root.
	module string
	// folders of the programs in the module, as 'go build' takes them. They name the programs.
	folders []string
	// flags are more arguments of 'go build'.
	flags []string
}

// Build builds programs of cmd into a folder of the caller's, which may be removed while others run them.
func Build(ctx context.Context, root, dir string, names ...string) error {
	s := sources{root: root}
	for _, name := range names {
		s.folders = append(s.folders, "./cmd/"+name)
	}
	return s.build(ctx, dir)
}

// Virtctl builds virtctl v1.9.0 for a test, and returns its path.
func Virtctl(t testing.TB, root string) string {
	t.Helper()
	return ofKubeVirt(t, root, "kubevirt.io/kubevirt/cmd/virtctl", "-ldflags", "-s -w -X kubevirt.io/client-go/version.gitVersion=v1.9.0")
}

// Calls builds the program of test/virtctl/calls, which calls subresources by KubeVirt's Go client, and returns its path.
func Calls(t testing.TB, root string) string {
	t.Helper()
	return ofKubeVirt(t, root, "./calls")
}

// ofKubeVirt builds a program of the module that has KubeVirt's dependencies.
func ofKubeVirt(t testing.TB, root, folder string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := (sources{root: root, module: "test/virtctl", folders: []string{folder}, flags: flags}).build(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, filepath.Base(folder))
}

// build links nothing that is up to date in bin/tests, where go finds what the last caller has built: a link takes 2 s of CPU time for each program, and
// a run of all tests asks for five of them fifteen times.
func (s sources) build(ctx context.Context, dir string) error {
	root, err := filepath.Abs(s.root)
	if err != nil {
		return err
	}
	common := filepath.Join(root, "bin", "tests")
	if err := errors.Join(os.MkdirAll(common, 0o755), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(common, ".lock"))
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", common + "/"}, s.flags, s.folders)...)
	cmd.Dir = filepath.Join(s.root, s.module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v in module '%s': %w\n%s", s.folders, s.module, err, out)
	}
	for _, folder := range s.folders {
		name := filepath.Base(filepath.Join(root, s.module, folder))
		if err := hold(filepath.Join(common, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// hold gives a program another name, which keeps it when go replaces it. Another file system gets a copy.
func hold(program, name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Link(program, name); err == nil {
		return nil
	}
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Convert builds the program of test/virtctl/convert, which defines guests as KubeVirt's virt-launcher does, and returns its path.
func Convert(t testing.TB, root string) string {
	t.Helper()
	return ofKubeVirt(t, root, "./convert", "-tags", "kubevirt")
}
