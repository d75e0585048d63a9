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

// The most that a request may have, in bytes: a VM for expand-vm-spec, which etcd bounds, and options.
const (
	largestVM   = 2 << 20
	largestBody = 64 << 10
)

// read returns the body of a request.
func read(r *http.Request, largest int64) ([]byte, error) {
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

// decode reads a body, JSON or YAML, into options; an empty body leaves them as they are. A field that is unknown is ignored with a warning: a newer client
// may send it. With a mistake in the text nothing is done.
func (c call) decode(options any) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	text := c.body
	if !json.Valid(text) {
		var err error
		if text, err = yaml.YAMLToJSON(c.body); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("the body is no JSON, and no YAML: %v", err))
		}
	}
	if over := validate.Counts(text); over != nil {
		return apierrors.NewBadRequest(over.Error())
	}
	strict, err := kjson.UnmarshalStrict(text, options)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is no %T: %v", options, err))
	}
	for _, unknown := range strict {
		warning.AddWarning(c.request.Context(), "", unknown.Error())
	}
	return nil
}

// dryRun returns the options of a patch by dryRun of a body. Kubernetes knows one value.
func dryRun(values []string) ([]string, error) {
	for i, value := range values {
		if value != metav1.DryRunAll {
			return nil, apierrors.NewBadRequest(field.NotSupported(field.NewPath("dryRun").Index(i), value, []string{metav1.DryRunAll}).Error())
		}
	}
	return values, nil
}

// write sends an answer. An error that has no status of Kubernetes is this server's own, and logged.
func write(w http.ResponseWriter, r *http.Request, answer reply, err error) {
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			ctrl.LoggerFrom(r.Context()).Error(err, "a request failed", "path", r.URL.Path)
			status = apierrors.NewInternalError(err)
		}
		said := status.Status()
		said.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		answer = reply{code: int(said.Code), object: said}
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
	_, _ = w.Write(text) // a caller who has gone away needs none
}

// conflict says that a VM is not in the state that a request needs.
func conflict(vm, format string, args ...any) error {
	return apierrors.NewConflict(v1.Resource("virtualmachine"), vm, fmt.Errorf(format, args...))
}

// guestConflict says that of a VMI.
func guestConflict(vmi, format string, args ...any) error {
	return apierrors.NewConflict(v1.Resource("virtualmachineinstance"), vmi, fmt.Errorf(format, args...))
}
