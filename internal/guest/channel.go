package guest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Channel is what the launcher has of its cluster: it reads its GuestPod and its VMI, and writes the status of the first. Kiln's controller writes the rest.
// An API server that is away delays reports, and no guest: reports are collected, and the newest is sent when it is there again.
type Channel struct {
	client client.WithWatch
	name   types.NamespacedName
	podUID types.UID

	mutex sync.Mutex
	// pod is the GuestPod as it was last seen; nil before, and while there is none of this pod.
	pod *v1alpha1.GuestPod
	// seen is closed and made anew at each change of pod.
	seen chan struct{}
	// wanted is the status to report, sent the one that the cluster has.
	wanted, sent v1alpha1.GuestPodStatus
	// written is closed and made anew when sent changes.
	written chan struct{}
	// wake is signalled when there may be something to send.
	wake chan struct{}
}

// NewChannel returns the channel of a VMI's pod. The client may read the VMI, and read and watch the GuestPod, both of the VMI's name.
func NewChannel(c client.WithWatch, vmi types.NamespacedName, podUID types.UID) *Channel {
	return &Channel{client: c, name: vmi, podUID: podUID, seen: make(chan struct{}), written: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// run reads and writes until ctx ends.
func (c *Channel) run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { c.repeat(ctx, "the GuestPod cannot be watched", c.watch) })
	both.Go(func() { c.repeat(ctx, "the state of the guest cannot be reported yet", c.write) })
	both.Wait()
}

// requestLimit bounds one request.
const requestLimit = 30 * time.Second

// repeat calls work until ctx ends: at once after success, and after an error with a growing delay.
func (c *Channel) repeat(ctx context.Context, failed string, work func(context.Context) error) {
	delay := delays()
	for ctx.Err() == nil {
		err := work(ctx)
		if err == nil {
			delay = delays()
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

// delays are those between attempts: from half a second to half a minute.
func delays() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second / 2, Factor: 2, Jitter: 0.5, Steps: 100, Cap: 30 * time.Second}
}

// watch follows the GuestPod until the API server ends the watch, which is normal.
func (c *Channel) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now := &v1alpha1.GuestPod{}
	switch err := c.client.Get(ctx, c.name, now); {
	case err == nil:
		c.see(now)
		c.compare(now)
	case apierrors.IsNotFound(err):
		c.see(nil)
	default:
		return err
	}
	only := []client.ListOption{client.InNamespace(c.name.Namespace), client.MatchingFields{"metadata.name": c.name.Name}}
	// Without a resource version: the watch begins with the object as it is then.
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
			c.see(nil)
		default:
			c.see(pod)
		}
	}
	return nil
}

// see keeps the GuestPod if it is of this pod. One of an earlier or later pod of the VMI is none.
func (c *Channel) see(pod *v1alpha1.GuestPod) {
	if pod != nil && pod.Spec.PodUID != c.podUID {
		pod = nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if pod != nil && (c.pod == nil || c.pod.UID != pod.UID) {
		c.sent = pod.Status
	}
	c.pod = pod
	close(c.seen)
	c.seen = make(chan struct{})
	poke(c.wake)
}

// compare takes the status of a GuestPod that was read as the one that was sent: what it lacks is sent again. While nobody watched, etcd may have been
// restored.
func (c *Channel) compare(pod *v1alpha1.GuestPod) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pod != nil {
		c.sent = pod.Status
		poke(c.wake)
	}
}

// await returns the GuestPod of this pod when it is as the caller needs it. The error is that of ctx.
func (c *Channel) await(ctx context.Context, enough func(*v1alpha1.GuestPod) bool) (*v1alpha1.GuestPod, error) {
	for {
		c.mutex.Lock()
		pod, seen := c.pod, c.seen
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

// vmi reads the VMI.
func (c *Channel) vmi(ctx context.Context) (*v1.VirtualMachineInstance, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	found := &v1.VirtualMachineInstance{}
	if err := c.client.Get(ctx, c.name, found); err != nil {
		return nil, fmt.Errorf("the VMI cannot be read: %w", err)
	}
	return found, nil
}

// Report changes the status that is to be reported. It does not wait.
func (c *Channel) Report(change func(*v1alpha1.GuestPodStatus)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change(&c.wanted)
	poke(c.wake)
}

// unsent returns the GuestPod and the status to send; false if there is nothing to send, or no GuestPod to send it to.
func (c *Channel) unsent() (pod *v1alpha1.GuestPod, status v1alpha1.GuestPodStatus, there bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.pod, c.wanted, c.pod != nil && !equality.Semantic.DeepEqual(c.wanted, c.sent)
}

// write waits for something to send, and sends it.
func (c *Channel) write(ctx context.Context) error {
	pod, status, there := c.unsent()
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
		return nil // The GuestPod was made anew while its predecessor's answer was under way: it has none of this yet.
	}
	c.sent = status
	close(c.written)
	c.written = make(chan struct{})
	return nil
}

// flush waits until the cluster has all that was reported. The error is that of ctx.
func (c *Channel) flush(ctx context.Context) error {
	for {
		c.mutex.Lock()
		done, written := equality.Semantic.DeepEqual(c.wanted, c.sent), c.written
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
