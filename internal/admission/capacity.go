package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The memory of a process is bounded by the bytes of the reviews in progress: to judge a review takes about eight times its size.
const (
	// maxReview is the largest review that is read: two objects of 3 MiB, the maximum of an API server, and the rest.
	maxReview = 7 << 20
	// maxInFlight bounds the size of all reviews in progress: 4 of the largest, or 5,000 of the usual size.
	maxInFlight = 4 * maxReview
	// maxHead bounds what is read to find the UID of a review for which there is no capacity. API servers write the UID first.
	maxHead = 64 << 10
)

const (
	// defaultTimeout is the API's default of a webhook's timeoutSeconds.
	defaultTimeout = 10 * time.Second
	// maxRead is how long a request may take to arrive. API servers have the whole request in memory when they call.
	maxRead = 10 * time.Second
)

// NewHTTPServer returns a server that closes the connections of clients that send or read slowly. Its handler may wait for as long as an API server waits.
func NewHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:     handler,
		ReadTimeout: maxRead, // of headers too
		// From the end of the headers, and so with the time that the handler takes.
		WriteTimeout: maxRead + defaultTimeout,
		// An API server closes an idle connection after 90 s (IdleConnTimeout of its client). A server that closes it first may do so while a request is being
		// sent: the request fails, and an API server does not repeat it.
		IdleTimeout:    3 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
}

func newCapacity() *semaphore.Weighted { return semaphore.NewWeighted(maxInFlight) }

// requestSize returns the capacity that a request takes, in bytes; false if it is too large. An unknown length counts as the largest.
func requestSize(r *http.Request) (int64, bool) {
	if r.ContentLength < 0 {
		return maxReview, true
	}
	return r.ContentLength, r.ContentLength <= maxReview
}

// requestTimeout returns how long the API server waits for the answer: parameter timeout of the URL, at most defaultTimeout.
func requestTimeout(r *http.Request) time.Duration {
	given, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || given <= 0 {
		return defaultTimeout
	}
	return min(given, defaultTimeout)
}

// answerBy returns the time by which a request that began at a time is answered or given up: a tenth of the time is left for the way back.
func answerBy(r *http.Request, began time.Time) time.Time {
	timeout := requestTimeout(r)
	return began.Add(timeout - timeout/10)
}

// acquireCapacity waits until there is capacity. A fifth of the time is left for an answer.
func (h Hook) acquireCapacity(ctx context.Context, size int64) bool {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	ctx, cancel := context.WithTimeout(ctx, left-left/5)
	defer cancel()
	return h.capacity.Acquire(ctx, size) == nil
}

// readBody reads the body into a buffer of exactly its size, if the size is known.
func readBody(w http.ResponseWriter, r *http.Request, size int64) ([]byte, error) {
	if r.ContentLength < 0 {
		size = 0
	}
	body := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxReview))
	return body.Bytes(), err
}

// tooBusy is the answer to a request for which there is no capacity.
const tooBusy = "kiln is processing as many requests as fit into its memory; try again"

// answerBusy answers a review for which there is no capacity with code 429, on which clients try again. If admission only warns in its namespace, the object is
// admitted. The answer is a review, because the API server would turn an HTTP error into an internal error, or let the request pass: it is an error only if
// the failurePolicy may decide. Only UID and namespace of the body are kept.
func (h Hook) answerBusy(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	body := http.MaxBytesReader(w, r.Body, maxReview)
	uid, namespace, err := readHead(io.LimitReader(body, maxHead))
	if err != nil {
		http.Error(w, "kiln is processing as many requests as fit into its memory, and this one has no readable UID: "+err.Error(), http.StatusTooManyRequests)
		return
	}
	if _, err := io.Copy(io.Discard, body); err != nil { // a client that is still writing would not read the answer
		return
	}
	status := apierrors.NewTooManyRequests(tooBusy, 1).ErrStatus
	response := &admissionv1.AdmissionResponse{UID: uid, Result: &status}
	warns := false
	if h.warns != nil {
		warns, _ = h.warns(ctx, namespace)
	}
	switch {
	case warns:
		admitUnjudged(response, "kiln is processing as many requests as fit into its memory")
	case h.mayYield():
		http.Error(w, tooBusy, http.StatusServiceUnavailable)
		return
	}
	answer, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Response: response,
	})
	if err != nil {
		panic(err) // a review of strings always marshals
	}
	writeReview(r.Context(), w, answer)
}

// readHead reads a review up to its UID, and on to its namespace. API servers write the fields of a request in the order of AdmissionRequest: the namespace
// stands before the operation, and an object of the cluster has none.
func readHead(review io.Reader) (uid types.UID, namespace string, err error) {
	decoder := json.NewDecoder(review)
	for _, name := range []string{"request", "uid"} {
		if err := seekField(decoder, name); err != nil {
			return "", "", err
		}
	}
	if err := decoder.Decode(&uid); err != nil {
		return "", "", err
	}
	for decoder.More() {
		switch key, err := decoder.Token(); {
		case err != nil || key == "operation":
			return uid, "", nil
		case key == "namespace":
			err := decoder.Decode(&namespace)
			return uid, namespace, err
		}
		var skipped json.RawMessage
		if decoder.Decode(&skipped) != nil {
			break
		}
	}
	return uid, "", nil
}

// seekField goes to the value of a field of the object that comes next.
func seekField(decoder *json.Decoder, name string) error {
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("no object with '%s': %w", name, err)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil || key == name {
			return err
		}
		var skipped json.RawMessage
		if err := decoder.Decode(&skipped); err != nil {
			return err
		}
	}
	return fmt.Errorf("no field '%s'", name)
}
