package vmipod

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// filled are the phases of DataVolumes whose claims a pod may have. In PendingPopulation the claim is not bound before its content is there, and CDI waits for
// the node of the pod.
var filled = []cdi.DataVolumePhase{cdi.Succeeded, cdi.PendingPopulation}

// describeFilling returns pod.Claim.Filling and Unready of a claim; empty if the claim has its content. A claim of a DataVolume exists before CDI has written
// it: KubeVirt waits for the same phases (IsSucceededOrPendingPopulation of CDI's API).
func (c *Controller) describeFilling(ctx context.Context, claim *corev1.PersistentVolumeClaim) (what, unready string, err error) {
	owner := metav1.GetControllerOf(claim)
	if owner == nil || owner.Kind != "DataVolume" {
		return "", "", nil
	}
	volume := &unstructured.Unstructured{}
	volume.SetGroupVersionKind(schema.GroupVersionKind{Group: cdi.SchemeGroupVersion.Group, Version: cdi.SchemeGroupVersion.Version, Kind: "DataVolume"})
	err = c.Live.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: owner.Name}, volume)
	switch {
	case meta.IsNoMatchError(err): // CDI was uninstalled, and claims stay
		return "", "", nil
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("its DataVolume '%.253s' does not exist: the claim is about to be deleted with it", owner.Name), pod.RuleClaimMissing, nil
	case err != nil:
		return "", "", fmt.Errorf("reading DataVolume '%s': %w", owner.Name, err)
	}
	phase, _, _ := unstructured.NestedString(volume.Object, "status", "phase")
	progress, _, _ := unstructured.NestedString(volume.Object, "status", "progress")
	switch at := cdi.DataVolumePhase(phase); {
	case slices.Contains(filled, at):
		return "", "", nil
	case at == cdi.WaitForFirstConsumer:
		return fmt.Sprintf("DataVolume '%.253s' waits for a first consumer, and would be filled while the guest runs: set annotation "+
			"'cdi.kubevirt.io/storage.bind.immediate.requested' on it", owner.Name), pod.RuleClaimUnbound, nil
	}
	unready = pod.RuleClaimUnfilled
	if phase == string(cdi.Failed) {
		unready = pod.RuleClaimFailed
	}
	return plain(fmt.Sprintf("DataVolume '%.253s' is not filled yet: phase '%.64s', progress '%.16s'", owner.Name, phase, progress)), unready, nil
}
