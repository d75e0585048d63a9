// Package installed finds out whether KubeVirt runs guests in a cluster. Two makers of VMIs would make each VM's in a race, so that Kiln's controller makes none
// where KubeVirt's is installed.
package installed

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Values of --guests: who makes the VMIs of VMs and runs their guests.
const (
	// Auto is KubeVirt where it is installed, else Kiln.
	Auto     = "auto"
	Kiln     = "kiln"
	KubeVirt = "kubevirt"
)

// Usage is that of --guests, which webhook, controller and kubectl kiln have.
const Usage = "who makes VMIs and runs guests: '" + Kiln + "', '" + KubeVirt + "', or '" + Auto + "': KubeVirt where its virt-controller is deployed, else Kiln"

// Known refuses other values of --guests.
func Known(guests string) error {
	switch guests {
	case Auto, Kiln, KubeVirt:
		return nil
	}
	return fmt.Errorf("--guests is '%s': it must be '%s', '%s' or '%s'", guests, Auto, Kiln, KubeVirt)
}

// Runs reports whether KubeVirt runs guests, by a value of --guests and, for Auto, what a cluster has.
func Runs(ctx context.Context, guests string, reader client.Reader) (bool, error) {
	if guests != Auto {
		return guests == KubeVirt, nil
	}
	namespace, err := Find(ctx, reader)
	return namespace != "", err
}

// controller is the name of KubeVirt's Deployment that makes VMIs.
const controller = "virt-controller"

// interval is the time between two looks for KubeVirt: it may be installed or removed while Kiln runs.
const interval = time.Minute

// Find returns the namespace of a KubeVirt that makes VMIs; empty if there is none. A KubeVirt object alone makes none: Kiln reads its configuration from one.
// A Deployment without replicas counts: somebody may scale it up again.
func Find(ctx context.Context, reader client.Reader) (namespace string, err error) {
	var list v1.KubeVirtList
	if err := reader.List(ctx, &list); meta.IsNoMatchError(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("listing KubeVirts: %w", err)
	}
	for i := range list.Items {
		key := types.NamespacedName{Namespace: list.Items[i].Namespace, Name: controller}
		err := reader.Get(ctx, key, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"}})
		if err == nil {
			return key.Namespace, nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("reading Deployment '%s' of namespace '%s': %w", controller, key.Namespace, err)
		}
	}
	return "", nil
}

// Makers decides who makes VMIs, and ends the process when that is no longer so: it starts again, and decides anew.
type Makers struct {
	// Guests is the value of --guests.
	Guests string
	// Namespace is that of KubeVirt's accounts, as far as webhooks and policies know.
	Namespace string
	Live      client.Reader

	found string
}

// Decide reports whether KubeVirt makes the VMIs. It refuses to have both make them, and a KubeVirt in another namespace than is known: what its accounts
// write would be judged as if a tenant had written it.
func (m *Makers) Decide(ctx context.Context) (kubevirt bool, err error) {
	if err := Known(m.Guests); err != nil {
		return false, err
	}
	if m.found, err = Find(ctx, m.Live); err != nil {
		return false, err
	}
	if err := m.known(m.found); err != nil {
		return false, err
	}
	log := ctrl.LoggerFrom(ctx)
	switch {
	case m.Guests == Kiln && m.found != "":
		return false, fmt.Errorf("--guests is '%s', and KubeVirt in namespace '%s' makes VMIs too: each VM would get two makers. Leave the flag out, or "+
			"remove KubeVirt", Kiln, m.found)
	case m.Guests == KubeVirt && m.found == "":
		log.Info("nobody makes VMIs: --guests is 'kubevirt', and there is no Deployment of that name beside a KubeVirt object", "deployment", controller)
	case m.found != "":
		log.Info("KubeVirt makes the VMIs: this process pins VMs, and collects revisions", "namespace", m.found)
	default:
		log.Info("this process makes the VMIs: there is no other maker")
	}
	return m.Guests == KubeVirt || m.found != "", nil
}

// known returns an error if KubeVirt makes VMIs, and its namespace is not the one that webhooks and policies know.
func (m *Makers) known(found string) error {
	if found == "" || found == m.Namespace {
		return nil
	}
	return fmt.Errorf("KubeVirt is in namespace '%s', and --kubevirt-namespace is '%s': name it in the ConfigMap of component manifests/namespace, or in "+
		"kubevirt.namespace of the chart", found, m.Namespace)
}

// Start looks for KubeVirt again, at once and until the context ends: a process may have waited long for the Lease. Its error ends the process.
func (m *Makers) Start(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := m.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look returns an error if another decision is due.
func (m *Makers) look(ctx context.Context) error {
	now, err := Find(ctx, m.Live)
	if err != nil { // the API server is away, or a right: what was decided holds
		ctrl.LoggerFrom(ctx).Error(err, "looking for KubeVirt")
		return nil
	}
	if err := m.known(now); err != nil {
		return err
	}
	if m.Guests == KubeVirt || (now == "") == (m.found == "") {
		return nil
	}
	if now == "" {
		return fmt.Errorf("KubeVirt of namespace '%s' is gone: this process starts again to decide who makes VMIs", m.found)
	}
	return fmt.Errorf("KubeVirt makes VMIs by now, in namespace '%s': this process starts again to decide who makes VMIs", now)
}
