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
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Set has the compiled GuestPolicies of a cluster. An informer updates it from one goroutine; reviews read it from many. A policy is compiled once for each
// generation. While a new generation is compiled, reviews use the previous one.
type Set struct {
	Log logr.Logger
	// Changed is called after Now returns other policies; nil if nobody needs to know.
	Changed func()
	// Params keeps the params of the policies; nil if policies with params fail.
	Params *Params
	// Exceptions are the exceptions from the policies; nil if there are none.
	Exceptions *Exceptions
	// Schema returns the schema of a paramKind, or nil; nil if params have no types.
	Schema func(v1alpha1.GuestPolicyParamKind) (*spec.Schema, error)

	// context ends when the process ends.
	context  context.Context
	lock     sync.Mutex // of compiled
	compiled map[string]compiled
	now      atomic.Pointer[[]*policy.Policy]
	synced   func() bool
	tried    atomic.Bool
	// waiting means that renewPolicies is about to be called.
	waiting atomic.Bool
	stale   staleNames
}

// NewSet returns a set that reads the params of policies, and their types, from a cluster.
func NewSet(config *rest.Config, by *http.Client, mapper meta.RESTMapper, log logr.Logger) (*Set, error) {
	params, err := dynamic.NewForConfigAndClient(config, by)
	if err != nil {
		return nil, err
	}
	discovered, err := discovery.NewDiscoveryClientForConfigAndClient(config, by)
	if err != nil {
		return nil, err
	}
	schemas := &Schemas{Discovery: discovered}
	s := &Set{Log: log, Params: &Params{Client: params, Mapper: mapper, Log: log}, Exceptions: &Exceptions{}, Schema: schemas.Of}
	s.Params.Changed = func() { s.inputsChanged() }
	s.Exceptions.Changed = s.inputsChanged
	return s, nil
}

// inputsDelay is the time in which changes of params and exceptions cause one call of Changed: a tenant may write them all the time.
const inputsDelay = 30 * time.Second

// inputsChanged has Now return other policies, because these answer otherwise with other params or exceptions: policies with params, and the policies of these
// names. It does nothing if nobody waits for changes of policies.
func (s *Set) inputsChanged(policies ...string) {
	if s.Changed == nil {
		return
	}
	s.stale.add(policies)
	if !s.waiting.Swap(true) {
		time.AfterFunc(inputsDelay, s.renewPolicies)
	}
}

// staleNames are names of policies whose exceptions have changed.
type staleNames struct {
	lock  sync.Mutex
	names map[string]bool
}

func (n *staleNames) add(names []string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.names == nil {
		n.names = map[string]bool{}
	}
	for _, name := range names {
		n.names[name] = true
	}
}

// take returns the names, and forgets them.
func (n *staleNames) take() map[string]bool {
	n.lock.Lock()
	defer n.lock.Unlock()
	names := n.names
	n.names = nil
	return names
}

// renewPolicies replaces each policy with params or changed exceptions by a copy.
func (s *Set) renewPolicies() {
	s.waiting.Store(false)
	stale := s.stale.take()
	s.lock.Lock()
	defer s.lock.Unlock()
	for name, was := range s.compiled {
		if was.of != nil || stale[name] {
			renewed := *was.policy
			was.policy = &renewed
			s.compiled[name] = was
		}
	}
	s.publishPolicies()
}

// compiled is a policy with the version of the object that it was compiled from.
type compiled struct {
	uid        types.UID
	generation int64
	policy     *policy.Policy
	// of is the object of a policy with params, and schema the schema of its paramKind: both are needed to compile it again.
	of     *v1alpha1.GuestPolicy
	schema *spec.Schema
}

// Follow starts an informer that keeps the policies current. It fails if the cluster does not serve the kind.
func (s *Set) Follow(ctx context.Context, informers cache.Informers) error {
	s.context = ctx
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
	if s.Exceptions != nil {
		if err := s.Exceptions.Follow(ctx, informers); err != nil {
			return err
		}
	}
	if s.Schema != nil {
		go s.refreshSchemas(ctx)
	}
	return nil
}

// errNotSynced is the error until all policies that the cluster had at the start of the process are compiled. A review before that would admit VMs that they
// refuse.
var errNotSynced = errors.New("the GuestPolicies of the cluster have not been read yet")

// Now returns the current policies in the order of their names. It does not call the API server. The caller must not change the slice.
func (s *Set) Now() ([]*policy.Policy, error) {
	if s.synced == nil || !s.synced() || s.Exceptions != nil && !s.Exceptions.Synced() {
		return nil, errNotSynced
	}
	if s.Params != nil && !s.tried.Load() {
		if !s.Params.Tried() {
			return nil, errNotSynced
		}
		s.tried.Store(true) // params of later policies are no reason to answer nothing: their failurePolicy decides
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
	s.lock.Lock()
	defer s.lock.Unlock()
	if was, known := s.compiled[of.Name]; known && was.uid == of.UID && was.generation == of.Generation {
		return
	}
	s.compilePolicy(of)
	s.publishPolicies()
}

// compilePolicy compiles a policy with the schema of its params.
func (s *Set) compilePolicy(of *v1alpha1.GuestPolicy) {
	params := s.schemaOf(of)
	made, mistakes := policy.CompileTyped(of, params)
	if len(mistakes) > 0 && params != nil && of.Spec.ParamKind != nil {
		// It compiled when it was written, so the definition of the paramKind has lost a field. Only expressions that read the field fail.
		if untyped, still := policy.Compile(of); len(still) == 0 {
			made, mistakes = untyped, nil
		}
	}
	if len(mistakes) > 0 { // admission refuses such a policy: it was stored while no webhook ran, or by another release of Kiln
		s.Log.Error(mistakes.ToAggregate(), "GuestPolicy does not compile; its failurePolicy decides", "name", of.Name)
	}
	if s.compiled == nil {
		s.compiled = map[string]compiled{}
	}
	next := compiled{uid: of.UID, generation: of.Generation, policy: made}
	if of.Spec.ParamKind != nil {
		next.of, next.schema = of, params
	}
	s.compiled[of.Name] = next
}

// schemaOf returns the schema of the paramKind of a policy, or nil.
func (s *Set) schemaOf(of *v1alpha1.GuestPolicy) *spec.Schema {
	if of.Spec.ParamKind == nil || s.Schema == nil {
		return nil
	}
	found, err := s.Schema(*of.Spec.ParamKind)
	if err != nil {
		s.Log.Error(err, "the params of a GuestPolicy have no types", "name", of.Name)
	}
	return found
}

// schemaInterval is the time between two looks at the schemas of paramKinds.
const schemaInterval = time.Minute

// refreshSchemas compiles policies again whose paramKind has another schema, such as one whose definition came after the policy.
func (s *Set) refreshSchemas(ctx context.Context) {
	for sleep(ctx, schemaInterval) {
		s.lock.Lock()
		changed := false
		for _, was := range s.compiled {
			if was.of == nil {
				continue
			}
			if now := s.schemaOf(was.of); now != nil && !sameSchema(was.schema, now) {
				s.compilePolicy(was.of)
				changed = true
			}
		}
		if changed {
			s.publishPolicies()
		}
		s.lock.Unlock()
	}
}

// dropPolicy removes a policy. If the informer has missed the deletion, it has only the key of the policy.
func (s *Set) dropPolicy(object any) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
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
	if s.Params != nil && s.context != nil {
		s.Params.Follow(s.context, all)
	}
	s.now.Store(&all)
	if s.Changed != nil {
		s.Changed()
	}
}
