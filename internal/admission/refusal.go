package admission

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxCauses bounds the bytes of causes in a response: a spec with ten thousand mistakes must not be answered with megabytes.
const maxCauses = 256 << 10

// errorStatus returns the status for an error, and counts the error. Mistakes of the user are 422 with every cause. Any other fault is 503 and never 422,
// because clients retry a 503, and users search their manifest after a 422. An outdated request is 409, which no client sends again by itself: client-go
// repeats a 503 up to ten times, and the worker of KubeVirt's controller would wait ten seconds for the same answer.
func errorStatus(request *admissionv1.AdmissionRequest, err error) *metav1.Status {
	var mistakes *resolve.Refusal
	if errors.As(err, &mistakes) {
		countRejection(mistakes.Errors)
		return invalidStatus(request, mistakes.Errors)
	}
	if outdated := (*resolve.Outdated)(nil); errors.As(err, &outdated) {
		resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}
		return new(apierrors.NewConflict(resource, request.Name, outdated).ErrStatus)
	}
	status := apierrors.NewServiceUnavailable("kiln cannot process this request now; try again: " + err.Error()).ErrStatus
	status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return &status
}

// invalidStatus lists all mistakes, one cause each, in the shape that kubectl prints line by line.
func invalidStatus(request *admissionv1.AdmissionRequest, mistakes field.ErrorList) *metav1.Status {
	name := request.Name
	if name == "" {
		name = "(generated)" // the API server generates the name later
	}
	status := apierrors.NewInvalid(schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}, name, nil).ErrStatus
	var texts []string
	more, seen, size := "", map[string]bool{}, 0
	for i, mistake := range mistakes {
		text := mistake.Error()
		// The client gets each mistake twice, in message and causes. The limit counts only the causes.
		if size += len(mistake.Field) + len(text); size > maxCauses {
			more = fmt.Sprintf("and %d more", len(mistakes)-i)
			break
		}
		if !seen[text] { // references and VMI are judged separately, and may have the same mistake
			texts, seen[text] = append(texts, text), true
			status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
				Type: metav1.CauseType(mistake.Type), Message: mistake.ErrorBody(), Field: mistake.Field,
			})
		}
	}
	if len(mistakes) >= validate.MostErrors {
		more = "and perhaps more" // validation stops at MostErrors
	}
	if more != "" {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Message: more})
	}
	status.Message = strings.TrimSpace(status.Message + ": " + joinMessages(texts) + " " + more)
	status.Code = http.StatusUnprocessableEntity
	return &status
}

// joinMessages joins errors like an aggregate of apimachinery, which takes time and memory by the square of their number.
func joinMessages(texts []string) string {
	switch len(texts) {
	case 0:
		return ""
	case 1:
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
