package cluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// AddKiln installs Kiln into the cluster of KubeVirt: manifests, webhook and controller. On an error what runs goes on until Close.
func (b *Beside) AddKiln(ctx context.Context) error {
	return b.steps(ctx, []step{
		{"building the manifests", b.kustomize},
		{"installing custom resource definitions, roles and policies", b.install},
		{"choosing ports", b.lay},
		{"registering the webhook for a probe", b.registerProbe},
		{"starting the controller", b.startController},
		{"starting the webhook", b.startWebhook},
		{"probing that the API server reaches the webhook", b.probe},
		{"registering the webhook for all objects", b.register},
	})
}

// AddPlugin adds component beside-kubevirt/plugin to what AddKiln has installed. virt-api refuses its Plugin while KubeVirt's gate is off.
func (b *Beside) AddPlugin(ctx context.Context) error {
	if err := b.overlay(ctx, b.Overlay, "beside-kubevirt/plugin"); err != nil {
		return err
	}
	if err := b.applyAll(ctx, b.of([]string{"Plugin"})); err != nil {
		return err
	}
	return b.apply(ctx, nil)
}

// steps takes all steps.
func (c *Cluster) steps(ctx context.Context, steps []step) error {
	_, err := c.take(ctx, steps)
	return err
}

// kept is the label of what an uninstall leaves, see docs/how-to/install.md.
const kept = "kilnvm.io/uninstall"

// RemoveKiln uninstalls Kiln in the order of docs/how-to/install.md: the webhook configurations, everything without the label kilnvm.io/uninstall=keep, and
// then what has the label, except the definitions of KubeVirt's kinds.
func (b *Beside) RemoveKiln(ctx context.Context) error {
	if err := b.unregister(ctx); err != nil {
		return err
	}
	b.registered = false
	if err := errors.Join(b.StopWebhook(), b.StopControllers()); err != nil {
		return err
	}
	if b.stopMirror != nil {
		b.stopMirror()
		b.stopMirror = nil
	}
	b.replicas, b.controls = nil, nil
	var first, last []*unstructured.Unstructured
	for _, object := range b.manifests {
		if slices.Contains(pods, object.GetKind()) || slices.Contains(configurations, object.GetKind()) {
			continue // never created, or deleted
		}
		if object.GetLabels()[kept] == "" {
			first = append(first, object)
		} else {
			last = append(last, object)
		}
	}
	return errors.Join(b.deleteAll(ctx, first), b.deleteAll(ctx, last))
}

// deleteAll deletes objects, and waits until they are gone. Some may be gone already: with their namespace, or by hand.
func (c *Cluster) deleteAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	all := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, object := range objects {
		all.Items = append(all.Items, *object)
	}
	text, err := all.MarshalJSON()
	if err != nil {
		return err
	}
	_, stderr, err := c.Kubectl(ctx, string(text), "delete", "--ignore-not-found", "--timeout=60s", "-f", "-")
	return withOutput(err, stderr)
}

// StopKiln ends Kiln's webhook and controller. Their registration stays, as when their deployments are down.
func (b *Beside) StopKiln() error { return errors.Join(b.StopWebhook(), b.StopControllers()) }

// StartKiln brings back what StopKiln has ended.
func (b *Beside) StartKiln(ctx context.Context) error {
	return errors.Join(b.StartControllers(ctx), b.StartWebhook(ctx))
}

// StartControllers brings back what StopControllers has ended.
func (c *Cluster) StartControllers(ctx context.Context) (err error) {
	for _, r := range c.controls {
		err = errors.Join(err, c.runControl(ctx, r))
	}
	return err
}

// ControllerLog is the log of the controller that was started last.
func (c *Cluster) ControllerLog() (string, error) {
	text, err := os.ReadFile(c.controls[len(c.controls)-1].process.log)
	return string(text), err
}

// SecondController runs another controller with a value of --guests until it ends by itself, and returns its output.
func (b *Beside) SecondController(ctx context.Context, guests string) (output string, err error) {
	kubeconfig, err := b.access(controllerAccount)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, output, err = b.run(ctx, b.Program("controller"), "", "--kubeconfig", kubeconfig, "--namespace", b.Namespace, "--kubevirt-namespace", b.KubeVirt,
		"--guests", guests, "--runtime=node", "--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=0")
	if ctx.Err() != nil {
		return output, ctx.Err()
	}
	return output, err
}

// link gives a program of the machine a name in the folder of our programs, from which all are started.
func (b *Beside) link(program, name string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	if err := os.Symlink(path, b.Program(name)); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return name, nil
}
