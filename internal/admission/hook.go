package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/shorten"
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
	// capacity bounds the bytes of all reviews in progress. All hooks share it.
	capacity *semaphore.Weighted
	// path is the path in the webhook configurations. Metrics and log contain it.
	path string
	// refusals is the verbosity of log entries of refused requests.
	refusals int
	// warns reports whether admission only warns about objects of a namespace; nil if it always refuses. An object of the cluster has no namespace. wrong is a
	// warning about the label of the namespace, or empty.
	warns func(ctx context.Context, namespace string) (warns bool, wrong string)
	// yields reports whether the failurePolicy of the webhook configuration decides about requests that Kiln cannot judge; nil if they are refused.
	yields func() bool
}

// ServeHTTP answers one review and measures it.
func (h Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	h.recordDuration(h.serveReview(w, r), began)
}

// serveReview answers one review. A review that cannot be read gets an HTTP error, because it has no request to answer. Work ends when the caller has hung up,
// or shortly before it stops waiting.
func (h Hook) serveReview(w http.ResponseWriter, r *http.Request) outcome {
	began := time.Now()
	size, ok := requestSize(r)
	if !ok {
		http.Error(w, fmt.Sprintf("the AdmissionReview must have at most %d bytes", maxReview), http.StatusRequestEntityTooLarge)
		return failed
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout(r))
	defer cancel()
	if !h.acquireCapacity(ctx, size) {
		h.answerBusy(ctx, w, r)
		return busy
	}
	inFlight.Add(float64(size))
	defer func() {
		h.capacity.Release(size)
		inFlight.Sub(float64(size))
	}()
	body, err := readBody(w, r, size)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return failed
	}
	ctx, cancel = context.WithDeadline(ctx, answerBy(r, began))
	defer cancel()
	review, came, err := h.answerReview(ctx, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return failed
	}
	if !review.Response.Allowed && came == failed && h.mayYield() && (h.path != MutateVMI || ctx.Err() != nil) {
		http.Error(w, review.Response.Result.Message, http.StatusServiceUnavailable)
		return came
	}
	written, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return failed
	}
	writeReview(ctx, w, written)
	return came
}

// mayYield reports whether the failurePolicy of the webhook decides about a request that Kiln cannot judge. Beside KubeVirt it is Ignore, except while a
// GuestPolicy denies: a fault or an overload of Kiln must not refuse what KubeVirt alone would admit. An HTTP error has this effect; a review that refuses
// the request has none. A fault in mutateVMI is still a refusal: KubeVirt's controller tries again, and the guest must not boot with other hardware because
// one read has failed. If the time is over, as while Kiln is slow, the guest starts without Kiln.
func (h Hook) mayYield() bool { return h.yields != nil && h.yields() }

// writeReview writes a review. An error, for example because the caller is gone, is only logged.
func writeReview(ctx context.Context, w http.ResponseWriter, review []byte) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(review); err != nil {
		log.FromContext(ctx).Error(err, "writing a review")
	}
}

// Answer returns the response to the JSON of an AdmissionReview of admission.k8s.io/v1, as JSON of an AdmissionReview. It returns an error if the bytes are not
// such a review.
func (h Hook) Answer(ctx context.Context, body []byte) ([]byte, error) {
	review, _, err := h.answerReview(ctx, body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(review)
}

// answerReview returns the review that answers a review, and the outcome of the request.
func (h Hook) answerReview(ctx context.Context, body []byte) (*admissionv1.AdmissionReview, outcome, error) {
	// The API server sends JSON of exactly this type to webhooks that list only v1. A decoder that first has to find out the type would read megabytes twice.
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, failed, fmt.Errorf("reading the review: %w", err)
	}
	if review.Request == nil || review.APIVersion != admissionv1.SchemeGroupVersion.String() {
		return nil, failed, errors.New("expected an AdmissionReview of admission.k8s.io/v1 with a request")
	}
	response, of := h.respondTo(ctx, review.Request)
	return &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: limitWarnings(response)}, of, nil
}

