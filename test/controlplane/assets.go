package main

import (
	"context"
	"debug/buildinfo"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// asset is one binary in envtest's layout: its file name and the package it is built from.
type asset struct{ name, pkg string }

var assets = []asset{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
}

const kubernetes = "k8s.io/kubernetes"

// goMod is the only place that states which versions are wanted.
//
//go:embed go.mod
var goMod []byte

// wantedVersions gives the version of every module this one requires, by module path.
func wantedVersions() (map[string]string, error) {
	file, err := modfile.ParseLax("go.mod", goMod, nil)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]string, len(file.Require))
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions, nil
}

// findOrBuild gives the directory of the binaries. KUBEBUILDER_ASSETS is the user's choice: it is
// checked for completeness and never written to, and its versions are the user's business.
func findOrBuild(ctx context.Context, bin string) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" && bin == "" {
		return dir, checkComplete(dir)
	}
	root, err := repositoryRoot()
	if err != nil && bin == "" {
		return "", err
	}
	if bin == "" {
		bin = filepath.Join(root, "bin", "k8s")
	}
	bin, err = filepath.Abs(bin)
	if err != nil {
		return "", err
	}
	want, err := wantedVersions()
	if err != nil {
		return "", err
	}
	if len(outdated(bin, want)) == 0 {
		return bin, nil
	}
	if root == "" {
		return "", fmt.Errorf("'%s' lacks current binaries, and there is no checkout of kiln here to build them from", bin)
	}
	return bin, build(ctx, filepath.Join(root, "test", "controlplane"), bin)
}

func checkComplete(dir string) error {
	var missing []string
	for _, a := range assets {
		info, err := os.Stat(filepath.Join(dir, a.name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			missing = append(missing, a.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("KUBEBUILDER_ASSETS is '%s', which has no executable %s; "+
		"add what is missing (envtest's own archives never hold kube-controller-manager), "+
		"or unset KUBEBUILDER_ASSETS so that all are built into bin/k8s",
		dir, strings.Join(missing, ", "))
}

// outdated lists the binaries that are missing from dir or were built from another version. It
// reads what the Go linker recorded instead of running them: four of them would take a second.
func outdated(dir string, want map[string]string) []asset {
	var out []asset
	for _, a := range assets {
		info, err := buildinfo.ReadFile(filepath.Join(dir, a.name))
		if err != nil || info.Path != a.pkg || info.Main.Version != want[info.Main.Path] || !stamped(info, want) {
			out = append(out, a)
		}
	}
	return out
}

// stamped reports whether a Kubernetes binary knows its own version. Built without the linker flag
// it calls itself v0.0.0-master, and clients that compare versions warn about it.
func stamped(info *buildinfo.BuildInfo, want map[string]string) bool {
	if info.Main.Path != kubernetes {
		return true
	}
	for _, s := range info.Settings {
		if s.Key == "-ldflags" {
			return strings.Contains(s.Value, versionFlag(want))
		}
	}
	return false
}

func versionFlag(want map[string]string) string {
	return "-X k8s.io/component-base/version.gitVersion=" + want[kubernetes]
}

// repositoryRoot is the nearest directory at or above the working directory that holds this module.
func repositoryRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("'" + wd + "' is not inside a checkout of kiln; go there, or give --bin or KUBEBUILDER_ASSETS")
		}
	}
}
