package hypervisor

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/poll"
	v1 "kubevirt.io/api/core/v1"
)

// ownerOf is the VMI as the owner of its domain.
func ownerOf(vmi *v1.VirtualMachineInstance) Owner {
	return Owner{Namespace: vmi.Namespace, Name: vmi.Name, UID: vmi.UID, Node: "here"}
}

func guestOf(vmi *v1.VirtualMachineInstance, all backend.Documents, values map[string][]byte) Guest {
	return Guest{Owner: ownerOf(vmi), Documents: all, Values: values}
}

func connected(t *testing.T, daemon *libvirt.Daemon) *Libvirt {
	t.Helper()
	l := New(daemon.Socket)
	t.Cleanup(l.Close)
	return l
}

// waitUntil waits up to a minute for a state that libvirt reaches by itself.
func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !poll.Until(time.Minute, done) {
		t.Fatalf("did not happen: %s", what)
	}
}

// silent is the socket of a daemon that takes connections and never answers, and counts those that are open.
func silent(t *testing.T) (socket string, open func() int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "kiln-silent-") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	var mutex sync.Mutex
	count := 0
	add := func(n int) {
		mutex.Lock()
		defer mutex.Unlock()
		count += n
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			add(1)
			go func() {
				defer add(-1)
				defer conn.Close()
				buffer := make([]byte, 4096)
				for {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return socket, func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return count
	}
}

// TestSilentLibvirt: each call ends at its deadline with an error that names the socket, and leaves no connection open.
func TestSilentLibvirt(t *testing.T) {
	t.Parallel()
	socket, open := silent(t)
	l := New(socket)
	l.queryTimeout, l.changeTimeout = 50*time.Millisecond, 50*time.Millisecond
	owner := Owner{Namespace: "default", Name: "x", UID: "x"}
	guest := guestOf(explicit.WithClaim(t), explicit.Documents(t, explicit.WithClaim(t), backend.AssumedBindings(explicit.WithClaim(t))), nil)
	for what, ask := range map[string]func(context.Context) error{
		"State":        func(ctx context.Context) error { _, err := l.State(ctx, owner); return err },
		"Start":        func(ctx context.Context) error { return l.Start(ctx, guest) },
		"Shutdown":     func(ctx context.Context) error { return l.Shutdown(ctx, owner) },
		"Remove":       func(ctx context.Context) error { return l.Remove(ctx, owner) },
		"Capabilities": func(ctx context.Context) error { _, err := l.Capabilities(ctx, "here", KVMNever); return err },
		"Pinned":       func(ctx context.Context) error { _, err := l.Pinned(ctx, ""); return err },
		"AgentFacts":   func(ctx context.Context) error { _, err := l.AgentFacts(ctx, owner); return err },
		"Owners":       func(ctx context.Context) error { _, err := l.Owners(ctx); return err },
		"Statistics":   func(ctx context.Context) error { _, err := l.Statistics(ctx, owner); return err },
		"subscribe":    func(ctx context.Context) error { _, _, err := l.subscribeEvents(ctx); return err },
	} {
		if err := ask(t.Context()); err == nil || !strings.Contains(err.Error(), "did not answer within 50ms") {
			t.Errorf("%s: %v", what, err)
		}
	}
	waitUntil(t, "all connections are closed", func() bool { return open() == 0 })
}

// TestOneHangingCall: while one call hangs, others are answered, and the call that hangs ends with its context.
func TestOneHangingCall(t *testing.T) {
	t.Parallel()
	l := connected(t, libvirt.Start(t))
	hangs, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		ended <- l.runQuery(ctx, func(open *rpc.Libvirt) error {
			close(hangs)
			<-release
			_, err := open.ConnectGetLibVersion()
			return err
		})
	}()
	<-hangs
	for range 2 * maxIdle {
		if _, err := l.State(t.Context(), Owner{Namespace: "default", Name: "x", UID: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	gone := errors.New("given up")
	cancel(gone)
	close(release)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("the cancelled call ended with %v", err)
	}
	if len(l.idle) != 1 {
		t.Errorf("%d connections are idle, want one that all calls shared", len(l.idle))
	}
}
