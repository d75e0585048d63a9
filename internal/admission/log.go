package admission

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// verbose is the verbosity of entries that are logged from the level debug on: slog.LevelDebug is -4.
const verbose = 4

// mostRules bounds the rules in a log entry.
const mostRules = 10

// logValues returns the keys and values of a log entry about a request. The answer to the user contains the UID, too. The API server's audit log does not
// contain it: search there for the account. metadata.name is empty if the API server generates it.
func (h Hook) logValues(request *admissionv1.AdmissionRequest, began time.Time) []any {
	return []any{
		"uid", request.UID, "path", h.path, "operation", request.Operation, "kind", request.Kind.Kind, "subresource", request.SubResource,
		"namespace", request.Namespace, "name", request.Name, "user", request.UserInfo.Username, "seconds", time.Since(began).Seconds(),
	}
}

// logRefusal logs what happened to a request that breaks a rule, and why. Of the user's mistakes it logs only the rules, because paths and messages quote what
// the user wrote, perhaps a password. It is not a fault if work ended because the caller has gone.
func (h Hook) logRefusal(ctx context.Context, what string, err error, about []any) {
	var mistakes *resolve.Refusal
	switch {
	case errors.As(err, &mistakes):
		rules := rulesOf(mistakes.Errors)
		log.FromContext(ctx).V(h.refusals).Info(what, append(about, "rules", rules[:min(len(rules), mostRules)], "mistakes", len(mistakes.Errors))...)
	case errors.As(err, new(*resolve.Outdated)):
		log.FromContext(ctx).V(h.refusals).Info(what, append(about, "reason", err.Error())...)
	case ctx.Err() != nil:
		log.FromContext(ctx).V(verbose).Info("request abandoned", append(about, "reason", ctx.Err().Error())...)
	default:
		log.FromContext(ctx).Error(err, "request failed", about...)
	}
}

// outcomeOf returns the outcome of a response.
func outcomeOf(response *admissionv1.AdmissionResponse) outcome {
	switch {
	case response.Allowed:
		return allowed
	case response.Result.Code == http.StatusUnprocessableEntity:
		return denied
	case response.Result.Code == http.StatusConflict:
		return outdated
	}
	return failed
}

// rulesOf returns the rules that mistakes break, in the order of their names. The Origin of a mistake is the name of its rule; a test requires one for each
// rule.
func rulesOf(mistakes field.ErrorList) []string {
	rules := sets.New[string]()
	for _, mistake := range mistakes {
		rule := mistake.Origin
		if rule == "" {
			rule = ruleOther
		}
		rules.Insert(rule)
	}
	return sets.List(rules)
}
