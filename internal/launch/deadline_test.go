package launch

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
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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

// TestSilentLibvirt: each question has an end, with an error that says what is silent, and leaves no connection behind.
func TestSilentLibvirt(t *testing.T) {
	t.Parallel()
	socket, open := silent(t)
	l := New(socket)
	l.ask, l.act = 50*time.Millisecond, 50*time.Millisecond
	owner := Owner{Namespace: "default", Name: "x", UID: "x"}
	guest := guestOf(networkGuest(t), documents(t, networkGuest(t), backend.AssumedBindings(networkGuest(t))), nil)
	for what, ask := range map[string]func(context.Context) error{
		"State":        func(ctx context.Context) error { _, err := l.State(ctx, owner); return err },
		"Run":          func(ctx context.Context) error { return l.Run(ctx, guest) },
		"Shutdown":     func(ctx context.Context) error { return l.Shutdown(ctx, owner) },
		"Remove":       func(ctx context.Context) error { return l.Remove(ctx, owner) },
		"Capabilities": func(ctx context.Context) error { _, err := l.Capabilities(ctx, "here", KVMNever); return err },
		"pinned":       func(ctx context.Context) error { _, err := l.pinned(ctx, ""); return err },
		"owners":       func(ctx context.Context) error { _, err := l.owners(ctx); return err },
		"subscribe":    func(ctx context.Context) error { _, _, err := l.subscribe(ctx); return err },
	} {
		if err := ask(t.Context()); err == nil || !strings.Contains(err.Error(), "did not answer within 50ms") {
			t.Errorf("%s: %v", what, err)
		}
	}
	waitUntil(t, "all connections are closed", func() bool { return open() == 0 })
}

// TestOneHangingCall: while a conversation hangs, others are answered, and the one that hangs ends by itself.
func TestOneHangingCall(t *testing.T) {
	t.Parallel()
	l := daemon(t)
	hangs, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		ended <- l.asking(ctx, func(open *rpc.Libvirt) error {
			close(hangs)
			<-release
			_, err := open.ConnectGetLibVersion()
			return err
		})
	}()
	<-hangs
	for range 2 * workers {
		if _, err := l.State(t.Context(), Owner{Namespace: "default", Name: "x", UID: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	gone := errors.New("given up")
	cancel(gone)
	close(release)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("the conversation that was given up ended with %v", err)
	}
	if len(l.idle) != 1 {
		t.Errorf("%d connections are idle, want the one that was used in turn", len(l.idle))
	}
}

// TestLibvirtStartedLater: what was only assumed of a machine is replaced by what its libvirt says as soon as that is there, and again
// after it was started anew.
func TestLibvirtStartedLater(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "kiln-later-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := &options{name: "here", socket: filepath.Join(dir, "s"), kvm: string(KVMNever), labels: map[string]string{"rack": "1"}}
	vmi := claimed(t, "later")
	vmi.Status.NodeName, vmi.Status.Phase = "", v1.Pending
	api := holding(t, vmi)
	first, second := libvirt.Start(t), libvirt.Start(t)
	n := node(t, connected(t, first), api, api)
	n.Libvirt, n.Labels, n.KVM = New(o.socket), o.allLabels(), KVMNever
	state := n.Host.State
	n.Host = o.assumed()
	n.Host.State = state
	t.Cleanup(n.Libvirt.Close)
	if after := run(t, n, vmi); after.Status.NodeName != "" {
		t.Errorf("claimed by '%s' without a libvirt", after.Status.NodeName)
	}
	if _, err := os.Stat(filepath.Join(n.Host.dir(vmi), "domain.xml")); err != nil {
		t.Errorf("what would be started is not told: %v", err)
	}
	if err := n.learn(t.Context()); err == nil {
		t.Error("a libvirt was found that is not there")
	}
	if err := os.Symlink(first.Socket, o.socket); err != nil {
		t.Fatal(err)
	}
	if err := n.learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := run(t, n, vmi); after.Status.NodeName != "here" {
		t.Errorf("claimed by '%s', want 'here'", after.Status.NodeName)
	}
	if got := n.Host.facts(); got.LibvirtVersion == "" || got.Labels["rack"] != "1" {
		t.Errorf("the machine is %+v", got)
	}
	lost := n.Libvirt.Lost()
	if err := errors.Join(first.Close(), os.Remove(o.socket), os.Symlink(second.Socket, o.socket)); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the loss is noticed", func() bool { return n.Libvirt.Lost() > lost })
	if err := n.learn(t.Context()); err != nil {
		t.Errorf("the new libvirt is not asked: %v", err)
	}
}

// TestHangingStorage: a guest whose storage hangs is told so, and is not looked for a second time while the first look hangs.
func TestHangingStorage(t *testing.T) {
	t.Parallel()
	vmi := claimed(t, "hangs")
	api := holding(t, vmi)
	n := node(t, daemon(t), api, api)
	n.binding.limit = 50 * time.Millisecond
	if !n.binding.begin(vmi.UID) {
		t.Fatal("somebody looks for it already")
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)}
	result, err := n.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("%+v, %v; want it tried again", result, err)
	}
	after := &v1.VirtualMachineInstance{}
	if err := api.Get(t.Context(), request.NamespacedName, after); err != nil {
		t.Fatal(err)
	}
	if refused := conditionOf(after, v1.VirtualMachineInstanceSynchronized); refused.Reason != reasonNotBindable || !strings.Contains(refused.Message, "still does not answer") {
		t.Errorf("Synchronized is %+v", refused)
	}
	n.binding.end(vmi.UID)
	n.binding.limit = 0
	if after := run(t, n, vmi); after.Status.Phase != v1.Running {
		t.Errorf("phase is '%s' when the storage answers again: %v", after.Status.Phase, after.Status.Conditions)
	}
}
