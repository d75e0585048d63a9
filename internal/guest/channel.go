package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Channel connects the launcher with its cluster. It reads the launcher's GuestPod and VMI, and writes the status of the GuestPod. Kiln's controller writes the
// rest of the GuestPod. An unavailable API server delays reports but not the guest: the Channel keeps the newest status and sends it when the server answers.
type Channel struct {
	client client.WithWatch
	name   types.NamespacedName
	podUID types.UID

	mutex sync.Mutex
	// pod is the GuestPod as last read; nil while the cluster has no GuestPod for this pod.
	pod *v1alpha1.GuestPod
	// podChanged is closed and replaced at each change of pod.
	podChanged chan struct{}
	// wanted is the status to report, sent the status that the cluster has.
	wanted, sent v1alpha1.GuestPodStatus
	// sentChanged is closed and replaced when sent changes.
	sentChanged chan struct{}
	// wake is signalled when there may be something to send.
	wake chan struct{}
}

// NewChannel returns the channel of a VMI's pod. The client needs the rights to get the VMI, to get and watch the GuestPod of the same name, and to patch its
// status.
func NewChannel(c client.WithWatch, vmi types.NamespacedName, podUID types.UID) *Channel {
	return &Channel{client: c, name: vmi, podUID: podUID, podChanged: make(chan struct{}), sentChanged: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// syncWithCluster watches the GuestPod and sends reports until ctx ends.
func (c *Channel) syncWithCluster(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { c.retryUntilDone(ctx, "the GuestPod cannot be watched", c.watchPod) })
	both.Go(func() { c.retryUntilDone(ctx, "the state of the guest cannot be reported yet", c.sendReport) })
	both.Wait()
}

// requestLimit bounds one request.
const requestLimit = 30 * time.Second

// retryUntilDone calls work until ctx ends: at once after success, and after an error with a growing delay.
func (c *Channel) retryUntilDone(ctx context.Context, failed string, work func(context.Context) error) {
	delay := newRequestBackoff()
	for ctx.Err() == nil {
		err := work(ctx)
		if err == nil {
			delay = newRequestBackoff()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		ctrl.LoggerFrom(ctx).Info(failed, "reason", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(delay.Step()):
		}
	}
}

// newRequestBackoff returns the pauses between attempts: from half a second to half a minute.
func newRequestBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second / 2, Factor: 2, Jitter: 0.5, Steps: 100, Cap: 30 * time.Second}
}

// watchPod stores each version of the GuestPod until the API server ends the watch, which is normal.
func (c *Channel) watchPod(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now := &v1alpha1.GuestPod{}
	switch err := c.client.Get(ctx, c.name, now); {
	case err == nil:
		c.storePod(now)
		c.adoptReadStatus(now)
	case apierrors.IsNotFound(err):
		c.storePod(nil)
	default:
		return err
	}
	only := []client.ListOption{client.InNamespace(c.name.Namespace), client.MatchingFields{"metadata.name": c.name.Name}}
	// Without a resource version the watch begins with the current object.
	watched, err := c.client.Watch(ctx, &v1alpha1.GuestPodList{}, only...)
	if err != nil {
		return err
	}
	defer watched.Stop()
	for event := range watched.ResultChan() {
		pod, is := event.Object.(*v1alpha1.GuestPod)
		switch {
		case event.Type == watch.Error:
			return apierrors.FromObject(event.Object)
		case !is || pod.Name != c.name.Name:
		case event.Type == watch.Deleted:
			c.storePod(nil)
		default:
			c.storePod(pod)
		}
	}
	return nil
}

// storePod stores the GuestPod if it belongs to this pod. A GuestPod of an earlier or later pod of the VMI counts as missing.
func (c *Channel) storePod(pod *v1alpha1.GuestPod) {
	if pod != nil && pod.Spec.PodUID != c.podUID {
		pod = nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if pod != nil && (c.pod == nil || c.pod.UID != pod.UID) {
		c.sent = pod.Status
	}
	c.pod = pod
	close(c.podChanged)
	c.podChanged = make(chan struct{})
	WakeReceiver(c.wake)
}

// adoptReadStatus records the status of the GuestPod that was read as the sent status, so that missing parts are sent again: etcd may have been restored while
// no watch was open.
func (c *Channel) adoptReadStatus(pod *v1alpha1.GuestPod) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pod != nil {
		c.sent = pod.Status
		WakeReceiver(c.wake)
	}
}

