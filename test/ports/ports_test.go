package ports

import (
	"net"
	"runtime"
	"strconv"
	"testing"
)

func TestFree(t *testing.T) {
	given := map[int]bool{}
	for range 200 {
		port, err := Free("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if given[port] || port < first || port > last {
			t.Fatalf("port %d, after %v", port, given)
		}
		given[port] = true
		runtime.GC()
		if again, err := reserveName(port); err == nil {
			again.Close()
			t.Fatalf("port %d is not reserved", port)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
}

func TestUnknownHost(t *testing.T) {
	if port, err := Free("192.0.2.1"); err == nil { // of RFC 5737: no interface has it
		t.Errorf("got port %d", port)
	}
}
