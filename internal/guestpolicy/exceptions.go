package guestpolicy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Exceptions are the approved GuestPolicyExceptions of a cluster by namespace. An informer updates them from one goroutine; reviews read them from many.
type Exceptions struct {
	// Changed is called with the names of the policies of an exception that has changed; nil if nobody needs to know.
	Changed func(policies ...string)

	lock   sync.RWMutex
	byName map[types.NamespacedName]*policy.Exception
	// byNamespace are sorted by policy.CompareExceptions.
	byNamespace map[string][]*policy.Exception
	synced      func() bool
}

// Follow starts an informer that keeps the exceptions current. It fails if the cluster does not serve the kind.
func (x *Exceptions) Follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &v1alpha1.GuestPolicyException{})
	if err != nil {
		return fmt.Errorf("watching GuestPolicyExceptions: %w; are the CustomResourceDefinitions of manifests/crds installed?", err)
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: x.put, UpdateFunc: func(_, now any) { x.put(now) }, DeleteFunc: x.drop,
	})
	if err == nil {
		x.synced = registered.HasSynced
	}
	return err
}

// Synced reports whether all exceptions that the cluster had at the start of the process are known. Reviews before that would refuse what they permit.
func (x *Exceptions) Synced() bool { return x.synced != nil && x.synced() }

// Of implements policy.ExceptionSource. The caller must not change the slice.
func (x *Exceptions) Of(namespace string) []*policy.Exception {
	x.lock.RLock()
	defer x.lock.RUnlock()
	return x.byNamespace[namespace]
}

// put adds an exception, or replaces it. An exception whose spec nobody has approved has no effect, and is not kept: everyone who may write VMs may write it.
// Changes of other metadata and of the conditions change nothing.
func (x *Exceptions) put(object any) {
	of, ok := object.(*v1alpha1.GuestPolicyException)
	if !ok {
		return
	}
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	var prepared *policy.Exception
	if slices.ContainsFunc(of.Status.Approvals, func(a v1alpha1.GuestPolicyExceptionApproval) bool { return a.Generation == of.Generation }) {
		x.lock.RLock()
		was := x.byName[key]
		x.lock.RUnlock()
		if was.Same(of) {
			return
		}
		prepared = policy.NewException(of)
	}
	x.replace(key, prepared)
}

// drop removes an exception. If the informer has missed the deletion, it has only the key of the exception.
func (x *Exceptions) drop(object any) {
	key, err := toolscache.DeletionHandlingObjectToName(object)
	if err == nil {
		x.replace(types.NamespacedName(key), nil)
	}
}

// replace sets the exception of a name; nil removes it.
func (x *Exceptions) replace(key types.NamespacedName, is *policy.Exception) {
	x.lock.Lock()
	if x.byName == nil {
		x.byName, x.byNamespace = map[types.NamespacedName]*policy.Exception{}, map[string][]*policy.Exception{}
	}
	changed := map[string]bool{}
	all := slices.Clone(x.byNamespace[key.Namespace]) // readers have the old slice: it must not be changed
	if was := x.byName[key]; was != nil {
		all = slices.DeleteFunc(all, func(one *policy.Exception) bool { return one == was })
		delete(x.byName, key)
		for _, name := range was.Policies() {
			changed[name] = true
		}
	}
	if is != nil {
		at, _ := slices.BinarySearchFunc(all, is, policy.CompareExceptions)
		all = slices.Insert(all, at, is)
		x.byName[key] = is
		for _, name := range is.Policies() {
			changed[name] = true
		}
	}
	if len(all) == 0 {
		delete(x.byNamespace, key.Namespace)
	} else {
		x.byNamespace[key.Namespace] = all
	}
	x.lock.Unlock()
	if x.Changed != nil && len(changed) > 0 {
		x.Changed(slices.Sorted(maps.Keys(changed))...)
	}
}
