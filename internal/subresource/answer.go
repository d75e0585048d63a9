package subresource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/kilnvm/kiln/pkg/validate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The largest bodies of requests, in bytes: a VM for expand-vm-spec, which etcd bounds, and options.
const (
	largestVM      = 2 << 20
	largestOptions = 64 << 10
)

// readBody returns the body of a request, or an error with status 413 or 400.
func readBody(r *http.Request, largest int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, largest))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body has more than %d bytes", largest))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the body cannot be read: " + err.Error())
	}
	return body, nil
}

// decodeBody reads a body, JSON or YAML, into options; an empty body does not change them. It ignores an unknown field with a warning, because a newer client
// may send it. A body with a syntax error is refused.
func (c call) decodeBody(options any) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	text := c.body
	if !json.Valid(text) {
		var err error
		if text, err = yaml.YAMLToJSON(c.body); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("the body is neither JSON nor YAML: %v", err))
		}
	}
	if over := validate.Counts(text); over != nil {
		return apierrors.NewBadRequest(over.Error())
	}
	strict, err := kjson.UnmarshalStrict(text, options)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is not a %T: %v", options, err))
	}
	for _, unknown := range strict {
		warning.AddWarning(c.request.Context(), "", unknown.Error())
	}
	return nil
}

// dryRun returns the values of dryRun in a body as the option of a patch. Kubernetes knows one value.
func dryRun(values []string) ([]string, error) {
	for i, value := range values {
		if value != metav1.DryRunAll {
			return nil, apierrors.NewBadRequest(field.NotSupported(field.NewPath("dryRun").Index(i), value, []string{metav1.DryRunAll}).Error())
		}
	}
	return values, nil
}

// writeAnswer sends an answer. An error without a Kubernetes status is a fault of this server: it is logged, and answered with 500.
func writeAnswer(w http.ResponseWriter, r *http.Request, answer reply, err error) {
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			ctrl.LoggerFrom(r.Context()).Error(err, "a request failed", "path", r.URL.Path)
			status = apierrors.NewInternalError(err)
		}
		failure := status.Status()
		failure.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		answer = reply{code: int(failure.Code), object: failure}
	}
	if answer.object == nil {
		w.WriteHeader(answer.code)
		return
	}
	text, err := json.Marshal(answer.object)
	if err != nil {
		ctrl.LoggerFrom(r.Context()).Error(err, "an answer cannot be written", "path", r.URL.Path)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.code)
	_, _ = w.Write(text) // an error means that the caller has closed the connection
}

// vmConflict returns the error (409) of a request that needs the VM in another state.
func vmConflict(vm, format string, args ...any) error {
	return apierrors.NewConflict(v1.Resource("virtualmachine"), vm, fmt.Errorf(format, args...))
}

// vmiConflict returns the error (409) of a request that needs the VMI in another state.
func vmiConflict(vmi, format string, args ...any) error {
	return apierrors.NewConflict(v1.Resource("virtualmachineinstance"), vmi, fmt.Errorf(format, args...))
}