// respondTo calls the handler. It answers a panic with code 500, logs it with the request's UID, and the process goes on: one hostile object must not end
// admission of all other objects.
func (h Hook) respondTo(ctx context.Context, request *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse, of outcome) {
	response = &admissionv1.AdmissionResponse{UID: request.UID}
	began := time.Now()
	warns, wrong := false, ""
	if h.warns != nil {
		warns, wrong = h.warns(ctx, request.Namespace)
	}
	defer func() {
		if r := recover(); r != nil {
			panics.Inc()
			log.FromContext(ctx).Error(fmt.Errorf("%v", r), "panic in admission", append(h.logValues(request, began), "stack", string(debug.Stack()))...)
			*response = admissionv1.AdmissionResponse{UID: request.UID, Result: &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
				Message: fmt.Sprintf("internal error in kiln; search its log for request '%s'", request.UID),
			}}
			if of = failed; warns {
				admitUnjudged(response, response.Result.Message)
			}
		}
	}()
	given, err := h.handleBounded(ctx, request)
	response.Warnings, response.AuditAnnotations = truncateWarnings(given.warnings), auditAnnotations(given.audit)
	if wrong != "" {
		response.Warnings = append(truncateWarnings([]string{wrong}), response.Warnings...)
	}
	if err != nil && warns {
		of = warnOf(response, err)
		h.logRefusal(ctx, "request would be refused", err, h.logValues(request, began))
		if given.patch == nil {
			given.patch = h.keepAnnotations(request)
		}
	} else if err != nil {
		response.Result = errorStatus(request, err)
		h.logRefusal(ctx, "request refused", err, append(h.logValues(request, began), "code", response.Result.Code))
		return response, outcomeOf(response)
	} else {
		of = allowed
	}
	response.Allowed = true
	if log := log.FromContext(ctx).V(verbose); log.Enabled() {
		log.Info("request allowed", h.logValues(request, began)...)
	}
	if given.patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = given.patch, &kind
	}
	return response, of
}

// handleBounded calls the handler if the objects are small enough to be decoded and judged.
func (h Hook) handleBounded(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	if h.path == ValidateCarrier && request.Operation == admissionv1.Update && keepsSpec(request) { // nothing is judged, whatever the size of the object
		return answer{}, nil
	}
	if h.path == ValidateDeletion { // nothing may make an object undeletable; the handler decodes only what is within the bounds
		return h.handle(ctx, request)
	}
	over := validate.Counts(request.Object.Raw)
	if over == nil {
		over = validate.StoredCounts(request.OldObject.Raw)
	}
	switch {
	case over == nil:
		given, err := h.handle(ctx, request)
		if tooLarge := checkPatchSize(given.patch); tooLarge != nil {
			given.patch = nil
			err = cmp.Or(err, tooLarge)
		}
		return given, err
	case losesFinalizers(request):
		return answer{}, nil
	}
	return answer{}, &resolve.Refusal{Errors: field.ErrorList{over}}
}

// losesFinalizers reports whether an update may remove finalizers of an object that is being deleted: its spec stays. Such an update is admitted whatever the
// size of the object, which may be older than the limits. Any other update of the object is bounded as for other objects, because caches keep it until it is
// gone.
func losesFinalizers(request *admissionv1.AdmissionRequest) bool {
	return request.Operation == admissionv1.Update && gjson.GetBytes(request.Object.Raw, "metadata.deletionTimestamp").Str != "" && keepsSpec(request)
}

// keepsSpec reports whether an update leaves the spec as it is.
func keepsSpec(request *admissionv1.AdmissionRequest) bool {
	return gjson.GetBytes(request.Object.Raw, "spec").Raw == gjson.GetBytes(request.OldObject.Raw, "spec").Raw
}

// mostOfWarning is the length of a warning that an API server passes on to its client whatever the other warnings are, in characters. The part of a warning
// that says who set a field is beyond validate.MaxWarning. (k8s.io/apiserver, pkg/endpoints/filters/warning.go)
const mostOfWarning = 256

// truncateWarnings cuts warnings to the length that API servers pass on whole. It counts characters, because a cut within a character is not UTF-8.
func truncateWarnings(warnings []string) []string {
	for i, warning := range warnings {
		warnings[i] = shorten.Runes(warning, mostOfWarning)
	}
	return warnings
}

// unreadable is the refusal of an object that does not fit its type.
type unreadable struct{ refusal *resolve.Refusal }

func (u *unreadable) Error() string { return u.refusal.Error() }

func (u *unreadable) Unwrap() error { return u.refusal }

// skipUnreadable allows an object that cannot be read. Mutating webhooks run before the schema check of the API server, whose errors name the field better than
// a decoder can. The validating webhook refuses what the schema accepts.
func skipUnreadable(handle handler) handler {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
		given, err := handle(ctx, request)
		if errors.As(err, new(*unreadable)) {
			return answer{}, nil
		}
		return given, err
	}
}
