package node

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fakeHypervisor is a libvirt in memory whose domains have the states that a test sets. calls lists the calls that change something.
type fakeHypervisor struct {
	sync.Mutex
	domains map[string]hypervisor.Status
	calls   []string
	// err is the error of State and Capabilities.
	err    error
	events chan hypervisor.Event
	// hardware is the running hardware of every domain.
	hardware hypervisor.Hardware
	// cpu is the CPU of every domain.
	cpu *v1alpha1.ReportedCPU
}

func (f *fakeHypervisor) Hardware(context.Context, hypervisor.Owner) (hypervisor.Hardware, error) {
	f.Lock()
	defer f.Unlock()
	return f.hardware, f.err
}

func (f *fakeHypervisor) RunningCPU(context.Context, hypervisor.Owner) (*v1alpha1.ReportedCPU, error) {
	f.Lock()
	defer f.Unlock()
	return f.cpu, f.err
}

func (f *fakeHypervisor) WatchHardware(ctx context.Context, _ func()) { <-ctx.Done() }

func (f *fakeHypervisor) Capabilities(context.Context, string, hypervisor.KVM) (backend.Capabilities, error) {
	return backend.Assumed("amd64"), f.err
}

func (f *fakeHypervisor) Watch(ctx context.Context, observe func(hypervisor.Event)) {
	for {
		select {
		case event := <-f.events:
			observe(event)
		case <-ctx.Done():
			return
		}
	}
}

func (f *fakeHypervisor) State(_ context.Context, owner hypervisor.Owner) (hypervisor.Status, error) {
	f.Lock()
	defer f.Unlock()
	return f.domains[owner.Domain()], f.err
}

// setState records a call that leaves the domain in a state.
func (f *fakeHypervisor) setState(call string, owner hypervisor.Owner, state hypervisor.State) error {
	f.Lock()
	defer f.Unlock()
	f.calls = append(f.calls, call)
	if _, there := f.domains[owner.Domain()]; there || call == "start" {
		f.domains[owner.Domain()] = hypervisor.Status{State: state, Cause: hypervisor.Cause{Reason: "Fake", Message: call}, Machine: "pc-q35-fake"}
	}
	return nil
}

func (f *fakeHypervisor) Start(_ context.Context, guest hypervisor.Guest) error {
	if guest.Documents.Domain == nil || guest.Documents.Domain.Name != guest.Owner.Domain() {
		return fmt.Errorf("the domain of '%s' is %v", guest.Owner.Domain(), guest.Documents.Domain)
	}
	state := hypervisor.Running
	if guest.Paused {
		state = hypervisor.Paused
	}
	return f.setState("start", guest.Owner, state)
}

// Shutdown leaves the state as it is, like a guest that ignores ACPI.
func (f *fakeHypervisor) Shutdown(context.Context, hypervisor.Owner) error {
	f.Lock()
	defer f.Unlock()
	f.calls = append(f.calls, "shutdown")
	return nil
}

func (f *fakeHypervisor) Destroy(_ context.Context, owner hypervisor.Owner) error {
	return f.setState("destroy", owner, hypervisor.Destroyed)
}

func (f *fakeHypervisor) Remove(_ context.Context, owner hypervisor.Owner) error {
	f.Lock()
	defer f.Unlock()
	f.calls = append(f.calls, "remove")
	delete(f.domains, owner.Domain())
	return nil
}

func (f *fakeHypervisor) Owners(context.Context) ([]hypervisor.Owner, error) { return nil, nil }

func (f *fakeHypervisor) Pinned(context.Context, string) (cpuset.CPUSet, error) {
	return cpuset.New(), nil
}

// newFakeNode returns a node with a fake libvirt.
func newFakeNode(t *testing.T, api client.Client) (*Node, *fakeHypervisor) {
	t.Helper()
	libvirt := &fakeHypervisor{domains: map[string]hypervisor.Status{}, events: make(chan hypervisor.Event)}
	n := &Node{Client: api, Live: api, Events: events.NewFakeRecorder(100), Name: "here", Hypervisor: libvirt, Configuration: &clusterconfig.Watcher{},
		Machine: &hostresources.BareMachine{State: t.TempDir()}, Labels: map[string]string{corev1.LabelHostname: "here"}}
	if err := n.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n, libvirt
}

// reconcileOnce reconciles once and returns the VMI afterwards.
func reconcileOnce(t *testing.T, n *Node, vmi *v1.VirtualMachineInstance) (ctrl.Result, *v1.VirtualMachineInstance) {
	t.Helper()
	result, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)})
	if err != nil {
		t.Fatal(err)
	}
	after := &v1.VirtualMachineInstance{}
	if err := n.Get(t.Context(), client.ObjectKeyFromObject(vmi), after); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return result, after
}
