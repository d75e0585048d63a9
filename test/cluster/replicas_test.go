package cluster

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

// backend answers each connection with a line that has its name.
func backend(t *testing.T, name string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(connection, name)
			connection.Close()
		}
	}()
	return listener
}

// TestBalancer: what a Service does with endpoints that come, die and go.
func TestBalancer(t *testing.T) {
	b, err := balance()
	if err != nil {
		t.Fatal(err)
	}
	defer b.listener.Close()
	asked := func() string {
		connection, err := net.Dial("tcp", b.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		line, err := bufio.NewReader(connection).ReadString('\n')
		if err != nil {
			return "refused"
		}
		return strings.TrimSpace(line)
	}
	one, two := backend(t, "one"), backend(t, "two")
	first, second := one.Addr().String(), two.Addr().String()
	for _, step := range []struct {
		why  string
		do   func()
		want []string
	}{
		{"without endpoints nobody answers", func() {}, []string{"refused"}},
		{"one endpoint gets all", func() { b.add(first) }, []string{"one", "one"}},
		{"two take turns; an endpoint that is added twice counts once", func() { b.add(second); b.add(second) }, []string{"two", "one", "two", "one"}},
		{"a dead endpoint still gets its turn, and no other one helps", func() { one.Close() }, []string{"two", "refused", "two", "refused"}},
		{"until it is taken out", func() { b.remove(first) }, []string{"two", "two"}},
	} {
		step.do()
		b.mutex.Lock()
		b.next = 0 // the turns of each step begin alike
		b.mutex.Unlock()
		for i, want := range step.want {
			if got := asked(); got != want {
				t.Errorf("%s: connection %d: %s, want %s", step.why, i, got, want)
			}
		}
	}
	if b.served[first] != 6 || b.served[second] != 6 {
		t.Errorf("served %v, want 6 of each", b.served)
	}
}
