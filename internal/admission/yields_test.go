package admission

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestYields: beside KubeVirt the failurePolicy decides about what Kiln cannot judge. An API server takes an HTTP error as no answer, and a review as the
// answer.
func TestYields(t *testing.T) {
	fault := func(context.Context, *admissionv1.AdmissionRequest) (answer, error) {
		return answer{}, errors.New("etcd is full")
	}
	mistake := func(context.Context, *admissionv1.AdmissionRequest) (answer, error) {
		return answer{}, &resolve.Refusal{Errors: field.ErrorList{field.Required(nil, "a field")}}
	}
	slow := func(ctx context.Context, _ *admissionv1.AdmissionRequest) (answer, error) {
		<-ctx.Done()
		return answer{}, ctx.Err()
	}
	for _, test := range []struct {
		why, path string
		beside    bool
		handle    handler
		capacity  int64
		// status is the status of HTTP, and code the code within the review.
		status int
		code   string
		took   time.Duration
	}{
		{"a fault", ValidateVM, true, fault, 1 << 10, http.StatusServiceUnavailable, "", 0},
		{"a fault without KubeVirt", ValidateVM, false, fault, 1 << 10, http.StatusOK, `"code":503`, 0},
		{"the record of a guest cannot be read: KubeVirt tries again", MutateVMI, true, fault, 1 << 10, http.StatusOK, `"code":503`, 0},
		{"the mistake of a user", ValidateVM, true, mistake, 1 << 10, http.StatusOK, `"code":422`, 0},
		{"no time left", MutateVM, true, slow, 1 << 10, http.StatusServiceUnavailable, "", 900 * time.Millisecond},
		{"no time left without KubeVirt", MutateVM, false, slow, 1 << 10, http.StatusOK, `"code":503`, 900 * time.Millisecond},
		{"a guest does not wait for a slow Kiln", MutateVMI, true, slow, 1 << 10, http.StatusServiceUnavailable, "", 900 * time.Millisecond},
		{"no capacity", MutateVM, true, fault, 1, http.StatusServiceUnavailable, "", 800 * time.Millisecond},
		{"no capacity without KubeVirt", MutateVM, false, fault, 1, http.StatusOK, `"code":429`, 800 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			hook := Hook{handle: test.handle, path: test.path, capacity: semaphore.NewWeighted(test.capacity), yields: func() bool { return test.beside }}
			recorder, began := httptest.NewRecorder(), time.Now()
			hook.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/?timeout=1s", bytes.NewReader(reviewBody("a", 100))))
			if took := time.Since(began); recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.code) || took != test.took {
				t.Errorf("%s: status %d after %s: %s", test.why, recorder.Code, took, recorder.Body)
			}
		})
	}
}
