// Package outage retries objects soon after an admission webhook that prevented their writes answers again. While the webhook does not answer, only one of its
// objects is tried each second, of whatever namespace: the intervals of the work queue grow to a quarter of an hour, and a try each second of each of 3,000 VMs
// would overload the webhook that is coming back.
package outage

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// failedCallMessage matches how the API server begins its message about a webhook that does not answer (k8s.io/apiserver, admission/plugin/webhook). Nothing
// that a tenant writes precedes the name.
var failedCallMessage = regexp.MustCompile(`^Internal error occurred: failed calling webhook "([^"]{1,253})"`)

// WebhookOf returns the name of the webhook that did not answer, by an error of the API server; empty for any other error.
func WebhookOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	if found := failedCallMessage.FindStringSubmatch(status.Status().Message); found != nil {
		return found[1]
	}
	return ""
}

// Waiting are the objects of one kind that wait for webhooks. A new process starts without any, and tries each object once. The zero value is ready to use.
type Waiting struct {
	mu        sync.Mutex
	byWebhook map[string]map[types.NamespacedName]bool
	webhookOf map[types.NamespacedName]string
	// answering are the objects whose webhook answers again.
	answering []types.NamespacedName
}

// Note records the outcome of a try: the name of the webhook that did not answer, or an empty name if all answered. If the object waited for another webhook
// before, that webhook answers again, and all objects that wait for it are tried again.
func (w *Waiting) Note(object types.NamespacedName, webhook string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.webhookOf[object]
	if before == webhook {
		return
	}
	w.removeLocked(object)
	if webhook != "" {
		if w.webhookOf == nil {
			w.webhookOf, w.byWebhook = map[types.NamespacedName]string{}, map[string]map[types.NamespacedName]bool{}
		}
		if w.byWebhook[webhook] == nil {
			w.byWebhook[webhook] = map[types.NamespacedName]bool{}
		}
		w.byWebhook[webhook][object], w.webhookOf[object] = true, webhook
	}
	for other := range w.byWebhook[before] {
		w.answering = append(w.answering, other)
		delete(w.webhookOf, other)
	}
	delete(w.byWebhook, before)
}

// Forget removes an object that is not tried any more. It does not mean that the webhook answers.
func (w *Waiting) Forget(object types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(object)
}

func (w *Waiting) removeLocked(object types.NamespacedName) {
	webhook := w.webhookOf[object]
	delete(w.webhookOf, object)
	delete(w.byWebhook[webhook], object)
	if len(w.byWebhook[webhook]) == 0 {
		delete(w.byWebhook, webhook)
	}
}

// mostWebhooks is the maximum number of webhooks that are tried in one second.
const mostWebhooks = 8

// nextToTry returns the objects that are to be tried now: one object of each webhook that does not answer, and all objects whose webhook answers again. Maps
// are iterated in random order, so that each object has its turn.
func (w *Waiting) nextToTry() (objects []types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	objects, w.answering = w.answering, nil
	tried := 0
	for _, waiting := range w.byWebhook {
		for object := range waiting {
			objects = append(objects, object)
			break
		}
		if tried++; tried == mostWebhooks {
			break
		}
	}
	return objects
}

// retryInterval is the time between two tries.
const retryInterval = time.Second

// Source returns the source of the objects that are to be tried again, for a controller of the manager. The objects of its events only have a namespace and a
// name.
func (w *Waiting) Source(mgr ctrl.Manager, to handler.EventHandler) (source.Source, error) {
	retry := make(chan event.GenericEvent)
	return source.Channel(retry, to), mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return w.sendRetries(ctx, retry) }))
}

// sendRetries sends the objects that are to be tried, each retryInterval, until the context ends.
func (w *Waiting) sendRetries(ctx context.Context, retry chan<- event.GenericEvent) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, object := range w.nextToTry() {
			partial := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
			select {
			case retry <- event.GenericEvent{Object: partial}:
			case <-ctx.Done():
				return
			}
		}
	}, retryInterval)
	return nil
}
