package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

const (
	validateVM  = "/validate/virtualmachines"
	validateVMI = "/validate/virtualmachineinstances"

	// answerLimit bounds what the webhook may answer, whatever it is asked.
	answerLimit = 1 << 20
	// stored is about the largest object that etcd takes.
	stored = 3 << 20
)

// reviewOf is a review of the creation of an object, which need not be legible.
func reviewOf(object string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"robust","operation":"CREATE","dryRun":true,` +
		`"namespace":"default","name":"big","kind":{"group":"kubevirt.io","version":"v1","kind":"VirtualMachineInstance"},"object":` + object + `}}`
}

// guestOf is a VMI with n disks as given, %d being their number.
func guestOf(n int, disk string) string {
	var disks strings.Builder
	for i := range n {
		if i > 0 {
			disks.WriteByte(',')
		}
		fmt.Fprintf(&disks, disk, i)
	}
	return `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"big"},
		"spec":{"domain":{"memory":{"guest":"64Mi"},"devices":{"disks":[` + disks.String() + `]}}}}`
}

// nics are interfaces that are each to be warned about: ports without the pod's network.
func nics(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"name":"n%d","bridge":{},"ports":[{"port":80}]}`, i)
	}
	return strings.Join(all, ",")
}

// inside is a VM of such a guest.
func inside(object string) string {
	return `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"big"},"spec":{"runStrategy":"Halted","template":{"spec":` +
		strings.TrimSuffix(strings.SplitN(object, `"spec":`, 2)[1], "}") + `}}}`
}

// Whatever comes, the real server answers soon, with the right status, and never with megabytes.
func TestHugeAndBrokenReviews(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)
	note := strings.NewReplacer(`"name":"big"`, `"name":"big","annotations":{"note":"`+strings.Repeat("x", stored)+`"}`)
	legal, wide := note.Replace(guestOf(0, "")), note.Replace(guestOf(1, `{"name":"d%d"}`))
	wrong := guestOf(10_000, `{"name":"D_%d","disk":{"bus":"none"}}`)
	long := strings.Replace(guestOf(1, `{"name":"d%d"}`), `"d0"`, `"`+strings.Repeat("x", stored)+`"`, 1)
	warned := strings.Replace(guestOf(1, `{"name":"d%d"}`), `"disks":[`, `"interfaces":[`+nics(10_000)+`],"disks":[`, 1)
	many := guestOf(stored/len(`{"name":"d12345"},`), `{"name":"d%d"}`)
	for _, test := range []struct {
		name, path, body string
		status           int
		allowed          bool
	}{
		{"nothing", mutateVMI, "", http.StatusBadRequest, false},
		{"no request", mutateVMI, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, http.StatusBadRequest, false},
		{"an older version", mutateVMI, strings.Replace(reviewOf("{}"), "/v1", "/v1beta1", 1), http.StatusBadRequest, false},
		{"half a review", validateVM, reviewOf(wide)[:stored], http.StatusBadRequest, false},
		{"more than two objects of any size", mutateVM, reviewOf(`"` + strings.Repeat("x", 8<<20) + `"`), http.StatusRequestEntityTooLarge, false},
		{"an object nested without an end", mutateVMI, reviewOf(deep), http.StatusBadRequest, false},
		{"no object, mutating", mutateVMI, reviewOf("null"), http.StatusOK, true},
		{"no object, validating", validateVMI, reviewOf("null"), http.StatusOK, false},
		{"an object of another shape, validating", validateVM, reviewOf(`{"spec":[1]}`), http.StatusOK, false},
		{"3 MiB, mutating", mutateVMI, reviewOf(legal), http.StatusOK, true},
		{"3 MiB, validating", validateVMI, reviewOf(wide), http.StatusOK, false},
		{"10,000 errors", validateVMI, reviewOf(wrong), http.StatusOK, false},
		{"10,000 errors in a VM", validateVM, reviewOf(inside(wrong)), http.StatusOK, false},
		{"a name of 3 MiB", validateVMI, reviewOf(long), http.StatusOK, false},
		{"10,000 warnings", validateVMI, reviewOf(warned), http.StatusOK, false},
		{"3 MiB of disks, mutating", mutateVMI, reviewOf(many), http.StatusOK, false},
		{"3 MiB of disks, validating", validateVMI, reviewOf(many), http.StatusOK, false},
		{"3 MiB of disks in a VM", validateVM, reviewOf(inside(many)), http.StatusOK, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := webhookClient()
			client.Timeout = time.Minute // of a busy machine; it takes less than a second on an idle one
			began := time.Now()
			answer, err := client.Post(shared.Webhook+test.path, "application/json", strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes asked, %d answered in %s", len(test.body), len(body), time.Since(began).Round(time.Millisecond))
			if answer.StatusCode != test.status || len(body) > answerLimit {
				t.Errorf("status %d with %d bytes, want %d with at most %d: %s", answer.StatusCode, len(body), test.status, answerLimit, body[:min(len(body), 300)])
			}
			if test.status != http.StatusOK {
				return
			}
			var review admissionv1.AdmissionReview
			if err := json.NewDecoder(bytes.NewReader(body)).Decode(&review); err != nil || review.Response == nil {
				t.Fatalf("no answer: %v: %s", err, body[:min(len(body), 300)])
			}
			response := review.Response
			if response.UID != "robust" || response.Allowed != test.allowed {
				t.Errorf("uid '%s', allowed %t, want %t: %v", response.UID, response.Allowed, test.allowed, response.Result)
			}
			if !response.Allowed && (response.Result == nil || response.Result.Code != http.StatusUnprocessableEntity) {
				t.Errorf("want 422, since the mistake is the user's: %+v", response.Result)
			}
		})
	}
}
