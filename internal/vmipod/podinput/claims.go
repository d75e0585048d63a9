package podinput

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClaimName returns the PersistentVolumeClaim of a volume, empty for volumes of other types. The claim of a DataVolume has its name.
func ClaimName(volume *v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	case volume.Ephemeral != nil && volume.Ephemeral.PersistentVolumeClaim != nil:
		return volume.Ephemeral.PersistentVolumeClaim.ClaimName
	}
	return ""
}

// readClaims returns the claims of a VMI's volumes that exist, by name. They are not watched for changes of their spec: a claim that was read before it was
// bound says the same.
func (r Reader) readClaims(ctx context.Context, vmi *v1.VirtualMachineInstance) (map[string]pod.Claim, error) {
	claims := map[string]pod.Claim{}
	for i := range vmi.Spec.Volumes {
		name := ClaimName(&vmi.Spec.Volumes[i])
		if _, known := claims[name]; known || name == "" {
			continue
		}
		found, err := objects.GetOrNil(ctx, r.Live, types.NamespacedName{Namespace: vmi.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, fmt.Errorf("reading PersistentVolumeClaim '%s': %w", name, err)
		}
		if found == nil {
			continue
		}
		claim := ClaimOf(found)
		if !r.DemandOnly {
			if claim.Filling, claim.Unready, err = r.fillingState(ctx, found); err != nil {
				return nil, err
			}
		}
		claims[name] = claim
	}
	return claims, nil
}

// ClaimOf returns the facts about a claim, without what fills it.
func ClaimOf(found *corev1.PersistentVolumeClaim) pod.Claim {
	writable := slices.ContainsFunc(found.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadOnlyMany })
	return pod.Claim{Block: found.Spec.VolumeMode != nil && *found.Spec.VolumeMode == corev1.PersistentVolumeBlock, ReadOnly: !writable,
		Info: v1.PersistentVolumeClaimInfo{ClaimName: found.Name, AccessModes: found.Spec.AccessModes, VolumeMode: found.Spec.VolumeMode,
			Capacity: found.Status.Capacity, Requests: found.Spec.Resources.Requests}}
}

// usablePhases are the phases of DataVolumes whose claims a pod may have. In PendingPopulation the claim is bound only when it has its content, and CDI waits
// for the node of the pod.
var usablePhases = []cdi.DataVolumePhase{cdi.Succeeded, cdi.PendingPopulation}

// fillingState returns pod.Claim.Filling and Unready of a claim, which are empty if the claim has its content. A claim of a DataVolume exists before CDI has
// written it: KubeVirt waits for the same phases (IsSucceededOrPendingPopulation of CDI's API).
func (r Reader) fillingState(ctx context.Context, claim *corev1.PersistentVolumeClaim) (filling, unready string, err error) {
	owner := metav1.GetControllerOf(claim)
	if owner == nil || owner.Kind != "DataVolume" {
		return "", "", nil
	}
	volume := &unstructured.Unstructured{}
	volume.SetGroupVersionKind(schema.GroupVersionKind{Group: cdi.SchemeGroupVersion.Group, Version: cdi.SchemeGroupVersion.Version, Kind: "DataVolume"})
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: owner.Name}, volume)
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
	case slices.Contains(usablePhases, at):
		return "", "", nil
	case at == cdi.WaitForFirstConsumer:
		return fmt.Sprintf("DataVolume '%.253s' waits for a first consumer, and would be filled while the guest runs: set annotation "+
			"'cdi.kubevirt.io/storage.bind.immediate.requested' on it", owner.Name), pod.RuleClaimUnbound, nil
	}
	unready = pod.RuleClaimUnfilled
	if phase == string(cdi.Failed) {
		unready = pod.RuleClaimFailed
	}
	return condition.OneLine(fmt.Sprintf("DataVolume '%.253s' is not filled yet: phase '%.64s', progress '%.16s'", owner.Name, phase, progress)), unready, nil
}
