package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestDrained: until the process is asked to stop, connections are kept, except while it is slow; afterwards each ends with its next answer.
func TestDrained(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	slow := false
	server := httptest.NewServer(drainConnections(stopping, func() bool { return slow }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	for i, want := range []bool{false, true, false, true, true} {
		slow = i == 1
		if i == 3 {
			stop()
		}
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.Close != want {
			t.Errorf("request %d: the answer ends the connection: %v", i, response.Close)
		}
	}
}
