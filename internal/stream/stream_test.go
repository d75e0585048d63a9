package stream

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// flood relays a guest that sends without end, and returns its caller, who has read nothing yet, and what is closed when the relay ends.
func flood(t *testing.T, stall time.Duration) (*websocket.Conn, <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		near, far := net.Pipe()
		go func() {
			for piece := make([]byte, bufferSize); ; {
				if _, err := far.Write(piece); err != nil {
					return
				}
			}
		}()
		Relay(w, r, near, stall)
	}))
	t.Cleanup(server.Close)
	caller, answer, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	t.Cleanup(func() { caller.Close() })
	return caller, ended
}

// TestStall: a caller who takes nothing for longer than the limit is cut, and one who pauses for less goes on.
func TestStall(t *testing.T) {
	t.Parallel()
	_, ended := flood(t, 100*time.Millisecond)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("a caller who takes nothing keeps the guest waiting")
	}
	patient, ended := flood(t, time.Hour)
	select {
	case <-ended:
		t.Fatal("a caller who pauses is cut")
	case <-time.After(time.Second):
	}
	for range 1000 {
		if _, message, err := patient.ReadMessage(); err != nil || len(message) == 0 {
			t.Fatalf("after a pause: %d bytes, %v", len(message), err)
		}
	}
}
