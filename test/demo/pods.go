package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/installation"
	"github.com/kilnvm/kiln/test/node"
)

// pods is the runtime of pods: a Kubernetes node on this machine, in which Kiln is installed from images of this tree.
type pods struct {
	*node.Node
	root, dir string
}

func newPods(ctx context.Context, root, dir string) (place, error) {
	fmt.Println("building kubectl-kiln, and what a node runs unless it is there")
	if err := cluster.Build(ctx, root, filepath.Join(dir, "bin"), "kubectl-kiln"); err != nil { // installation builds the others into images
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "-C", "test/controlplane", "run", ".", "node", "build")
	build.Dir, build.Stdout, build.Stderr = root, os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building the node: %w", err)
	}
	fmt.Println("starting a Kubernetes node: etcd, API server, scheduler, controllers, kubelet, containerd")
	n, err := node.Run(ctx, node.Options{})
	if err != nil {
		return nil, err
	}
	return &pods{Node: n, root: root, dir: dir}, nil
}

func (p *pods) access() (kubeconfig, programs string) { return p.Kubeconfig(), p.Programs }

// provide installs Kiln, and builds the image that the example boots.
func (p *pods) provide(ctx context.Context) error {
	kernel, initrd, err := guest.Build(p.dir)
	if err != nil {
		return err
	}
	installed := installation.Installation{Root: p.root, Dir: p.dir,
		Images: map[string]map[string]string{image: {"boot/vmlinuz": kernel, "boot/initrd": initrd}}}
	return installed.Install(ctx, p.Node)
}

// report reads the guest's serial console, which is the log of its pod.
func (p *pods) report(ctx context.Context, _ string) (guest.Report, error) {
	for {
		log, err := p.Kubectl(ctx, "--namespace", namespace, "logs", "guest-demo")
		if reports, parsed := guest.ParseReports(strings.NewReader(guest.Console(log))); err == nil && parsed == nil && len(reports) > 0 {
			return reports[0], nil
		}
		select {
		case <-ctx.Done():
			return guest.Report{}, fmt.Errorf("the guest does not report its hardware: %w; its console:\n%s", ctx.Err(), log)
		case <-time.After(time.Second):
		}
	}
}

func (p *pods) state(ctx context.Context) (string, error) {
	out, err := p.Kubectl(ctx, "--namespace", namespace, "get", "guestpod", "demo", "-o", "jsonpath={.status.domain.state}")
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	node, err := p.Kubectl(ctx, "--namespace", namespace, "get", "pod", "guest-demo", "-o", "jsonpath={.spec.nodeName}")
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, node)
	}
	return fmt.Sprintf("the launcher in pod 'guest-demo' on node '%s' says that the domain is: %s", node, strings.ToLower(out)), nil
}

func (p *pods) hint() string { return "kubectl get pods; kubectl logs guest-demo" }

func (p *pods) logs() string { return installation.Logs(context.Background(), p.Node) }

func (p *pods) close() error { return p.Close() }

// choosePlace returns the place of the runtime that RUNTIME names: pods where this machine can have a node, else the machine itself. With WEBHOOK_HOST, VMIs
// of a cluster of the user's run on this machine, too.
func choosePlace(ctx context.Context, root, dir string) (place, error) {
	runtime, kubeconfig, incapable := os.Getenv("RUNTIME"), os.Getenv("KUBECONFIG"), node.Incapable()
	switch {
	case runtime != "" && runtime != "pod" && runtime != "node":
		return nil, fmt.Errorf("RUNTIME: '%s' must be pod or node", runtime)
	case runtime == "pod" && kubeconfig != "":
		return nil, errors.New("RUNTIME=pod starts a node of its own: unset KUBECONFIG; docs/how-to/install.md installs Kiln in your cluster")
	case runtime == "pod" && incapable != nil:
		return nil, fmt.Errorf("RUNTIME=pod: this machine cannot run a Kubernetes node: %w", incapable)
	case runtime == "node" || kubeconfig != "":
		fmt.Println("runtime: node (VMIs run on this machine)")
	case incapable != nil:
		fmt.Printf("runtime: node (VMIs run on this machine, which cannot run a Kubernetes node: %v)\n", incapable)
	default:
		fmt.Println("runtime: pod (VMIs are pods of a Kubernetes node on this machine; RUNTIME=node runs them without one)")
		return newPods(ctx, root, dir)
	}
	return newMachine(ctx, root, dir, kubeconfig)
}
