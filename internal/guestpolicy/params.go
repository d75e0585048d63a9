package guestpolicy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
)

// Params keeps the params of policies current: it watches what each paramRef selects, and nothing else, so that a right to these objects is enough.
type Params struct {
	Client dynamic.Interface
	Mapper meta.RESTMapper
	Log    logr.Logger
	// Changed is called after a param has changed; nil if nobody needs to know.
	Changed func()

	lock    sync.Mutex
	watched map[paramKey]*watchedParams
}

// paramKey identifies what a paramRef selects. Policies that select the same share it.
type paramKey struct{ apiVersion, kind, namespace, name, selector string }

// keyOfParams returns the key of a paramRef.
func keyOfParams(kind v1alpha1.GuestPolicyParamKind, ref v1alpha1.GuestPolicyParamRef) paramKey {
	return paramKey{kind.APIVersion, kind.Kind, ref.Namespace, ref.Name, metav1.FormatLabelSelector(ref.Selector)}
}

// watchedParams are the params of one paramRef.
type watchedParams struct {
	paramKey
	store *paramStore
	stop  context.CancelFunc
	// tried is closed when the params have been listed, or when the first attempt has failed.
	tried chan struct{}
	once  sync.Once
	// namespaced is set before tried is closed.
	namespaced atomic.Bool
	// read reports that the params have been read once.
	read atomic.Bool
	// failure is why the params cannot be read; nil if they can be.
	failure atomic.Pointer[error]
}

// Times of Params.
const (
	// paramWait is how long a review waits for params that have never been listed, as a ValidatingAdmissionPolicy does.
	paramWait = time.Second
	// paramRetry is the time between attempts to find a kind that the cluster does not serve.
	paramRetry = 15 * time.Second
	// paramRelist is the least time between lists for params that were omitted: a tenant may write and delete params all the time.
	paramRelist = 5 * time.Minute
	// paramPage is how many params are read at once: each may have 1.5 MiB before it is reduced.
	paramPage = 16
	// paramPageTimeout bounds the request for one page. An aggregated API server, or the conversion webhook of a definition, that never answers would otherwise
	// keep each new replica of the webhook from being ready. After the timeout, failurePolicy decides about the policies with these params only.
	paramPageTimeout = 5 * time.Second
)

// Follow watches the params of these policies, and of no others.
func (p *Params) Follow(ctx context.Context, policies []*policy.Policy) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.watched == nil {
		p.watched = map[paramKey]*watchedParams{}
	}
	wanted := map[paramKey]bool{}
	for _, of := range policies {
		kind, ref := of.Params()
		if kind == nil || ref == nil || len(of.Errors) > 0 {
			continue
		}
		key := keyOfParams(*kind, *ref)
		if wanted[key] = true; p.watched[key] == nil {
			ctx, stop := context.WithCancel(ctx)
			w := &watchedParams{paramKey: key, store: newParamStore(p.Changed), stop: stop, tried: make(chan struct{})}
			p.watched[key] = w
			go p.watch(ctx, w)
		}
	}
	for key, w := range p.watched {
		if !wanted[key] {
			w.stop()
			delete(p.watched, key)
		}
	}
}

// Tried reports whether each of the params has been listed, or cannot be.
func (p *Params) Tried() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, w := range p.watched {
		select {
		case <-w.tried:
		default:
			return false
		}
	}
	return true
}

