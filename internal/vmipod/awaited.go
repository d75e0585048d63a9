package vmipod

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// A VMI is placed soon after the objects exist that it waits for. Claims, DataVolumes and NetworkAttachmentDefinitions are watched by their metadata, where the
// cluster serves them at the start of this process. Others are looked for: a watch of Secrets would let this process read them all.

const (
	kindClaim   = "PersistentVolumeClaim"
	kindNetwork = "NetworkAttachmentDefinition"
)

// awaitedObject is an object for which a VMI waits.
type awaitedObject struct {
	kind string
	types.NamespacedName
}

// awaited are the objects for which VMIs wait. It is lost with the process, which then tries each VMI once. The zero value is ready to use.
type awaited struct {
	mu    sync.Mutex
	byVMI map[types.NamespacedName][]awaitedObject
	// watched are the kinds whose events say that an object has come.
	watched map[string]bool
	// looked is the object of each namespace that was looked for last, lookedIn the last namespace.
	looked   map[string]awaitedObject
	lookedIn string
}

// mostAwaited bounds the objects that are remembered of a VMI: a tenant writes hundreds of names. When these have come, the VMI waits for the next ones.
const mostAwaited = 16

// setObjects notes the objects without which no pod of a VMI could be made; none forgets the VMI.
func (a *awaited) setObjects(vmi types.NamespacedName, objects []awaitedObject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(objects) == 0 {
		delete(a.byVMI, vmi)
		return
	}
	if a.byVMI == nil {
		a.byVMI = map[types.NamespacedName][]awaitedObject{}
	}
	a.byVMI[vmi] = objects[:min(len(objects), mostAwaited)]
}

// markWatched notes that a kind is watched.
func (a *awaited) markWatched(kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched == nil {
		a.watched = map[string]bool{}
	}
	a.watched[kind] = true
}

// addObject notes another object without which no pod of a VMI could be made.
func (a *awaited) addObject(vmi types.NamespacedName, object awaitedObject) {
	a.mu.Lock()
	already := slices.Clone(a.byVMI[vmi])
	a.mu.Unlock()
	a.setObjects(vmi, append(already, object))
}

// waitingFor returns the VMIs that wait for an object.
func (a *awaited) waitingFor(object awaitedObject) (vmis []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for vmi, objects := range a.byVMI {
		if slices.Contains(objects, object) {
			vmis = append(vmis, vmi)
		}
	}
	return vmis
}

// nextUnwatched returns up to n objects that are not watched, each once, and others at the next call. Namespaces take turns, so that one with thousands of
// mistyped names keeps no other waiting; and so do the objects of a namespace.
func (a *awaited) nextUnwatched(n int) (next []awaitedObject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	byNamespace := a.unwatchedByNamespace()
	last := a.lookedIn
	for lap := 0; len(next) < n && lap < n; lap++ {
		for _, namespace := range rotatedAfter(slices.Sorted(maps.Keys(byNamespace)), last, strings.Compare) {
			if objects := byNamespace[namespace]; lap < len(objects) && len(next) < n {
				next = append(next, objects[lap])
				a.looked[namespace], a.lookedIn = objects[lap], namespace
			}
		}
	}
	return next
}

// unwatchedByNamespace returns the first object of each VMI that is not watched, by its namespace. Those come first that were not looked for last.
func (a *awaited) unwatchedByNamespace() map[string][]awaitedObject {
	byNamespace, looked := map[string][]awaitedObject{}, map[string]awaitedObject{}
	for _, objects := range a.byVMI {
		for _, object := range objects {
			if !a.watched[object.kind] { // one of each VMI: the others are looked for when it has come
				byNamespace[object.Namespace] = append(byNamespace[object.Namespace], object)
				break
			}
		}
	}
	for namespace, objects := range byNamespace {
		slices.SortFunc(objects, awaitedObject.compare)
		byNamespace[namespace] = rotatedAfter(slices.Compact(objects), a.looked[namespace], awaitedObject.compare)
		looked[namespace] = a.looked[namespace]
	}
	a.looked = looked // without namespaces in which nothing is awaited
	return byNamespace
}

