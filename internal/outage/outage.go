// Package outage has objects tried again soon after an admission webhook answers again that has kept them from being written. While it does not answer, one of
// its objects is tried each second, whoever's it is: the work queue's own intervals grow to a quarter of an hour, and a try a second of each of 3,000 VMs
// would keep down the webhook that comes back.
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

// failedCall is how the API server begins its message about a webhook that does not answer (k8s.io/apiserver, admission/plugin/webhook). Nothing that a tenant
// writes comes before the name.
var failedCall = regexp.MustCompile(`^Internal error occurred: failed calling webhook "([^"]{1,253})"`)

// WebhookOf returns the webhook that has not answered by an error of the API server; empty for another error.
func WebhookOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	if found := failedCall.FindStringSubmatch(status.Status().Message); found != nil {
		return found[1]
	}
	return ""
}

// Waiting are the objects of one kind that wait for webhooks. It is lost with the process, which then tries each object once. The zero value is ready to use.
type Waiting struct {
	mu        sync.Mutex
	byWebhook map[string]map[types.NamespacedName]bool
	webhookOf map[types.NamespacedName]string
	// answering are the objects of webhooks that answer again.
	answering []types.NamespacedName
}

// Note notes the outcome of a try: the webhook that has not answered, or empty. Where an object has waited for a webhook and now does not, the webhook answers,
// and all others that wait for it are tried again.
func (w *Waiting) Note(object types.NamespacedName, webhook string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.webhookOf[object]
	if before == webhook {
		return
	}
	w.removeObject(object)
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

// Forget drops an object that is not tried any more. It says nothing of the webhook.
func (w *Waiting) Forget(object types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeObject(object)
}

func (w *Waiting) removeObject(object types.NamespacedName) {
	webhook := w.webhookOf[object]
	delete(w.webhookOf, object)
	delete(w.byWebhook[webhook], object)
	if len(w.byWebhook[webhook]) == 0 {
		delete(w.byWebhook, webhook)
	}
}

// mostWebhooks bounds the webhooks that are tried in a second.
const mostWebhooks = 8

// nextToTry returns the objects that are to be tried now: one of each webhook that does not answer, and all whose webhook answers again. Maps are walked in an
// order that changes, so that each object has its turn.
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

// interval is the time between two tries.
const interval = time.Second

// Source returns the source of the objects that are to be tried again, for a controller of the manager. Their events have a namespace and a name alone.
func (w *Waiting) Source(mgr ctrl.Manager, to handler.EventHandler) (source.Source, error) {
	retry := make(chan event.GenericEvent)
	return source.Channel(retry, to), mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return w.retryInTurn(ctx, retry) }))
}

// retryInTurn sends the objects of each second until the context ends.
func (w *Waiting) retryInTurn(ctx context.Context, retry chan<- event.GenericEvent) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, object := range w.nextToTry() {
			of := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
			select {
			case retry <- event.GenericEvent{Object: of}:
			case <-ctx.Done():
				return
			}
		}
	}, interval)
	return nil
}
