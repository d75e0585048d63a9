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

// Set is the GuestPolicies of a cluster, compiled. It follows an informer, which calls it from one goroutine; reviews read it from many. A policy is
// compiled once for each generation: reviews compile nothing. While a new generation is compiled, reviews use the previous one.
type Set struct {
	Log logr.Logger

	// compiled belongs to the goroutine of the informer.
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

// Follow has an informer keep the policies current. It fails if the cluster does not serve the kind.
func (s *Set) Follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &v1alpha1.GuestPolicy{})
	if err != nil {
		return fmt.Errorf("watching GuestPolicies: %w; are the CustomResourceDefinitions of manifests/crds installed?", err)
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: s.put, UpdateFunc: func(_, now any) { s.put(now) }, DeleteFunc: s.drop,
	})
	if err != nil {
		return err
	}
	s.synced = registered.HasSynced
	return nil
}

// errNotSynced is returned until all policies of the cluster are compiled that it had at the start of the process. A process that judged before would
// admit what they refuse.
var errNotSynced = errors.New("the GuestPolicies of the cluster have not been read yet")

// Now returns the policies in force, by name. It makes no call. The caller must not change the slice.
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

// put compiles a policy that is new or has another spec. The API server raises the generation with the spec, and not with status or metadata.
func (s *Set) put(object any) {
	of, ok := object.(*v1alpha1.GuestPolicy)
	if !ok {
		return
	}
	if was, known := s.compiled[of.Name]; known && was.uid == of.UID && was.generation == of.Generation {
		return
	}
	made, mistakes := policy.Compile(of)
	if len(mistakes) > 0 { // admission refuses such a policy: it was written while no webhook ran, or for another release of Kiln
		s.Log.Error(mistakes.ToAggregate(), "GuestPolicy does not compile; its failurePolicy decides", "name", of.Name)
	}
	if s.compiled == nil {
		s.compiled = map[string]compiled{}
	}
	s.compiled[of.Name] = compiled{of.UID, of.Generation, made}
	s.publish()
}

// drop removes a policy. The informer may have missed the deletion, and then has only its key.
func (s *Set) drop(object any) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	delete(s.compiled, key)
	s.publish()
	Violations.DeletePartialMatch(prometheus.Labels{labelPolicy: key}) // names are the administrator's, and any number of them may come and go
}

// publish puts the policies in force, in the order of their names: the order of their creation changes no answer.
func (s *Set) publish() {
	all := make([]*policy.Policy, 0, len(s.compiled))
	for _, name := range slices.SortedFunc(maps.Keys(s.compiled), strings.Compare) {
		all = append(all, s.compiled[name].policy)
	}
	s.now.Store(&all)
}