// awaitPod returns the GuestPod of this pod once enough returns true for it. The error is ctx.Err().
func (c *Channel) awaitPod(ctx context.Context, enough func(*v1alpha1.GuestPod) bool) (*v1alpha1.GuestPod, error) {
	for {
		c.mutex.Lock()
		pod, seen := c.pod, c.podChanged
		c.mutex.Unlock()
		if pod != nil && enough(pod) {
			return pod, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-seen:
		}
	}
}

// readVMI reads the VMI within requestLimit.
func (c *Channel) readVMI(ctx context.Context) (*v1.VirtualMachineInstance, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	found := &v1.VirtualMachineInstance{}
	if err := c.client.Get(ctx, c.name, found); err != nil {
		return nil, fmt.Errorf("the VMI cannot be read: %w", err)
	}
	return found, nil
}

// Report changes the status to report. It does not wait until the status is sent.
func (c *Channel) Report(change func(*v1alpha1.GuestPodStatus)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change(&c.wanted)
	WakeReceiver(c.wake)
}

// pendingReport returns the GuestPod and the status to send. It returns false if the status is sent already, or the GuestPod does not exist.
func (c *Channel) pendingReport() (pod *v1alpha1.GuestPod, status v1alpha1.GuestPodStatus, there bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.pod, c.wanted, c.pod != nil && !equality.Semantic.DeepEqual(c.wanted, c.sent)
}

// sendReport sends the pending report. If no report is pending, it waits until one may be, and returns.
func (c *Channel) sendReport(ctx context.Context) error {
	pod, status, there := c.pendingReport()
	if !there {
		select {
		case <-ctx.Done():
		case <-c.wake:
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	patch, err := statusPatch(pod.UID, status)
	if err != nil {
		return err
	}
	target := &v1alpha1.GuestPod{}
	target.Namespace, target.Name = pod.Namespace, pod.Name
	if err := c.client.Status().Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pod == nil || c.pod.UID != pod.UID {
		return nil // The GuestPod was recreated before the answer came: the new one does not have this status yet.
	}
	c.sent = status
	close(c.sentChanged)
	c.sentChanged = make(chan struct{})
	return nil
}

// flushReports waits until the cluster has the reported status. The error is ctx.Err().
func (c *Channel) flushReports(ctx context.Context) error {
	for {
		c.mutex.Lock()
		done, written := equality.Semantic.DeepEqual(c.wanted, c.sent), c.sentChanged
		c.mutex.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-written:
		}
	}
}

// Connect returns a client for the two kinds that a launcher reads. Their resources are built in, because discovery would cost each start some requests.
func Connect(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, resource := range map[string]string{"GuestPod": "guestpods", "GuestPodList": "guestpods"} {
		mapper.AddSpecific(v1alpha1.GroupVersion.WithKind(kind), v1alpha1.GroupVersion.WithResource(resource),
			v1alpha1.GroupVersion.WithResource("guestpod"), meta.RESTScopeNamespace)
	}
	mapper.AddSpecific(v1.VirtualMachineInstanceGroupVersionKind, v1.GroupVersion.WithResource("virtualmachineinstances"),
		v1.GroupVersion.WithResource("virtualmachineinstance"), meta.RESTScopeNamespace)
	return client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// statusPatch returns a JSON patch that replaces the status of the GuestPod with this UID. Only the launcher of the pod writes the status. A merge patch would
// keep facts that no longer hold.
func statusPatch(uid types.UID, status v1alpha1.GuestPodStatus) ([]byte, error) {
	return json.Marshal([]jsonPatchOperation{{"test", "/metadata/uid", uid}, {"add", "/status", status}})
}

// jsonPatchOperation is one operation of RFC 6902.
type jsonPatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}
