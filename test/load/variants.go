package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/test/cluster"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// variant is something that is installed in a control plane, or nothing.
type variant struct {
	name string
	// overlay of manifests that is installed; empty for none.
	overlay string
	// noop says that the webhooks that do nothing are registered.
	noop bool
	// annotates says that these webhooks add annotations to each VM.
	annotates bool
	// reports says that a controller writes the status of each VM, and does nothing else.
	reports bool
	// admission says that the controller ends before the creates that count.
	admission bool
}

// peerVariant is what the others are compared with: the least that a pair of webhooks and a controller cost.
const peerVariant = "peer"

// variants are in the order of docs/project/performance.md.
var variants = []variant{
	{name: "bare"},
	{name: "noop", noop: true},
	{name: peerVariant, noop: true, reports: true},
	{name: "annotations", noop: true, annotates: true},
	{name: "admission", overlay: "overlays/rotation", admission: true},
	{name: "kiln", overlay: "overlays/rotation"},
	{name: "fail-open", overlay: "overlays/fail-open"},
}

func variantNames() (all []string) {
	for _, v := range variants {
		all = append(all, v.name)
	}
	return all
}

// chosenVariants returns the variants that the options name; an unknown name is an error.
func chosenVariants(o options) (found []variant, err error) {
	for name := range strings.SplitSeq(o.Variants, ",") {
		at := slices.IndexFunc(variants, func(v variant) bool { return v.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no variant '%s': there are %s", name, strings.Join(variantNames(), ", "))
		}
		found = append(found, variants[at])
	}
	return found, nil
}

// bench is a running variant.
type bench struct {
	*cluster.Cluster
	variant
	config *rest.Config
	close  func() error
	// controlled reports whether a controller runs.
	controlled bool
	// webhooks and controller are the processes of the peer; nil if the variant has none.
	webhooks, controller *selfProcess
}

// startBench brings up a variant in a control plane of its own with an empty etcd: what earlier runs left would make later ones slower. The control plane
// of only one variant runs at a time.
func (v variant) startBench(ctx context.Context, root string) (*bench, error) {
	dir, err := cluster.Dir("kiln-load")
	if err != nil {
		return nil, err
	}
	begin := cluster.StartDefinitions
	if v.overlay != "" {
		begin = cluster.Start
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	// By an IP address, so that no certificate has to be waited for.
	c, err := begin(ctx, cluster.Options{Root: absolute, Dir: dir, Host: "127.0.0.1", Replicas: 2, Overlay: v.overlay})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	b := &bench{Cluster: c, variant: v, controlled: v.overlay != ""}
	b.close = func() error {
		var errs []error
		for _, process := range []*selfProcess{b.controller, b.webhooks} { // before the control plane, which the controller reads from
			if process != nil {
				errs = append(errs, process.stop())
			}
		}
		return errors.Join(append(errs, c.Close(), os.RemoveAll(dir))...)
	}
	if b.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.config.QPS = -1
	if err := b.registerWebhooks(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// registerWebhooks puts the variant's webhooks where the API server calls them without another process between.
func (b *bench) registerWebhooks(ctx context.Context) error {
	switch {
	case b.noop:
		if err := b.startNoop(ctx); err != nil || !b.reports {
			return err
		}
		return b.startController(ctx)
	case b.overlay != "":
		return b.RegisterReplicas(ctx)
	}
	return nil
}
