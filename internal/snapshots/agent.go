package snapshots

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
)

// Agent quiets the file systems of a guest.
type Agent interface {
	// Freeze has the guest agent freeze all file systems. The guest's launcher thaws them after the limit: whoever asks may die.
	Freeze(ctx context.Context, guest types.NamespacedName, limit time.Duration) error
	// Thaw ends a freeze. A guest that is not frozen is left alone.
	Thaw(ctx context.Context, guest types.NamespacedName) error
}

// Subresources are an Agent by Kiln's API server of subresources, which Kubernetes' API server passes requests on to.
type Subresources struct{ client rest.Interface }

// NewSubresources returns one with the rights of a client.
func NewSubresources(config *rest.Config, client *http.Client) (*Subresources, error) {
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion = "/apis", &schema.GroupVersion{Group: v1.SubresourceGroupName, Version: v1.GroupVersion.Version}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // errors are of this version
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	own.ContentConfig.ContentType, own.ContentConfig.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	made, err := rest.RESTClientForConfigAndClient(own, client)
	return &Subresources{made}, err
}

// Freeze implements Agent.
func (s *Subresources) Freeze(ctx context.Context, guest types.NamespacedName, limit time.Duration) error {
	body, err := json.Marshal(v1.FreezeUnfreezeTimeout{UnfreezeTimeout: &metav1.Duration{Duration: limit}})
	if err != nil {
		return err
	}
	return s.put(ctx, guest, "freeze", body)
}

// Thaw implements Agent.
func (s *Subresources) Thaw(ctx context.Context, guest types.NamespacedName) error {
	return s.put(ctx, guest, "unfreeze", nil)
}

// put asks once: the caller knows what an answer that does not come means.
func (s *Subresources) put(ctx context.Context, guest types.NamespacedName, action string, body []byte) error {
	return s.client.Put().Namespace(guest.Namespace).Resource("virtualmachineinstances").Name(guest.Name).SubResource(action).
		MaxRetries(0).Body(body).Do(ctx).Error()
}

const (
	// answerLimit bounds the time for an answer of a guest. The API server of subresources waits as long for a launcher.
	answerLimit = 30 * time.Second
	// answerKept is how long an answer waits to be fetched.
	answerKept = time.Minute
	// answerPoll is how often it is looked for.
	answerPoll = 500 * time.Millisecond
	// mostAsked is how many guests of a namespace are asked at a time: their tenant may have them never answer.
	mostAsked = 16
)

// asks are questions to guests that have no answer yet, or one that is not fetched. A guest may take its time to answer: no worker waits for it.
type asks struct {
	mutex sync.Mutex
	all   map[question]*answer
	// life ends when the manager stops; nil before Start. running counts the questions without an answer.
	life    context.Context //nolint:containedctx // it ends with the process, not with a call
	running sync.WaitGroup
	// begin starts a function beside the caller; nil stands for a goroutine. Tests wait for it.
	begin func(func())
}

// Start implements manager.Runnable: questions end with the manager, which waits for them. A guest that was asked to freeze and not yet to thaw is thawed by
// its launcher, or asked again by the next controller.
func (a *asks) Start(ctx context.Context) error {
	a.mutex.Lock()
	a.life = ctx
	a.mutex.Unlock()
	<-ctx.Done()
	a.running.Wait()
	return nil
}

// question is an action on the guest of a snapshot.
type question struct {
	guest    types.NamespacedName
	snapshot types.UID
	action   string
}

type answer struct {
	done bool
	err  error
}

// ask asks, once, and returns the answer when it is there.
func (a *asks) ask(of question, call func(context.Context) error) (done bool, err error) {
	a.mutex.Lock()
	found := a.all[of]
	switch {
	case found != nil && found.done:
		delete(a.all, of)
		a.mutex.Unlock()
		return true, found.err
	case found != nil || a.asked(of.guest.Namespace) >= mostAsked:
		a.mutex.Unlock()
		return false, nil
	}
	if a.all == nil {
		a.all = map[question]*answer{}
	}
	next := &answer{}
	a.all[of] = next
	a.mutex.Unlock()
	a.start(func(ctx context.Context) {
		err := call(ctx)
		a.mutex.Lock()
		defer a.mutex.Unlock()
		next.done, next.err = true, err
		time.AfterFunc(answerKept, func() { a.drop(of, next) })
	})
	return a.fetch(of, next)
}

// fetch returns an answer that is there already.
func (a *asks) fetch(of question, from *answer) (done bool, err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if from.done && a.all[of] == from {
		delete(a.all, of)
		return true, from.err
	}
	return false, nil
}

// start does a piece of work beside the caller, for at most answerLimit and as long as the manager runs.
func (a *asks) start(work func(context.Context)) {
	bounded := func() {
		ctx, cancel := context.WithTimeout(a.lifetime(), answerLimit)
		defer cancel()
		work(ctx)
	}
	if a.begin != nil {
		a.begin(bounded)
		return
	}
	a.running.Go(bounded)
}

// lifetime returns the context of the manager. Reconcilers may run a moment before Start does.
func (a *asks) lifetime() context.Context {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.life == nil {
		return context.Background()
	}
	return a.life
}

// asked counts the guests of a namespace that are asked now.
func (a *asks) asked(namespace string) (n int) {
	for of, answer := range a.all {
		if of.guest.Namespace == namespace && !answer.done {
			n++
		}
	}
	return n
}

// drop forgets an answer that nobody has fetched.
func (a *asks) drop(of question, unless *answer) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.all[of] == unless {
		delete(a.all, of)
	}
}

// open reports whether a question waits for its answer. One that is there is forgotten.
func (a *asks) open(of question) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	found := a.all[of]
	if found != nil && found.done {
		delete(a.all, of)
	}
	return found != nil && !found.done
}
