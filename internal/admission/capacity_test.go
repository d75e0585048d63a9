package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// reviewBody is a review of the UID, padded to a size.
func reviewBody(uid string, size int) []byte {
	head := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"` + uid + `","operation":"CREATE","object":{"a":"`
	return []byte(head + strings.Repeat("x", max(size-len(head)-4, 0)) + `"}}}`)
}

// post sends a review to a server, as the API server does, and reads the answer.
func post(t *testing.T, url string, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	answer, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	var review admissionv1.AdmissionReview
	if err != nil || answer.StatusCode != http.StatusOK || json.Unmarshal(raw, &review) != nil || review.Response == nil {
		t.Fatalf("status %d, %v: %.300s", answer.StatusCode, err, raw)
	}
	return review.Response
}

// While the reviews at hand take all the capacity, another one waits for as long as its caller does, and is answered with 429.
func TestTooManyBytesInFlight(t *testing.T) {
	const size = 1 << 20
	at, done := make(chan types.UID), make(chan struct{})
	hook := Hook{handle: func(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
		at <- request.UID
		<-done
		return answer{}, nil
	}, capacity: semaphore.NewWeighted(2 * size)}
	server := httptest.NewServer(hook)
	defer server.Close()
	answers := make(chan *admissionv1.AdmissionResponse, 2)
	for _, uid := range []string{"first", "second"} {
		go func() { answers <- post(t, server.URL+"?timeout=10s", reviewBody(uid, size)) }()
		<-at
	}
	for _, large := range []int{200, size, maxReview - 1} { // the last would never find capacity here
		got := post(t, server.URL+"?timeout=50ms", reviewBody("third", large))
		if r := got.Result; got.UID != "third" || got.Allowed || r == nil || r.Code != http.StatusTooManyRequests ||
			r.Reason != metav1.StatusReasonTooManyRequests || r.Details == nil || r.Details.RetryAfterSeconds != 1 || r.Message == "" {
			t.Errorf("%d bytes: %+v", large, got)
		}
	}
	waiting := make(chan *admissionv1.AdmissionResponse, 1)
	go func() { waiting <- post(t, server.URL+"?timeout=10s", reviewBody("patient", size)) }()
	close(done)
	if uid := <-at; uid != "patient" {
		t.Errorf("'%s' was judged", uid)
	}
	for _, answered := range []*admissionv1.AdmissionResponse{<-answers, <-answers, <-waiting} {
		if !answered.Allowed {
			t.Errorf("%+v: it found capacity, or waited for it", answered)
		}
	}
	if !hook.capacity.TryAcquire(2 * size) {
		t.Error("not all of the capacity was released")
	}
}

// TestCapacityIsReleased: the capacity that a review took is free again, whatever came of the review.
func TestCapacityIsReleased(t *testing.T) {
	capacity := semaphore.NewWeighted(maxReview)
	hook := Hook{handle: func(context.Context, *admissionv1.AdmissionRequest) (answer, error) { panic("bug") }, capacity: capacity}
	unknown := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{"))
	unknown.ContentLength = -1
	for name, request := range map[string]*http.Request{
		"panic":          httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(reviewBody("a", 100))),
		"no review":      httptest.NewRequest(http.MethodPost, "/", strings.NewReader("[]")),
		"too large":      httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", maxReview+1))),
		"unknown length": unknown,
		"broken off":     httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("{"), broken{})),
	} {
		hook.ServeHTTP(httptest.NewRecorder(), request)
		if !capacity.TryAcquire(maxReview) {
			t.Fatalf("%s: not all of the capacity was released", name)
		}
		capacity.Release(maxReview)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

func TestUIDOfAReview(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"kind":"AdmissionReview","request":{"uid":"a","object":{}}}`, "a"},
		{`{"request":{"kind":{"uid":"b"},"options":["uid"],"uid":"a`, ""},
		{`{"other":{"request":{"uid":"b"}},"request":{"kind":{"uid":"b"},"uid":"a"}}`, "a"},
		{`{"request":{"object":{"a":"` + strings.Repeat("x", 2*maxHead) + `"},"uid":"a"}}`, ""},
		{`{"request":null}`, ""}, {`{"request":{}}`, ""}, {`[]`, ""}, {``, ""}, {`{"uid":"b"}`, ""},
	} {
		if got, _, err := readHead(io.LimitReader(strings.NewReader(test.body), maxHead)); string(got) != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%.80s: '%s', %v, want '%s'", test.body, got, err, test.want)
		}
	}
}

