package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Hook answers the reviews of one path.
type Hook struct {
	handle handler
	// capacity bounds the bytes of all reviews in progress, those of the other hooks included.
	capacity *semaphore.Weighted
}

// ServeHTTP answers one review. Reviews that cannot be read get an HTTP error, since they have no request to answer. Work ends when
// the caller has hung up, or has stopped waiting.
func (h Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, ok := weight(r)
	if !ok {
		http.Error(w, fmt.Sprintf("the AdmissionReview must have at most %d bytes", maxReview), http.StatusRequestEntityTooLarge)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout(r))
	defer cancel()
	if !h.acquire(ctx, size) {
		tooBusy(w, r)
		return
	}
	defer h.capacity.Release(size)
	body, err := read(w, r, size)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	response, err := h.Answer(ctx, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(ctx, w, response)
}

// reply writes a review. The caller may be gone: that is logged and nothing else.
func reply(ctx context.Context, w http.ResponseWriter, review []byte) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(review); err != nil {
		log.FromContext(ctx).Error(err, "writing a review")
	}
}

// Answer turns the JSON of an admission.k8s.io/v1 AdmissionReview with a request into one with the response. The error is
// for bytes that are no such review.
func (h Hook) Answer(ctx context.Context, body []byte) ([]byte, error) {
	// The API server speaks JSON of exactly this type to webhooks that list v1 alone; a decoder that first has to find
	// out the type would read megabytes twice.
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, fmt.Errorf("reading the review: %w", err)
	}
	if review.Request == nil || review.APIVersion != admissionv1.SchemeGroupVersion.String() {
		return nil, errors.New("expected an AdmissionReview of admission.k8s.io/v1 with a request")
	}
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: bounded(review.Request, h.respond(ctx, review.Request))})
}

// respond calls the handler. A panic is answered with code 500 and logged with the request's UID, and the process goes on: one hostile object must
// not take admission from all others.
func (h Hook) respond(ctx context.Context, request *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse) {
	response = &admissionv1.AdmissionResponse{UID: request.UID}
	defer func() {
		if r := recover(); r != nil {
			log.FromContext(ctx).Error(fmt.Errorf("%v", r), "panic in admission", "uid", request.UID, "stack", string(debug.Stack()))
			*response = admissionv1.AdmissionResponse{UID: request.UID, Result: &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
				Message: fmt.Sprintf("internal error in kiln; search its log for request '%s'", request.UID),
			}}
		}
	}()
	given, err := h.judge(ctx, request)
	response.Warnings = short(given.warnings)
	if err != nil {
		response.Result = refusal(request, err)
		if response.Result.Code >= http.StatusInternalServerError && ctx.Err() == nil { // the caller still waits
			log.FromContext(ctx).Error(err, "request failed", "uid", request.UID, "namespace", request.Namespace, "name", request.Name)
		}
		return response
	}
	response.Allowed = true
	if given.patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = given.patch, &kind
	}
	return response
}

// judge calls the handler for objects that are small enough to be decoded and judged. An object that is being deleted is admitted,
// however large it is.
func (h Hook) judge(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	over := validate.Counts(request.Object.Raw)
	if over == nil {
		over = validate.StoredCounts(request.OldObject.Raw)
	}
	switch {
	case over == nil:
		return h.handle(ctx, request)
	case gjson.GetBytes(request.Object.Raw, "metadata.deletionTimestamp").Str != "":
		return answer{}, nil
	}
	return answer{}, &resolve.Refusal{Errors: field.ErrorList{over}}
}

// short cuts warnings to the length that clients of an API server print whole. Runes are counted: a cut within one is no UTF-8.
func short(warnings []string) []string {
	for i, warning := range warnings {
		if runes := []rune(warning); len(runes) > validate.MaxWarning {
			warnings[i] = string(runes[:validate.MaxWarning-1]) + "…"
		}
	}
	return warnings
}

// unreadable is the refusal of an object that does not fit its type.
type unreadable struct{ refusal *resolve.Refusal }

func (u *unreadable) Error() string { return u.refusal.Error() }

func (u *unreadable) Unwrap() error { return u.refusal }

// skipUnreadable leaves an object that cannot be read to the API server. Mutating webhooks run before its schema check, whose errors name the field
// better than a decoder can. What the schema lets through is refused by the validating webhook.
func skipUnreadable(handle handler) handler {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
		given, err := handle(ctx, request)
		var unread *unreadable
		if errors.As(err, &unread) {
			return answer{}, nil
		}
		return given, err
	}
}
