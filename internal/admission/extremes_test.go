package admission

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// extremes are reviews that nobody sends by accident, by name.
func extremes(t testing.TB) map[string][]byte {
	t.Helper()
	guest := func(spec string) []byte {
		object := fmt.Sprintf(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"a"},"spec":%s}`, spec)
		return marshalled(t, &admissionv1.AdmissionRequest{UID: "review-1", Operation: admissionv1.Create, Name: "a", Namespace: "team",
			Object: runtime.RawExtension{Raw: []byte(object)}})
	}
	const nested = 9000 // encoding/json reads 10,000 levels
	faulty := func(disks int) string {
		all := make([]string, disks)
		for i := range all {
			all[i] = fmt.Sprintf(`{"name":"d%d","cache":"wrong","io":"wrong","disk":{"bus":"ide"}}`, i)
		}
		return strings.Join(all, ",")
	}
	return map[string][]byte{
		"nothing":         nil,
		"empty":           []byte(`{}`),
		"no request":      []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`),
		"null request":    []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`),
		"another version": []byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`),
		"no object":       []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"review-1","operation":"CREATE"}}`),
		"delete": []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"review-1","operation":"DELETE",` +
			`"oldObject":{}}}`),
		"null object": []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"review-1","operation":"UPDATE",` +
			`"object":null,"oldObject":null}}`),
		"wrong types":              guest(`{"domain":{"devices":[],"memory":"1Gi"}}`),
		"plain":                    guest(`{"domain":{"memory":{"guest":"1Gi"},"devices":{}}}`),
		"a thousand faults":        guest(`{"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[` + faulty(512) + `]}}}`),
		"ten thousand disks":       guest(`{"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[` + faulty(10000) + `]}}}`),
		"three megabytes":          guest(`{"hostname":"` + strings.Repeat("x", 3<<20) + `","domain":{"memory":{"guest":"1Gi"},"devices":{}}}`),
		"three megabytes of names": guest(`{"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[{"name":"` + strings.Repeat("x", 3<<20) + `"}]}}}`),
		"deeply nested":            guest(`{"domain":{"devices":{}},"affinity":` + strings.Repeat(`{"a":`, nested) + "1" + strings.Repeat("}", nested) + `}`),
		"nested beyond":            guest(`{"domain":{"devices":{}},"affinity":` + strings.Repeat("[", 8) + strings.Repeat("]", 8) + `}`),
		"too large":                append([]byte(`{"a":"`), append([]byte(strings.Repeat("x", maxReview)), `"}`...)...),
	}
}

// Every webhook answers every extreme with a fitting status, in less than a mebibyte.
func TestExtremes(t *testing.T) {
	for name, body := range extremes(t) {
		t.Run(name, func(t *testing.T) {
			for _, path := range paths {
				send(t, newCluster(t, catalog), path, body)
			}
		})
	}
	faults := send(t, newCluster(t), ValidateVMI, extremes(t)["a thousand faults"])
	if faults == nil || faults.Result.Code != http.StatusUnprocessableEntity || !strings.HasSuffix(faults.Result.Message, " and perhaps more") ||
		len(faults.Result.Details.Causes) != 1+validate.MostErrors {
		t.Errorf("a thousand faults: %.300s", faults.Result.Message)
	}
}
