// Package installed finds out whether KubeVirt creates the VMIs of a cluster. Kiln's controller creates none if virt-controller is installed, because two
// controllers would race to create the VMI of each VM.
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Values of --guests: who creates the VMIs of VMs and runs their guests.
const (
	// Auto means KubeVirt if it is installed, otherwise Kiln.
	Auto     = "auto"
	Kiln     = "kiln"
	KubeVirt = "kubevirt"
)

// Usage is the help text of --guests, which webhook and controller have.
const Usage = "who makes VMIs and runs guests: '" + Kiln + "', '" + KubeVirt + "', or '" + Auto + "': KubeVirt where its virt-controller is deployed, else Kiln"

// VersionUsage is the help text of --kubevirt-version, which webhook and kubectl kiln have.
const VersionUsage = "version of the KubeVirt that runs guests, such as v1.8.2, whose rules and gates apply; " +
	"empty for status.observedKubeVirtVersion of the KubeVirt object"

// CheckGuests returns an error for a value of --guests that does not exist.
func CheckGuests(guests string) error {
	switch guests {
	case Auto, Kiln, KubeVirt:
		return nil
	}
	return fmt.Errorf("--guests is '%s': it must be '%s', '%s' or '%s'", guests, Auto, Kiln, KubeVirt)
}

// RunsGuests reports whether KubeVirt runs the guests, for a value of --guests. For Auto it searches for KubeVirt in the cluster.
func RunsGuests(ctx context.Context, guests string, reader client.Reader) (bool, error) {
	if guests != Auto {
		return guests == KubeVirt, nil
	}
	namespace, err := findKubeVirt(ctx, reader)
	return namespace != "", err
}

// controller is the name of KubeVirt's Deployment that makes VMIs.
const controller = "virt-controller"

// checkInterval is the time between two searches for KubeVirt, which may be installed or removed while Kiln runs.
const checkInterval = time.Minute

// findKubeVirt returns the namespace of a KubeVirt that creates VMIs, or an empty string. A KubeVirt object without a virt-controller does not count, because
// Kiln reads its configuration from such an object. A Deployment without replicas counts, because somebody may scale it up again.
func findKubeVirt(ctx context.Context, reader client.Reader) (namespace string, err error) {
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

// Makers decides who creates VMIs. It is a manager.Runnable that ends the process when the decision no longer holds: the process starts again, and decides
// anew.
type Makers struct {
	// Guests is the value of --guests.
	Guests string
	// Namespace is the namespace of KubeVirt's accounts that webhooks and policies know.
	Namespace string
	Live      client.Reader

	found string
}

// Decide reports whether KubeVirt creates the VMIs. It returns an error if Kiln and KubeVirt would create them, or if webhooks and policies know another
// namespace of KubeVirt: they would judge its accounts as tenants.
func (m *Makers) Decide(ctx context.Context) (kubevirt bool, err error) {
	if err := CheckGuests(m.Guests); err != nil {
		return false, err
	}
	if m.found, err = findKubeVirt(ctx, m.Live); err != nil {
		return false, err
	}
	if err := m.checkNamespace(m.found); err != nil {
		return false, err
	}
	log := log.FromContext(ctx)
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

// checkNamespace returns an error if KubeVirt creates VMIs and its namespace is not the one that webhooks and policies know.
func (m *Makers) checkNamespace(found string) error {
	if found == "" || found == m.Namespace {
		return nil
	}
	return fmt.Errorf("KubeVirt is in namespace '%s', and --kubevirt-namespace is '%s': name it in the ConfigMap of component manifests/namespace, or in "+
		"kubevirt.namespace of the chart", found, m.Namespace)
}

// Start searches for KubeVirt again until the context ends. It begins at once, because the process may have waited long for the Lease. Its error ends the
// process.
func (m *Makers) Start(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		if err := m.recheck(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// recheck returns an error if Decide would now decide otherwise.
func (m *Makers) recheck(ctx context.Context) error {
	now, err := findKubeVirt(ctx, m.Live)
	if err != nil { // without an answer, the decision holds
		log.FromContext(ctx).Error(err, "looking for KubeVirt")
		return nil
	}
	if err := m.checkNamespace(now); err != nil {
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
