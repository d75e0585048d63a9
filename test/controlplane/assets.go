package main

import (
	"context"
	"debug/buildinfo"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// asset is one binary: its file name and the package it is built from.
type asset struct{ name, pkg string }

// kit is a set of binaries that are built from the requirements of one module and lie in one directory.
type kit struct {
	// folder below bin.
	folder string
	// module below test/controlplane. Its go.mod is the only place that states which versions are wanted.
	module string
	assets []asset
	// flags of 'go build' and env, besides the flags and variables of every kit.
	flags, env []string
	// what and takes are printed before the build: what is built, and the time that it takes on 2 cores with an empty cache.
	what, takes string
}

const kubernetes = "k8s.io/kubernetes"

// plane is a control plane, in envtest's layout.
var plane = kit{folder: "k8s", module: ".", what: "etcd and Kubernetes", takes: "8 minutes", assets: []asset{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
}}

// nodes is a control plane, and what its nodes run of Kubernetes.
var nodes = kit{folder: plane.folder, module: plane.module, what: plane.what, takes: "12 minutes", assets: slices.Concat(plane.assets, []asset{
	{"kubelet", "k8s.io/kubernetes/cmd/kubelet"},
	{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
	{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"},
})}

// containers is containerd without the snapshotters of other file systems, which need C libraries. It has its own module, because in one module containerd
// and Kubernetes would both be built with the newer version of each requirement.
var containers = kit{folder: "node", module: "containerd", what: "containerd", takes: "4 minutes", assets: []asset{
	{"containerd", "github.com/containerd/containerd/v2/cmd/containerd"},
	{"containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
	{"ctr", "github.com/containerd/containerd/v2/cmd/ctr"},
}, flags: []string{"-trimpath", "-tags", "no_btrfs,no_zfs,no_devmapper"}, env: []string{"CGO_ENABLED=0"}}

// goMod serves where there is no checkout.
//
//go:embed go.mod
var goMod []byte

// wantedVersions gives the version of every module that the kit's module requires, by module path.
func (k kit) wantedVersions(root string) (map[string]string, error) {
	data := goMod
	if k.module != "." {
		var err error
		if data, err = os.ReadFile(filepath.Join(k.sourceDir(root), "go.mod")); err != nil {
			return nil, err
		}
	}
	file, err := modfile.ParseLax("go.mod", data, nil)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]string, len(file.Require))
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions, nil
}

// sourceDir returns the directory of the kit's module.
func (k kit) sourceDir(root string) string {
	return filepath.Join(root, "test", "controlplane", k.module)
}

// findOrBuild gives the directory of the binaries. KUBEBUILDER_ASSETS is the user's choice: it is
// checked for completeness and never written to, and its versions are the user's business. The other kits lie beside it.
func (k kit) findOrBuild(ctx context.Context, bin string) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" && bin == "" {
		dir = filepath.Join(filepath.Dir(filepath.Clean(dir)), k.folder)
		if k.folder == plane.folder {
			dir = os.Getenv("KUBEBUILDER_ASSETS")
		}
		return dir, k.checkComplete(dir)
	}
	root, err := repositoryRoot()
	if err != nil && bin == "" {
		return "", err
	}
	if bin == "" {
		bin = filepath.Join(root, "bin", k.folder)
	}
	bin, err = filepath.Abs(bin)
	if err != nil {
		return "", err
	}
	want, err := k.wantedVersions(root)
	if err != nil {
		return "", err
	}
	if len(k.outdatedAssets(bin, want)) == 0 {
		return bin, nil
	}
	if root == "" {
		return "", fmt.Errorf("'%s' lacks current binaries, and there is no checkout of kiln here to build them from", bin)
	}
	return bin, k.buildAssets(ctx, k.sourceDir(root), bin, want)
}

func (k kit) checkComplete(dir string) error {
	var missing []string
	for _, a := range k.assets {
		info, err := os.Stat(filepath.Join(dir, a.name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			missing = append(missing, a.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("KUBEBUILDER_ASSETS is '%s'; '%s' has no executable %s; "+
		"add what is missing (envtest's own archives hold neither kube-controller-manager nor what nodes run), "+
		"or unset KUBEBUILDER_ASSETS so that all are built into bin/",
		os.Getenv("KUBEBUILDER_ASSETS"), dir, strings.Join(missing, ", "))
}

// outdatedAssets lists the binaries that are missing from dir or were built from another version. It
// reads what the Go linker recorded instead of running them: four of them would take a second.
func (k kit) outdatedAssets(dir string, want map[string]string) []asset {
	var out []asset
	for _, a := range k.assets {
		info, err := buildinfo.ReadFile(filepath.Join(dir, a.name))
		if err != nil || info.Path != a.pkg || info.Main.Version != want[info.Main.Path] || !hasVersion(info, want) {
			out = append(out, a)
		}
	}
	return out
}

// hasVersion reports whether a Kubernetes binary knows its own version. Built without the linker flag
// it calls itself v0.0.0-master, and clients that compare versions warn about it.
func hasVersion(info *buildinfo.BuildInfo, want map[string]string) bool {
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

// repositoryRoot returns the nearest directory at or above the working directory that holds this module.
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
