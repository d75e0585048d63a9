package vmipod

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestClientsOfLaunchers: a GuestPod has the clients of its time, and those that come later, also while its guest runs.
func TestClientsOfLaunchers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	clients := NewClients(file, "kiln-apiserver.kiln-system.svc")
	if clients.Now() != nil {
		t.Fatalf("without a file the clients are %v", clients.Now())
	}
	on := newCluster(t, explicitVMI())
	on.controller.Clients = clients
	on.runGuest()
	if on.guestPod().Spec.Clients != nil {
		t.Errorf("the GuestPod has clients that are not known: %v", on.guestPod().Spec.Clients)
	}
	for _, authority := range []string{"one", "two"} {
		on.must(os.WriteFile(file, []byte(authority), 0o600))
		if !clients.readFile() || clients.readFile() {
			t.Errorf("a new authority must be a change, and the same one must not")
		}
		on.reconcileAll()
		want := &v1alpha1.GuestPodClients{Authorities: authority, Name: "kiln-apiserver.kiln-system.svc"}
		if diff := cmp.Diff(want, on.guestPod().Spec.Clients); diff != "" {
			t.Errorf("clients: -want +got\n%s", diff)
		}
	}
	written := len(on.writes)
	on.reconcileAll()
	if extra := on.writes[written:]; len(extra) > 0 {
		t.Errorf("without a change there were writes: %v", extra)
	}
	on.must(os.WriteFile(file, nil, 0o600))
	if clients.readFile() || clients.Now() == nil {
		t.Error("an empty file takes the authorities away: kubelet may just be writing it")
	}
}

// TestClientsAreReadAgain: a change of the file is an event.
func TestClientsAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	clients := NewClients(file, "name")
	ctx, end := context.WithTimeout(t.Context(), 30*time.Second)
	defer end()
	go func() { _ = clients.Start(ctx) }()
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-clients.changed:
	case <-ctx.Done():
		t.Fatal("the change is not told")
	}
	if clients.Now() == nil || clients.Now().Authorities != "one" {
		t.Errorf("the clients are %v", clients.Now())
	}
}

// TestGracePeriod: the pod of a VMI that is deleted has the grace period that the VMI has then, and a shorter one that it gets while the guest powers off.
func TestGracePeriod(t *testing.T) {
	vmi := explicitVMI()
	vmi.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	on := newCluster(t, vmi)
	on.runGuest()
	var given []int64
	on.onDelete = func(options client.DeleteOptions) {
		given = append(given, ptr.Deref(options.GracePeriodSeconds, -1))
		dying := on.pod()
		dying.DeletionGracePeriodSeconds = options.GracePeriodSeconds // what the API server writes
		on.must(on.Update(t.Context(), dying))
	}
	on.must(on.WithWatch.Delete(t.Context(), on.vmi()))
	on.reconcileAll()
	on.reconcileAll()
	shorter := on.vmi()
	shorter.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	on.must(on.Update(t.Context(), shorter))
	on.reconcileAll()
	if want := []int64{pod.Grace(ptr.To[int64](600)), pod.Grace(ptr.To[int64](5))}; !slices.Equal(given, want) {
		t.Errorf("the pod was deleted with grace periods %v, want %v", given, want)
	}
}
