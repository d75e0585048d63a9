// Package guestpolicy keeps the GuestPolicies of a cluster compiled, and writes the condition Accepted into their status.
package guestpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Set has the compiled GuestPolicies of a cluster. An informer updates it from one goroutine; reviews read it from many. A policy is compiled once for each
// generation. While a new generation is compiled, reviews use the previous one.
type Set struct {
	Log logr.Logger
	// Changed is called after Now returns other policies; nil if nobody needs to know.
	Changed func()

	// compiled is used only by the goroutine of the informer.
	compiled map[string]compiled
	now      atomic.Pointer[[]*policy.Policy]
	synced   func() bool
}

// compiled is a policy with the version of the object that it was compiled from.
type compiled struct {
	uid        types.UID
	generation int64
	policy     *policy.Policy
}

// Follow starts an informer that keeps the policies current. It fails if the cluster does not serve the kind.
func (s *Set) Follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &v1alpha1.GuestPolicy{})
	if err != nil {
		return fmt.Errorf("watching GuestPolicies: %w; are the CustomResourceDefinitions of manifests/crds installed?", err)
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: s.putPolicy, UpdateFunc: func(_, now any) { s.putPolicy(now) }, DeleteFunc: s.dropPolicy,
	})
	if err != nil {
		return err
	}
	s.synced = registered.HasSynced
	return nil
}

// errNotSynced is the error until all policies that the cluster had at the start of the process are compiled. A review before that would admit VMs that they
// refuse.
var errNotSynced = errors.New("the GuestPolicies of the cluster have not been read yet")

// Now returns the current policies in the order of their names. It does not call the API server. The caller must not change the slice.
func (s *Set) Now() ([]*policy.Policy, error) {
	if s.synced == nil || !s.synced() {
		return nil, errNotSynced
	}
	if now := s.now.Load(); now != nil {
		return *now, nil
	}
	return nil, nil
}

// Ready is a readiness check: it fails until Now succeeds.
func (s *Set) Ready(*http.Request) error {
	_, err := s.Now()
	return err
}

// putPolicy compiles a policy that is new or whose spec has changed. The API server increments the generation when the spec changes, and not when status or
// metadata change.
func (s *Set) putPolicy(object any) {
	of, ok := object.(*v1alpha1.GuestPolicy)
	if !ok {
		return
	}
	if was, known := s.compiled[of.Name]; known && was.uid == of.UID && was.generation == of.Generation {
		return
	}
	made, mistakes := policy.Compile(of)
	if len(mistakes) > 0 { // admission refuses such a policy: it was stored while no webhook ran, or by another release of Kiln
		s.Log.Error(mistakes.ToAggregate(), "GuestPolicy does not compile; its failurePolicy decides", "name", of.Name)
	}
	if s.compiled == nil {
		s.compiled = map[string]compiled{}
	}
	s.compiled[of.Name] = compiled{of.UID, of.Generation, made}
	s.publishPolicies()
}

// dropPolicy removes a policy. If the informer has missed the deletion, it has only the key of the policy.
func (s *Set) dropPolicy(object any) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	delete(s.compiled, key)
	s.publishPolicies()
	Violations.DeletePartialMatch(prometheus.Labels{labelPolicy: key}) // over time there may be any number of names
}

// publishPolicies makes Now return the compiled policies, in the order of their names, so that answers do not depend on the order of their creation.
func (s *Set) publishPolicies() {
	all := make([]*policy.Policy, 0, len(s.compiled))
	for _, name := range slices.SortedFunc(maps.Keys(s.compiled), strings.Compare) {
		all = append(all, s.compiled[name].policy)
	}
	s.now.Store(&all)
	if s.Changed != nil {
		s.Changed()
	}
}
