package vmipod

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// The pod of a VMI is created soon after the objects exist for which the VMI waits. Claims, DataVolumes and NetworkAttachmentDefinitions are watched by their
// metadata if the cluster serves them at the start of this process. Other objects are looked up: a watch of Secrets would let this process read them all.

const (
	kindClaim   = "PersistentVolumeClaim"
	kindNetwork = "NetworkAttachmentDefinition"
)

// awaitedObject is an object for which a VMI waits.
type awaitedObject struct {
	kind string
	types.NamespacedName
}

// awaitedObjects are the objects for which VMIs wait. They are lost with the process, which then tries each VMI once. The zero value is ready to use.
type awaitedObjects struct {
	mu    sync.Mutex
	byVMI map[types.NamespacedName][]awaitedObject
	// watched are the kinds of which events report a new object.
	watched map[string]bool
	// lastLookups has the object of each namespace that was looked up last. lastNamespace is the namespace of the last lookup.
	lastLookups   map[string]awaitedObject
	lastNamespace string
}

// mostAwaited bounds the objects that are remembered for a VMI, because a tenant may write hundreds of names. When these exist, the VMI waits for the next
// ones.
const mostAwaited = podinput.MostReferences

// setObjects replaces the objects for which a VMI waits. Without objects it forgets the VMI.
func (a *awaitedObjects) setObjects(vmi types.NamespacedName, objects []awaitedObject) {
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

// markWatched records that a kind is watched.
func (a *awaitedObjects) markWatched(kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched == nil {
		a.watched = map[string]bool{}
	}
	a.watched[kind] = true
}

// addObject adds an object for which a VMI waits.
func (a *awaitedObjects) addObject(vmi types.NamespacedName, object awaitedObject) {
	a.mu.Lock()
	already := slices.Clone(a.byVMI[vmi])
	a.mu.Unlock()
	a.setObjects(vmi, append(already, object))
}

// waitingFor returns the VMIs that wait for an object.
func (a *awaitedObjects) waitingFor(object awaitedObject) (vmis []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for vmi, objects := range a.byVMI {
		if slices.Contains(objects, object) {
			vmis = append(vmis, vmi)
		}
	}
	return vmis
}

// nextUnwatched returns up to n objects that are not watched, each once, and others at the next call. Namespaces take turns, so that a namespace with
// thousands of mistyped names does not delay others. The objects of a namespace take turns too.
func (a *awaitedObjects) nextUnwatched(n int) (next []awaitedObject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	byNamespace := a.unwatchedByNamespace()
	last := a.lastNamespace
	for lap := 0; len(next) < n && lap < n; lap++ {
		for _, namespace := range rotatedAfter(slices.Sorted(maps.Keys(byNamespace)), last, strings.Compare) {
			if objects := byNamespace[namespace]; lap < len(objects) && len(next) < n {
				next = append(next, objects[lap])
				a.lastLookups[namespace], a.lastNamespace = objects[lap], namespace
			}
		}
	}
	return next
}

// unwatchedByNamespace returns the first object of each VMI that is not watched, by namespace. The object that was looked up last comes last.
func (a *awaitedObjects) unwatchedByNamespace() map[string][]awaitedObject {
	byNamespace, lastLookups := map[string][]awaitedObject{}, map[string]awaitedObject{}
	for _, objects := range a.byVMI {
		for _, object := range objects {
			if !a.watched[object.kind] { // one object of each VMI: the others are looked up when it exists
				byNamespace[object.Namespace] = append(byNamespace[object.Namespace], object)
				break
			}
		}
	}
	for namespace, objects := range byNamespace {
		slices.SortFunc(objects, awaitedObject.compareTo)
		byNamespace[namespace] = rotatedAfter(slices.Compact(objects), a.lastLookups[namespace], awaitedObject.compareTo)
		lastLookups[namespace] = a.lastLookups[namespace]
	}
	a.lastLookups = lastLookups // without namespaces in which nothing is awaited
	return byNamespace
}

// rotatedAfter returns the elements of a sorted list that come after the last one, and then the others.
func rotatedAfter[E any](sorted []E, last E, compare func(E, E) int) []E {
	at, found := slices.BinarySearchFunc(sorted, last, compare)
	if found {
		at++
	}
	return slices.Concat(sorted[at:], sorted[:at])
}

func (o awaitedObject) compareTo(with awaitedObject) int {
	return slices.Compare([]string{o.Namespace, o.Name, o.kind}, []string{with.Namespace, with.Name, with.kind})
}

// missingClaims returns the claims of a VMI that do not exist or do not have their content.
func missingClaims(vmi *v1.VirtualMachineInstance, claims map[string]pod.Claim) (missing []awaitedObject) {
	for i := range vmi.Spec.Volumes {
		name := podinput.ClaimName(&vmi.Spec.Volumes[i])
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
		if !pod.HasDefinition(network) {
			continue
		}
		if _, exists := resources[network.Multus.NetworkName]; !exists {
			namespace, name := pod.NetworkAttachmentDefinition(vmi.Namespace, network.Multus.NetworkName)
			missing = append(missing, awaitedObject{kindNetwork, types.NamespacedName{Namespace: namespace, Name: name}})
		}
	}
	return missing
}
