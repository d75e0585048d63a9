package launcherserver

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestGate: one address holds so many connections without a certificate, and no more; another address is served meanwhile, and a client who has shown its
// certificate counts no longer.
func TestGate(t *testing.T) {
	certificate, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(&failsOnce{Listener: listener}, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}})
	dial := func(from string) net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	admitted := func(from string) {
		t.Helper()
		secure := tls.Client(dial(from), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test is about the server
		_ = secure.SetDeadline(time.Now().Add(10 * time.Second))
		shaken := make(chan error, 1)
		go func() { shaken <- secure.Handshake() }()
		conn, err := g.Accept()
		if err = errors.Join(err, <-shaken); err != nil {
			t.Fatalf("a client of %s is not served: %v", from, err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	for range mostOfAddress + 3 {
		admitted("127.0.0.2")
	}
	var silent []net.Conn
	for range mostOfAddress {
		silent = append(silent, dial("127.0.0.2"))
	}
	one := make([]byte, 1)
	further := dial("127.0.0.2")
	_ = further.SetReadDeadline(time.Now().Add(headerLimit / 2))
	if _, err := further.Read(one); !errors.Is(err, io.EOF) && !isReset(err) {
		t.Errorf("one connection more than an address may have: %v", err)
	}
	admitted("127.0.0.3")
	for _, conn := range silent { // a silent client is closed
		_ = conn.SetReadDeadline(time.Now().Add(3 * headerLimit))
		if _, err := conn.Read(one); !errors.Is(err, io.EOF) && !isReset(err) {
			t.Fatalf("a silent client: %v", err)
		}
	}
	for deadline := time.Now().Add(time.Minute); g.counted() > 0 && time.Now().Before(deadline); { // a client may read the end before it counts no longer
		time.Sleep(time.Millisecond)
	}
	admitted("127.0.0.2")
	listener.Close()
	if _, err := g.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if g.counted() != 0 || len(g.unknown) != 0 {
		t.Errorf("%d connections are counted, of %v", g.counted(), g.unknown)
	}
}

// counted returns the number of connections without a certificate.
func (g *gate) counted() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.total
}

// failsOnce is a listener whose first Accept fails, as where too many files are open.
type failsOnce struct {
	net.Listener
	failed bool
}

func (f *failsOnce) Accept() (net.Conn, error) {
	if !f.failed {
		f.failed = true
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

func isReset(err error) bool {
	var of *net.OpError
	return errors.As(err, &of) && !of.Timeout()
}
