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
	"github.com/kilnvm/kiln/test/poll"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
)

// fakeHypervisor is a libvirt in memory with one domain.
type fakeHypervisor struct {
	mutex       sync.Mutex
	status      hypervisor.Status
	calls       []string
	lastStarted hypervisor.Guest
	kvm         hypervisor.KVM
	// stateErr is the error of State, and stateErrs counts its returns. startErr is the error of Start, and lostAnswerErr the error of a Start that has
	// started the domain.
	stateErr, startErr, lostAnswerErr error
	stateErrs                         int
	// stateErrAfterStart becomes the error of State when the domain has been started.
	stateErrAfterStart error
	// powersOff makes the guest power off when asked to. shutdownHangs makes Shutdown last until its context ends.
	powersOff, shutdownHangs bool
	events                   chan struct{}
}

func newFakeHypervisor() *fakeHypervisor { return &fakeHypervisor{events: make(chan struct{}, 10)} }

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
	if f.stateErr != nil {
		f.stateErrs++
	}
	return f.status, f.stateErr
}

// setState changes the state of the domain, and reports an event.
func (f *fakeHypervisor) setState(call string, state hypervisor.State) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.calls = append(f.calls, call)
	f.status = hypervisor.Status{State: state, Cause: hypervisor.Cause{Reason: "Fake", Message: call}, Machine: "pc-q35-fake"}
	f.events <- struct{}{}
}

func (f *fakeHypervisor) Start(_ context.Context, guest hypervisor.Guest) error {
	f.mutex.Lock()
	refused := f.startErr
	f.lastStarted = guest
	f.mutex.Unlock()
	if refused != nil {
		return refused
	}
	state := hypervisor.Running
	if guest.Paused {
		state = hypervisor.Paused
	}
	f.setState("start", state)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.stateErr = cmp.Or(f.stateErrAfterStart, f.stateErr)
	return f.lostAnswerErr
}

func (f *fakeHypervisor) Shutdown(ctx context.Context, _ hypervisor.Owner) error {
	if f.shutdownHangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.powersOff {
		f.setState("shutdown", hypervisor.PoweredOff)
	}
	return nil
}

func (f *fakeHypervisor) Destroy(context.Context, hypervisor.Owner) error {
	f.setState("destroy", hypervisor.Destroyed)
	return nil
}

func (f *fakeHypervisor) recordedCalls() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.calls)
}

// update changes the fake while its guest runs.
func (f *fakeHypervisor) update(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
}

// waitUntil waits until done returns true, which is called with the mutex held.
func (f *fakeHypervisor) waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	locked := func() bool {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		return done()
	}
	if !poll.Until(time.Minute, locked) {
		t.Fatalf("did not happen: %s", what)
	}
}

// fakeMachine binds each VMI, unless bindErrors is set.
type fakeMachine struct {
	mutex      sync.Mutex
	console    string
	bindErrors field.ErrorList
	// credentials are the accessCredentials for the agent, or why they cannot be read.
	credentials    hostresources.Credentials
	credentialsErr error
}

func (m *fakeMachine) Credentials(*v1.VirtualMachineInstance) (hostresources.Credentials, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.credentials, m.credentialsErr
}

// setCredentials changes the content of the mounted Secrets.
func (m *fakeMachine) setCredentials(keys map[string][]string, passwords map[string]string, err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.credentials, m.credentialsErr = hostresources.Credentials{Keys: keys, Passwords: passwords}, err
}

func (m *fakeMachine) Bind(_ context.Context, vmi *v1.VirtualMachineInstance) (hostresources.Bound, field.ErrorList) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return hostresources.Bound{Bindings: backend.AssumedBindings(vmi)}, m.bindErrors
}

func (m *fakeMachine) Console() string { return m.console }

// testGuest is a guest that was started with fakes.
type testGuest struct {
	*fakeAPIServer
	libvirt *fakeHypervisor
	machine *fakeMachine
	stop    context.CancelFunc
	ended   chan error
}

// startTestGuest runs a guest until the test ends.
func startTestGuest(t *testing.T, c *fakeAPIServer, libvirt *fakeHypervisor, change func(*guest.Guest, *fakeMachine)) *testGuest {
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
	l := &testGuest{fakeAPIServer: c, libvirt: libvirt, machine: machine, stop: stop, ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		l.ended <- g.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		libvirt.update(func() { libvirt.powersOff = true })
		stop()
		<-done
	})
	return l
}

// waitForEnd waits for the end of the guest.
func (l *testGuest) waitForEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the guest does not end")
		return nil
	}
}