// TestNamespaceOfAReview: the namespace is found where API servers write it, and not in an object.
func TestNamespaceOfAReview(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"request":{"uid":"a","kind":{"namespace":"x"},"name":"b","namespace":"team","operation":"CREATE","object":{}`, "team"},
		{`{"request":{"uid":"a","kind":{},"operation":"CREATE","namespace":"x"}}`, ""}, // an object of the cluster
		{`{"request":{"uid":"a","object":{"namespace":"x"},"operation":"CREATE"}}`, ""},
		{`{"request":{"uid":"a"}}`, ""}, {`{"request":{"uid":"a","name":`, ""},
	} {
		if uid, got, err := readHead(strings.NewReader(test.body)); got != test.want || uid != "a" || err != nil {
			t.Errorf("%s: '%s', '%s', %v", test.body, uid, got, err)
		}
	}
}

func TestPatience(t *testing.T) {
	for url, want := range map[string]time.Duration{
		"/": defaultTimeout, "/?timeout=5s": 5 * time.Second, "/?timeout=0s": defaultTimeout, "/?timeout=-1s": defaultTimeout, "/?timeout=x": defaultTimeout,
		"/?timeout=30h": defaultTimeout,
	} {
		if got := requestTimeout(httptest.NewRequest(http.MethodPost, url, nil)); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// Waiting leaves time for an answer, which would otherwise come when nobody listens.
func TestWaitingLeavesTimeToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := Hook{capacity: semaphore.NewWeighted(1)}
		recorder, began := httptest.NewRecorder(), time.Now()
		hook.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/?timeout=5s", bytes.NewReader(reviewBody("a", 100))))
		if waited := time.Since(began); waited != 4*time.Second || !strings.Contains(recorder.Body.String(), `"code":429`) {
			t.Errorf("after %s: %s", waited, recorder.Body)
		}
	})
}

// A client that does not go on sending loses its connection.
func TestServerHasDeadlines(t *testing.T) {
	server := NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		http.Error(w, "read", map[bool]int{true: http.StatusOK, false: http.StatusRequestTimeout}[err == nil])
	}))
	if server.ReadTimeout <= 0 || server.WriteTimeout < server.ReadTimeout+defaultTimeout || server.IdleTimeout <= 0 || server.MaxHeaderBytes <= 0 {
		t.Errorf("deadlines: read %s, write %s, idle %s", server.ReadTimeout, server.WriteTimeout, server.IdleTimeout)
	}
	server.ReadTimeout = 20 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	for _, sent := range []string{"POST / HTTP/1.1\r\nHost:", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"} {
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(connection, sent); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(connection); err != nil || strings.Contains(string(answer), " 200 ") { // until the server closes
			t.Errorf("%.20s: %v %s", sent, err, answer)
		}
		connection.Close()
	}
}

// The work for a client that has hung up ends where it is: nothing is read or written after that.
func TestWorkEndsWithItsRequest(t *testing.T) {
	inferring := strings.Replace(cloned, "domain: {devices", "domain: {memory: {guest: 1Gi}, devices", 1)
	for _, path := range []string{MutateVM, ValidateVM} {
		c := newCluster(t, catalog)
		ctx, hangUp := context.WithCancel(t.Context())
		reviews := 0
		c.MayRead = func(context.Context, authenticationv1.UserInfo, resolve.Source) (bool, error) {
			reviews++
			hangUp()
			return true, nil
		}
		c.Write = func(context.Context, ...revision.Draft) error { t.Error("a revision was written"); return nil }
		request := create(t, inferring)
		raw, err := c.Hooks()[path].Answer(ctx, marshalled(t, request))
		var answered admissionv1.AdmissionReview
		if err != nil || json.Unmarshal(raw, &answered) != nil || answered.Response.Allowed || answered.Response.Result.Code != http.StatusServiceUnavailable ||
			reviews != 1 {
			t.Errorf("%s: %d reviews, %v %s", path, reviews, err, raw)
		}
	}
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	vmi := create(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a}\nspec: {domain: {devices: {}, memory: {guest: 1Gi}}}")
	if raw, err := newCluster(t).Hooks()[MutateVMI].Answer(ctx, marshalled(t, vmi)); err != nil || !strings.Contains(string(raw), "context canceled") {
		t.Errorf("%v %s", err, raw)
	}
}

// TestClientsCloseIdleConnections: the server keeps an idle connection longer than clients do, so that no request is sent on a connection that the server is
// about to close.
func TestClientsCloseIdleConnections(t *testing.T) {
	client := utilnet.SetTransportDefaults(&http.Transport{}) // as the API server makes the clients of webhooks
	if server := NewHTTPServer(nil); server.IdleTimeout < client.IdleConnTimeout+30*time.Second {
		t.Errorf("the server closes idle connections after %s, a client after %s", server.IdleTimeout, client.IdleConnTimeout)
	}
}
