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
	"strings"
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
	// native tells that the programs need a C compiler.
	native bool
}

// Build builds programs of cmd into a folder of the caller's, which may be removed while others run them.
func Build(ctx context.Context, root, dir string, names ...string) error {
	s := sources{root: root}
	for _, name := range names {
		s.folders = append(s.folders, "./cmd/"+name)
	}
	return s.build(ctx, dir)
}

// versioned are the arguments of 'go build' that set the version of KubeVirt's programs to the version of their module.
var versioned = []string{"-ldflags", "-s -w -X kubevirt.io/client-go/version.gitVersion=v1.9.0"}

// kubeVirt are programs of KubeVirt's module, in the version of its go.mod.
func kubeVirt(root string, names ...string) sources {
	s := sources{root: root, module: "test/kubevirt", flags: versioned}
	for _, name := range names {
		s.folders = append(s.folders, "kubevirt.io/kubevirt/cmd/"+name)
	}
	return s
}

// BuildKubeVirt builds programs of KubeVirt v1.9.0 that need no C compiler into a folder of the caller's, such as virt-api.
func BuildKubeVirt(ctx context.Context, root, dir string, names ...string) error {
	return kubeVirt(root, names...).build(ctx, dir)
}

// BuildNative builds programs of KubeVirt v1.9.0 that need a C compiler, such as virt-launcher. They find libvirt's library when they start, so that it is not
// needed on this machine.
func BuildNative(ctx context.Context, root, dir string, names ...string) error {
	s := kubeVirt(root, names...)
	s.module, s.native, s.flags = "test/kubevirt/native", true, append([]string{"-tags", "libvirt_dlopen"}, s.flags...)
	return s.build(ctx, dir)
}

// BuildObjects builds the program of test/kubevirt/objects, which prints what virt-operator installs, into a folder of the caller's.
func BuildObjects(ctx context.Context, root, dir string) error {
	return linkedWithKubeVirt(root, "./objects").build(ctx, dir)
}

// Virtctl builds virtctl v1.9.0 for a test, and returns its path.
func Virtctl(t testing.TB, root string) string {
	t.Helper()
	return kubeVirt(root, "virtctl").only(t)
}

// Calls builds the program of test/kubevirt/calls, which calls subresources by KubeVirt's Go client, and returns its path.
func Calls(t testing.TB, root string) string {
	t.Helper()
	return sources{root: root, module: "test/kubevirt", folders: []string{"./calls"}}.only(t)
}

// Convert builds the program of test/kubevirt/convert, which defines guests as KubeVirt's virt-launcher does, and returns its path.
func Convert(t testing.TB, root string) string {
	t.Helper()
	return linkedWithKubeVirt(root, "./convert").only(t)
}

// linkedWithKubeVirt is a program of test/kubevirt that is linked with packages of KubeVirt's programs. Its tag keeps it from linters and 'go vet', which
// would compile them once more.
func linkedWithKubeVirt(root, folder string) sources {
	return sources{root: root, module: "test/kubevirt", folders: []string{folder}, flags: []string{"-tags", "kubevirt"}}
}

// only builds the only program for a test, and returns its path.
func (s sources) only(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := s.build(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, filepath.Base(s.folders[0]))
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
	// A lock for each module: KubeVirt's programs take minutes where nothing of them is built, and programs of other modules need not wait for them.
	lock, err := os.Create(filepath.Join(common, ".lock"+strings.ReplaceAll(s.module, "/", "-")))
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", common + "/"}, s.flags, s.folders)...)
	cmd.Dir = filepath.Join(s.root, s.module)
	cgo := "CGO_ENABLED=0" // as 'make' builds: images of programs have no C library
	if s.native {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo)
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