// rotatedAfter returns a sorted list from the first element on that comes after another one, and then those before.
func rotatedAfter[E any](sorted []E, last E, compare func(E, E) int) []E {
	at, found := slices.BinarySearchFunc(sorted, last, compare)
	if found {
		at++
	}
	return slices.Concat(sorted[at:], sorted[:at])
}

func (o awaitedObject) compare(with awaitedObject) int {
	return slices.Compare([]string{o.Namespace, o.Name, o.kind}, []string{with.Namespace, with.Name, with.kind})
}

// missingClaims returns the claims of a VMI that do not exist, or do not have their content.
func missingClaims(vmi *v1.VirtualMachineInstance, claims map[string]pod.Claim) (missing []awaitedObject) {
	for i := range vmi.Spec.Volumes {
		name := claimName(&vmi.Spec.Volumes[i])
		if claim, exists := claims[name]; name != "" && (!exists || claim.Filling != "") {
			missing = append(missing, awaitedObject{kindClaim, types.NamespacedName{Namespace: vmi.Namespace, Name: name}})
		}
	}
	return missing
}

// missingNetworks returns the NetworkAttachmentDefinitions of a VMI that do not exist.
func missingNetworks(vmi *v1.VirtualMachineInstance, resources map[string]string) (missing []awaitedObject) {
	for i := range vmi.Spec.Networks {
		network := &vmi.Spec.Networks[i]
		if !pod.Defined(network) {
			continue
		}
		if _, exists := resources[network.Multus.NetworkName]; !exists {
			namespace, name := pod.NetworkAttachmentDefinition(vmi.Namespace, network.Multus.NetworkName)
			missing = append(missing, awaitedObject{kindNetwork, types.NamespacedName{Namespace: namespace, Name: name}})
		}
	}
	return missing
}

// retryWaiting returns the VMIs that wait for an object. They are tried again soon.
func (c *Controller) retryWaiting(object awaitedObject) (requests []ctrl.Request) {
	for _, vmi := range c.awaited.waitingFor(object) {
		c.refused.retrySoon(vmi)
		requests = append(requests, ctrl.Request{NamespacedName: vmi})
	}
	return requests
}

// watchAwaited makes the controller reconcile the VMIs that wait for a claim when it changes, or its DataVolume, which has its name; and those that wait for
// a NetworkAttachmentDefinition. A cluster without CDI or Multus does not serve the kinds of it.
func (c *Controller) watchAwaited(building *builder.Builder, mapper meta.RESTMapper) error {
	kinds, err := lifecycle.ServedKinds(mapper, corev1.SchemeGroupVersion.WithKind(kindClaim), cdi.SchemeGroupVersion.WithKind("DataVolume"),
		networkAttachmentDefinition)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		of := kindClaim
		if kind.Kind == kindNetwork {
			of = kindNetwork
		}
		c.awaited.markWatched(of)
		building.WatchesMetadata(object, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
			return c.retryWaiting(awaitedObject{of, client.ObjectKeyFromObject(o)})
		}))
	}
	return nil
}

// lookupsPerSecond bounds the objects that are looked for. Where more are awaited they take turns.
const lookupsPerSecond = 20

// lookForAwaited looks each second for objects that are not watched, and has the VMIs reconciled whose objects have come. It returns when the context ends.
func (c *Controller) lookForAwaited(ctx context.Context, come chan<- event.GenericEvent) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, object := range c.awaited.nextUnwatched(lookupsPerSecond) {
			if exists, err := c.objectExists(ctx, object); err != nil || !exists {
				continue // the VMI's own tries report errors
			}
			for _, request := range c.retryWaiting(object) {
				vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
				select {
				case come <- event.GenericEvent{Object: vmi}:
				case <-ctx.Done():
					return
				}
			}
		}
	}, time.Second)
	return nil
}
