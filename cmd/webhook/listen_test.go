package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestDrained: until the process is asked to stop, connections are kept; afterwards each ends with its next answer.
func TestDrained(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	server := httptest.NewServer(drainConnections(stopping, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	for _, want := range []bool{false, false, true, true} {
		if want {
			stop()
		}
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.Close != want {
			t.Errorf("asked to stop: %v; the answer ends the connection: %v", want, response.Close)
		}
	}
}
