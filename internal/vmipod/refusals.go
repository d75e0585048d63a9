package vmipod

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// A step that is refused is tried again at an interval. Events of the VMI do not cause another try: otherwise a tenant could have this process call the API
// server as often as it writes its GuestPod. Only what the VMI waits for makes the next try due soon: an object that was created, or a quota that was freed.

// retryInterval is the interval at first. A refusal that lasts is tried again after as long as it has lasted, longestInterval at most.
const (
	retryInterval   = 10 * time.Second
	longestInterval = time.Minute
)

// refusals remembers steps that were refused. It is lost with the process, which then tries at once. The zero value is ready to use.
type refusals struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]refusal
}

type refusal struct {
	vmi          types.UID
	cause        condition.Cause
	since, until time.Time
}

// refusalOf returns the refusal that keeps a VMI from another try, nil if the next try is due.
func (r *refusals) refusalOf(key types.NamespacedName, vmi types.UID, now time.Time) *refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.byKey[key]
	if left := last.until.Sub(now); !found || last.vmi != vmi || left <= 0 || left > longestInterval {
		return nil
	}
	return &last
}

func (r *refusals) addRefusal(key types.NamespacedName, of refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey == nil {
		r.byKey = map[types.NamespacedName]refusal{}
	}
	r.byKey[key] = of
}

// retrySoon lets a refused step be tried again soon after its last try.
func (r *refusals) retrySoon(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.byKey[key]
	if next := last.since.Add(soon); found && next.Before(last.until) {
		last.until = next
		r.byKey[key] = last
	}
}

// longestRefused returns up to n VMIs of a namespace whose step was refused for this reason, those first whose last try was earliest.
func (r *refusals) longestRefused(namespace, reason string, n int) (vmis []types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, last := range r.byKey {
		if key.Namespace == namespace && last.cause.Reason == reason {
			vmis = append(vmis, key)
		}
	}
	slices.SortFunc(vmis, func(a, b types.NamespacedName) int { return r.byKey[a].since.Compare(r.byKey[b].since) })
	return vmis[:min(len(vmis), n)]
}

func (r *refusals) forgetVMI(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, key)
}

// unlessRefused does a step, unless it was refused a short time ago.
func (c *Controller) unlessRefused(s observed.Objects, do func() (*condition.Cause, error)) (o outcome, err error) {
	now := c.Now()
	if last := c.refused.refusalOf(s.Key, s.VMI.UID, now); last != nil {
		return outcome{refusal: &last.cause, after: last.until.Sub(now)}, nil
	}
	cause, err := do()
	if err == nil && (cause == nil || cause.Reason != v1alpha1.ReasonFailedCreate) {
		c.outages.Note(s.Key, "") // no webhook prevents the step
	}
	if err != nil || cause == nil {
		if err == nil {
			c.refused.forgetVMI(s.Key)
		}
		return o, err
	}
	after := nextInterval(s.VMI, *cause, now)
	c.refused.addRefusal(s.Key, refusal{s.VMI.UID, *cause, now, now.Add(after)})
	return outcome{refusal: cause, after: after}, nil
}

// nextInterval returns the time to the next try of a step that is refused for this cause.
func nextInterval(vmi *v1.VirtualMachineInstance, cause condition.Cause, now time.Time) time.Duration {
	lasted := time.Duration(0)
	if was := condition.Of(vmi, v1.VirtualMachineInstanceSynchronized); was != nil && was.Status == corev1.ConditionFalse && was.Reason == cause.Reason {
		lasted = now.Sub(was.LastTransitionTime.Time)
	}
	return min(max(lasted, retryInterval), longestInterval)
}

// nameTakenCause is the cause of a guest that does not start because somebody else's object has a name that the guest needs.
func nameTakenCause(kind, name string) *condition.Cause {
	return &condition.Cause{Reason: v1alpha1.ReasonNameTaken,
		Message: fmt.Sprintf("a %s '%s' exists that does not belong to this virtual machine instance: delete it", kind, name)}
}
