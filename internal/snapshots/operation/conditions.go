package operation

import (
	"slices"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// ConditionText is the content of a condition. KubeVirt writes sentences into the reasons of these conditions, and no messages. Kiln's reasons are
// words, and its messages are the sentences.
type ConditionText struct {
	Status          corev1.ConditionStatus
	Reason, Message string
}

// ConditionTrue returns the content of a condition that is True.
func ConditionTrue(reason, message string) ConditionText {
	return ConditionText{corev1.ConditionTrue, reason, message}
}

// ConditionFalse returns the content of a condition that is False.
func ConditionFalse(reason, message string) ConditionText {
	return ConditionText{corev1.ConditionFalse, reason, message}
}

// SetCondition returns conditions with one of them set. Its time changes only with its status.
func SetCondition(all []api.Condition, kind api.ConditionType, text ConditionText, now time.Time) []api.Condition {
	next := api.Condition{Type: kind, Status: text.Status, Reason: text.Reason, Message: condition.Message(text.Message),
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	i := slices.IndexFunc(all, func(c api.Condition) bool { return c.Type == kind })
	if i < 0 {
		return append(all, next)
	}
	if all[i].Status == next.Status {
		next.LastTransitionTime = all[i].LastTransitionTime
	}
	all[i] = next
	return all
}

// FindCondition returns the condition of a type, and nil if it does not exist.
func FindCondition(all []api.Condition, kind api.ConditionType) *api.Condition {
	i := slices.IndexFunc(all, func(c api.Condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// HasFailed reports whether the condition Failure is True.
func HasFailed(all []api.Condition) bool {
	c := FindCondition(all, api.ConditionFailure)
	return c != nil && c.Status == corev1.ConditionTrue
}

// TimeSince returns how long ago the status of a condition changed, and 0 if there is no such condition. Both times are from the clock of this
// controller, unlike the creation time of the object, which is from the clock of the API server.
func TimeSince(all []api.Condition, kind api.ConditionType, now time.Time) time.Duration {
	c := FindCondition(all, kind)
	if c == nil {
		return 0
	}
	return now.Sub(c.LastTransitionTime.Time)
}

// NewError returns an error for a status.
func NewError(message string, now time.Time) *api.Error {
	at := metav1.NewTime(now.Truncate(time.Second))
	return &api.Error{Time: &at, Message: &message}
}

// ErrorMessage returns the message of an error of a status, and the default if there is no error or no message.
func ErrorMessage(err *api.Error, defaultMessage string) string {
	if err == nil || err.Message == nil {
		return defaultMessage
	}
	return *err.Message
}
