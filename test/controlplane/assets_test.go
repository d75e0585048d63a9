package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestKubebuilderAssets(t *testing.T) {
	complete, without := t.TempDir(), t.TempDir()
	for _, a := range plane.assets {
		for _, dir := range []string{complete, without} {
			if dir == without && (a.name == "kube-controller-manager" || a.name == "kubectl") {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, a.name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", complete)
	if dir, err := plane.findOrBuild(t.Context(), ""); err != nil || dir != complete {
		t.Errorf("a complete directory is taken as it is: got %s, %v", dir, err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", without)
	_, err := plane.findOrBuild(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "no executable kube-controller-manager, kubectl;") {
		t.Errorf("want exactly what is missing, got %v", err)
	}
	if _, err := os.Stat(filepath.Join(without, "kubectl")); err == nil {
		t.Error("something was built into the user's directory")
	}
}

func TestOutdated(t *testing.T) {
	want, err := plane.wantedVersions("")
	if err != nil {
		t.Fatal(err)
	}
	newer := map[string]string{kubernetes: "v1.99.0", "go.etcd.io/etcd/server/v3": want["go.etcd.io/etcd/server/v3"]}
	swapped := linked(t)
	if err := os.Rename(filepath.Join(swapped, "kubectl"), filepath.Join(swapped, "etcd")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, dir string
		versions  map[string]string
		want      []string
	}{
		{"all current", linked(t), want, nil},
		{"nothing there", t.TempDir(), want, []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"}},
		{"another Kubernetes is wanted", linked(t), newer, []string{"kube-apiserver", "kube-controller-manager", "kubectl"}},
		{"one stands under another's name", swapped, want, []string{"etcd", "kubectl"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, a := range plane.outdatedAssets(tt.dir, tt.versions) {
				got = append(got, a.name)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("want %v, got %v", tt.want, got)
			}
		})
	}
}

// linked gives a directory with links to the binaries, to be changed at will.
func linked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, a := range plane.assets {
		if err := os.Symlink(filepath.Join(binaries, a.name), filepath.Join(dir, a.name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Two builds at once do the work once. A third is interrupted, and leaves nothing half-built.
func TestBuild(t *testing.T) {
	dir := linked(t)
	if err := os.Remove(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	out := make([]string, 2)
	for i := range out {
		wg.Go(func() { out[i] = buildInto(t, dir) })
	}
	wg.Wait()
	all := out[0] + out[1]
	if strings.Count(all, "etcd built in") != 1 {
		t.Errorf("want etcd built once, got:\n%s", all)
	}
	if want, _ := plane.wantedVersions(""); len(plane.outdatedAssets(dir, want)) != 0 {
		t.Errorf("not all current after the build:\n%s", all)
	}

	if err := os.Remove(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	cmd := buildCmd(t, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if _, err := os.Stat(filepath.Join(dir, "etcd")); err == nil && cmd.ProcessState.ExitCode() != 0 {
		t.Error("an interrupted build left a binary under its final name")
	}
	if _, err := os.Stat(filepath.Join(dir, ".partial")); err == nil {
		t.Error("an interrupted build left a half-built file")
	}
}

func buildInto(t *testing.T, dir string) string {
	cmd := buildCmd(t, dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("build: %v\n%s", err, out)
	}
	return string(out)
}

func buildCmd(t *testing.T, dir string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "build", "--bin", dir)
	cmd.Env = append(os.Environ(), asCommand+"=1", "KUBEBUILDER_ASSETS=")
	return cmd
}
