package snapshots

import (
	"slices"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// KubeVirt writes sentences into the reasons of these conditions, and no messages. Kiln's reasons are words, and its messages the sentences.

// said is what a condition says.
type said struct {
	status          corev1.ConditionStatus
	reason, message string
}

func yes(reason, message string) said { return said{corev1.ConditionTrue, reason, message} }

func no(reason, message string) said { return said{corev1.ConditionFalse, reason, message} }

// put sets a condition. Its time stays while its status does.
func put(all []api.Condition, of api.ConditionType, what said, now time.Time) []api.Condition {
	next := api.Condition{Type: of, Status: what.status, Reason: what.reason, Message: condition.Message(what.message),
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	i := slices.IndexFunc(all, func(c api.Condition) bool { return c.Type == of })
	if i < 0 {
		return append(all, next)
	}
	if all[i].Status == next.Status {
		next.LastTransitionTime = all[i].LastTransitionTime
	}
	all[i] = next
	return all
}

// find returns a condition; nil if there is none.
func find(all []api.Condition, of api.ConditionType) *api.Condition {
	i := slices.IndexFunc(all, func(c api.Condition) bool { return c.Type == of })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// failed reports whether the condition Failure is True.
func failed(all []api.Condition) bool {
	c := find(all, api.ConditionFailure)
	return c != nil && c.Status == corev1.ConditionTrue
}

// since returns how long ago a condition was first set, by the clock of this process: the time of creation is that of another clock.
func since(all []api.Condition, of api.ConditionType, now time.Time) time.Duration {
	c := find(all, of)
	if c == nil {
		return 0
	}
	return now.Sub(c.LastTransitionTime.Time)
}
