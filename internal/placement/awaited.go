package placement

import (
	"context"
	"slices"
	"sync"

	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// A VMI whose claim does not exist, or is being filled, is placed when the claim or its DataVolume changes. Both are watched by their metadata, as inferences
// need them.

// claimsAwaited are the claims for which VMIs wait. It is lost with the process, which then tries each VMI once. The zero value is ready to use.
type claimsAwaited struct {
	mu    sync.Mutex
	byVMI map[types.NamespacedName][]string
}

// setClaims notes the claims without which no pod of a VMI could be made; none forgets the VMI.
func (a *claimsAwaited) setClaims(vmi types.NamespacedName, claims []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(claims) == 0 {
		delete(a.byVMI, vmi)
		return
	}
	if a.byVMI == nil {
		a.byVMI = map[types.NamespacedName][]string{}
	}
	a.byVMI[vmi] = claims
}

// waitingFor returns the VMIs that wait for a claim.
func (a *claimsAwaited) waitingFor(claim types.NamespacedName) (vmis []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for vmi, claims := range a.byVMI {
		if vmi.Namespace == claim.Namespace && slices.Contains(claims, claim.Name) {
			vmis = append(vmis, vmi)
		}
	}
	return vmis
}

// mostAwaited bounds the claims that are remembered of a VMI: a tenant writes hundreds of names. When these have come, the VMI waits for the next ones.
const mostAwaited = 16

// awaitedClaims returns claims of a VMI that do not exist, or do not have their content: mostAwaited of them at most.
func awaitedClaims(vmi *v1.VirtualMachineInstance, claims map[string]pod.Claim) (names []string) {
	for i := range vmi.Spec.Volumes {
		name := claimName(&vmi.Spec.Volumes[i])
		if claim, exists := claims[name]; name != "" && (!exists || claim.Filling != "") && len(names) < mostAwaited {
			names = append(names, name)
		}
	}
	return names
}

// onClaim returns the VMIs that wait for a claim, which has the name of its DataVolume. They are tried again soon.
func (c *Controller) onClaim(_ context.Context, claim client.Object) (requests []ctrl.Request) {
	for _, vmi := range c.awaited.waitingFor(client.ObjectKeyFromObject(claim)) {
		c.refused.retrySoon(vmi)
		requests = append(requests, ctrl.Request{NamespacedName: vmi})
	}
	return requests
}

// watchClaims makes the controller reconcile the VMIs that wait for a claim when it changes, or its DataVolume. A cluster without CDI has no DataVolumes.
func (c *Controller) watchClaims(building *builder.Builder, mapper meta.RESTMapper) error {
	kinds, err := lifecycle.ServedKinds(mapper, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), cdi.SchemeGroupVersion.WithKind("DataVolume"))
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		building.WatchesMetadata(object, handler.EnqueueRequestsFromMapFunc(c.onClaim))
	}
	return nil
}