// Source returns the source of the params for one request.
func (p *Params) Source(ctx context.Context) policy.ParamSource {
	return func(kind v1alpha1.GuestPolicyParamKind, ref v1alpha1.GuestPolicyParamRef, namespace string) ([]*unstructured.Unstructured, error) {
		p.lock.Lock()
		w := p.watched[keyOfParams(kind, ref)]
		p.lock.Unlock()
		if w == nil {
			return nil, errors.New("the params have not been read yet")
		}
		select {
		case <-w.tried:
		case <-time.After(paramWait):
			return nil, errors.New("the params have not been read yet")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if failure := w.failure.Load(); failure != nil {
			return nil, *failure
		}
		return w.store.inNamespace(w.namespaceFor(namespace))
	}
}

// namespaceFor returns the namespace of the params for an object of a namespace.
func (w *watchedParams) namespaceFor(ofObject string) string {
	switch {
	case !w.namespaced.Load():
		return ""
	case w.namespace != "":
		return w.namespace
	}
	return ofObject
}

// watch keeps the params current until the context ends.
func (p *Params) watch(ctx context.Context, w *watchedParams) {
	for ctx.Err() == nil {
		resource, err := p.resourceOf(w)
		if err != nil {
			p.fail(w, err)
			sleep(ctx, paramRetry)
			continue
		}
		round, stop := context.WithCancel(ctx)
		go func() { // a new list finds room for what was omitted
			for sleep(round, paramRelist) {
				if w.store.hasSpace() {
					stop()
				}
			}
		}()
		lister := &paramLister{client: resource, watched: w, params: p, timeout: paramPageTimeout}
		toolscache.NewReflectorWithOptions(lister, &unstructured.Unstructured{}, w.store, toolscache.ReflectorOptions{
			Name: "params", ResyncPeriod: 0,
		}).RunWithContext(round)
		stop()
	}
}

// sleep waits, and reports whether the context goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// fail records why params cannot be read, and logs it once.
func (p *Params) fail(w *watchedParams, err error) {
	if was := w.failure.Swap(&err); was == nil || (*was).Error() != err.Error() {
		p.Log.Error(err, "params of GuestPolicies cannot be read", "apiVersion", w.apiVersion, "kind", w.kind)
	}
	w.once.Do(func() { close(w.tried) })
}

// succeed records that params can be read.
func (w *watchedParams) succeed() {
	w.read.Store(true)
	w.failure.Store(nil)
	w.once.Do(func() { close(w.tried) })
}

// resourceOf returns the client of the params.
func (p *Params) resourceOf(w *watchedParams) (dynamic.ResourceInterface, error) {
	mapping, err := MapParamKind(p.Mapper, v1alpha1.GuestPolicyParamKind{APIVersion: w.apiVersion, Kind: w.kind}, w.namespace)
	if err != nil {
		return nil, err
	}
	w.namespaced.Store(mapping.Scope.Name() == meta.RESTScopeNameNamespace)
	if w.namespace != "" {
		return p.Client.Resource(mapping.Resource).Namespace(w.namespace), nil
	}
	return p.Client.Resource(mapping.Resource), nil
}

// MapParamKind returns the resource of a paramKind. It fails if the cluster does not serve the kind, or if the paramRef has a namespace and the kind has none.
func MapParamKind(mapper meta.RESTMapper, kind v1alpha1.GuestPolicyParamKind, namespace string) (*meta.RESTMapping, error) {
	of := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	mapping, err := mapper.RESTMapping(of.GroupKind(), of.Version)
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the cluster does not serve kind %s of %s: install its CustomResourceDefinition, or correct spec.paramKind: %w", kind.Kind,
			kind.APIVersion, err)
	case err != nil:
		return nil, fmt.Errorf("finding kind %s of %s: %w", kind.Kind, kind.APIVersion, err)
	case namespace != "" && mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return nil, fmt.Errorf("kind %s has no namespaces: remove spec.paramRef.namespace", kind.Kind)
	}
	return mapping, nil
}

// paramLister lists and watches the params of one paramRef. A list is read in small pages, each of which is reduced before the next is read.
type paramLister struct {
	client  dynamic.ResourceInterface
	watched *watchedParams
	params  *Params
	// timeout bounds the request for one page.
	timeout time.Duration
}

// IsWatchListSemanticsUnSupported makes reflectors list in pages: a list by a watch would keep whole objects until the last has come.
func (*paramLister) IsWatchListSemanticsUnSupported() bool { return true }

// selected adds what the paramRef selects to the options of a request: a right to objects of a name counts only for requests that select the name.
func (l *paramLister) selected(options metav1.ListOptions) metav1.ListOptions {
	if l.watched.name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, l.watched.name).String()
	} else if l.watched.selector != "<none>" {
		options.LabelSelector = l.watched.selector
	}
	return options
}

// List implements toolscache.ListerWatcher.
func (l *paramLister) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements toolscache.ListerWatcher.
func (l *paramLister) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// ListWithContext implements toolscache.ListerWatcherWithContext.
func (l *paramLister) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	all, err := l.listPages(ctx, l.selected(options))
	if err != nil {
		if apierrors.IsForbidden(err) || !l.watched.read.Load() { // otherwise the params that were read before count
			l.params.fail(l.watched, readableFailure(err, l.watched))
		}
		return nil, err
	}
	return all, nil
}

// listPages returns all params. Trap: the pager of a reflector takes the first page for the whole list if a token of a later page has expired.
func (l *paramLister) listPages(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	options.Limit, options.Continue = paramPage, ""
	options.ResourceVersion, options.ResourceVersionMatch = "", "" // an API server does not page what it lists from its cache
	all := &unstructured.UnstructuredList{}
	for {
		page, err := l.listPage(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			all.Items = append(all.Items, *reduceParam(&page.Items[i]))
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			all.Object = page.Object
			return all, nil
		}
	}
}

// listPage returns one page.
func (l *paramLister) listPage(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.client.List(ctx, options)
}

// WatchWithContext implements toolscache.ListerWatcherWithContext. A reflector watches after it has listed.
func (l *paramLister) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	watched, err := l.client.Watch(ctx, l.selected(options))
	if err != nil {
		if apierrors.IsForbidden(err) {
			l.params.fail(l.watched, readableFailure(err, l.watched))
		}
		return nil, err
	}
	l.watched.succeed()
	return watched, nil
}

// readableFailure returns why params cannot be read, with what to do.
func readableFailure(err error, w *watchedParams) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("reading the params: %w", err)
	}
	where := "in all namespaces"
	if w.namespace != "" {
		where = fmt.Sprintf("in namespace '%s'", w.namespace)
	}
	return fmt.Errorf("the accounts of Kiln may not list and watch kind %s of %s %s: an administrator must grant it, see docs/how-to/policy.md: %w",
		w.kind, w.apiVersion, where, err)
}
