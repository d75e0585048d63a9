// Command older builds the control plane of another version of Kubernetes: go run ./older -o DIR VERSION, such as v1.34.4. Tests run against it with
// KUBEBUILDER_ASSETS=DIR. etcd has the version of go.mod.
//
// Other modules cannot require k8s.io/kubernetes as it is: its go.mod replaces k8s.io/api and its siblings by folders of its own repository, and Go ignores
// the replacements of a dependency. So this command writes a module with the same replacements, by the versions under which these folders are published.
package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const kubernetes = "k8s.io/kubernetes"

func main() {
	dir := flag.String("o", "", "folder of the programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := errors.New("usage: older -o DIR VERSION")
	if *dir != "" && flag.NArg() == 1 && semver.IsValid(flag.Arg(0)) {
		err = build(ctx, *dir, flag.Arg(0))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "older:", err)
		os.Exit(1)
	}
}

// build builds what the folder lacks.
func build(ctx context.Context, dir, version string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	module := filepath.Join(dir, "module")
	if err := errors.Join(os.MkdirAll(module, 0o755), write(ctx, module, version)); err != nil {
		return err
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kubectl"} {
		target := filepath.Join(dir, name)
		if info, err := buildinfo.ReadFile(target); err == nil && info.Main.Version == version {
			continue
		}
		fmt.Fprintf(os.Stderr, "older: building %s %s; all three take about 8 minutes on 2 cores, cold\n", name, version)
		stamp := "-s -w -X k8s.io/component-base/version.gitVersion=" + version
		if err := run(ctx, module, "build", "-mod=mod", "-o", target, "-ldflags", stamp, kubernetes+"/cmd/"+name); err != nil {
			return err
		}
	}
	return run(ctx, ".", "build", "-o", filepath.Join(dir, "etcd"), "go.etcd.io/etcd/server/v3")
}

// write writes go.mod of a module that requires this version of Kubernetes.
func write(ctx context.Context, module, version string) error {
	file := &modfile.File{}
	if err := file.AddModuleStmt("kiln.test/kubernetes"); err != nil {
		return err
	}
	path := filepath.Join(module, "go.mod")
	if text, err := file.Format(); err != nil {
		return err
	} else if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	theirs, err := published(ctx, module, version)
	if err != nil {
		return err
	}
	if theirs.Go != nil {
		err = file.AddGoStmt(theirs.Go.Version)
	}
	err = errors.Join(err, file.AddRequire(kubernetes, version))
	for _, replace := range theirs.Replace {
		if strings.HasPrefix(replace.New.Path, "./staging/") {
			err = errors.Join(err, file.AddReplace(replace.Old.Path, "", replace.Old.Path, "v0"+strings.TrimPrefix(version, "v1")))
		}
	}
	text, formatted := file.Format()
	return errors.Join(err, formatted, os.WriteFile(path, text, 0o600))
}

// published returns go.mod of Kubernetes.
func published(ctx context.Context, module, version string) (*modfile.File, error) {
	cmd := command(ctx, module, "mod", "download", "-json", kubernetes+"@"+version)
	out, err := cmd.Output()
	var found struct{ GoMod, Error string }
	if json.Unmarshal(out, &found) != nil || found.GoMod == "" {
		return nil, fmt.Errorf("no module %s@%s: %s %w", kubernetes, version, found.Error, err)
	}
	text, err := os.ReadFile(found.GoMod)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(found.GoMod, text, nil)
}

func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	// A go.work above this checkout or flags meant for the caller's own build must not decide what is built here.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	return cmd
}

func run(ctx context.Context, dir string, args ...string) error {
	if err := command(ctx, dir, args...).Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
