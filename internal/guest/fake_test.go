package guest_test

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
)

// fakeHypervisor is a libvirt in memory with one domain.
type fakeHypervisor struct {
	mutex  sync.Mutex
	status hypervisor.Status
	calls  []string
	last   hypervisor.Guest
	kvm    hypervisor.KVM
	// fails is the error of State, refuses that of Start; lost is that of a Start which has started the domain.
	fails, refuses, lost error
	// failsAfterStart becomes the error of State once the domain has been started.
	failsAfterStart error
	// obeys says that the guest powers off when it is asked to, hangs that the question lasts until its context ends.
	obeys, hangs bool
	events       chan struct{}
}

func newHypervisor() *fakeHypervisor { return &fakeHypervisor{events: make(chan struct{}, 10)} }

func (f *fakeHypervisor) Capabilities(_ context.Context, node string, kvm hypervisor.KVM) (backend.Capabilities, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.kvm = kvm
	host := backend.Assumed("amd64")
	host.NodeName, host.VirtTypes = node, []string{"qemu"}
	return host, nil
}

func (f *fakeHypervisor) Watch(ctx context.Context, observe func(hypervisor.Event)) {
	for {
		select {
		case <-f.events:
			observe(hypervisor.Event{})
		case <-ctx.Done():
			return
		}
	}
}

func (f *fakeHypervisor) State(context.Context, hypervisor.Owner) (hypervisor.Status, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.status, f.fails
}

// becomes changes the state of the domain, and reports an event.
func (f *fakeHypervisor) becomes(call string, state hypervisor.State) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.calls = append(f.calls, call)
	f.status = hypervisor.Status{State: state, Cause: hypervisor.Cause{Reason: "Fake", Message: call}, Machine: "pc-q35-fake"}
	f.events <- struct{}{}
}

func (f *fakeHypervisor) Start(_ context.Context, guest hypervisor.Guest) error {
	f.mutex.Lock()
	refused := f.refuses
	f.last = guest
	f.mutex.Unlock()
	if refused != nil {
		return refused
	}
	state := hypervisor.Running
	if guest.Paused {
		state = hypervisor.Paused
	}
	f.becomes("start", state)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.fails = cmp.Or(f.failsAfterStart, f.fails)
	return f.lost
}

func (f *fakeHypervisor) Shutdown(ctx context.Context, _ hypervisor.Owner) error {
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.obeys {
		f.becomes("shutdown", hypervisor.PoweredOff)
	}
	return nil
}

func (f *fakeHypervisor) Destroy(context.Context, hypervisor.Owner) error {
	f.becomes("destroy", hypervisor.Destroyed)
	return nil
}

func (f *fakeHypervisor) did() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.calls)
}

// set changes the fake while its guest runs.
func (f *fakeHypervisor) set(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
}

// fakeMachine binds nothing, unless wrong is set.
type fakeMachine struct {
	mutex   sync.Mutex
	console string
	wrong   field.ErrorList
}

func (m *fakeMachine) Bind(_ context.Context, vmi *v1.VirtualMachineInstance) (hostresources.Bound, field.ErrorList) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return hostresources.Bound{Bindings: backend.AssumedBindings(vmi)}, m.wrong
}

func (m *fakeMachine) Console() string { return m.console }

// life is a guest with fakes, on its way.
type life struct {
	*api
	libvirt *fakeHypervisor
	machine *fakeMachine
	stop    context.CancelFunc
	ended   chan error
}

// live runs a guest until the test ends.
func live(t *testing.T, c *api, libvirt *fakeHypervisor, change func(*guest.Guest, *fakeMachine)) *life {
	t.Helper()
	client, err := guest.Connect(&rest.Config{Host: c.URL})
	if err != nil {
		t.Fatal(err)
	}
	machine := &fakeMachine{console: filepath.Join(t.TempDir(), "console")}
	g := &guest.Guest{NodeName: "here", Emulate: true, Hypervisor: libvirt, Machine: machine, Serial: &bytes.Buffer{}, Retry: 20 * time.Millisecond,
		Channel: guest.NewChannel(client, types.NamespacedName{Namespace: c.vmi.Namespace, Name: c.vmi.Name}, podUID)}
	if change != nil {
		change(g, machine)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &life{api: c, libvirt: libvirt, machine: machine, stop: stop, ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		l.ended <- g.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		libvirt.set(func() { libvirt.obeys = true })
		stop()
		<-done
	})
	return l
}

// ends waits for the end of the guest.
func (l *life) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the guest does not end")
		return nil
	}
}
