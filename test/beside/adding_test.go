package beside

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
)

var added struct {
	sync.Once
	err error
}

// withKiln adds Kiln to the cluster, once, after KubeVirt has run without it.
func withKiln(t *testing.T) {
	t.Helper()
	alone(t)
	added.Do(func() { added.err = shared.AddKiln(context.WithoutCancel(t.Context())) })
	if added.err != nil {
		t.Fatalf("adding Kiln: %v", added.err)
	}
}

// TestNoMetricsOfGuests: KubeVirt has the metrics about VMs and VMIs that Kiln has where it runs the guests.
func TestNoMetricsOfGuests(t *testing.T) {
	withKiln(t)
	for _, url := range shared.Metrics()["kiln-controller"] {
		response, err := http.Get(url + "/guests")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || len(text) > 0 {
			t.Errorf("%s, %v: %.300s", response.Status, err, text)
		}
	}
}

// TestAdding: Kiln, added, restarts no guest, changes no spec, and pins all VMs, to the revisions that KubeVirt expands.
func TestAdding(t *testing.T) {
	withKiln(t)
	s := before.space
	s.T = t
	log, err := shared.ControllerLog()
	if err != nil || !strings.Contains(log, "KubeVirt makes the VMIs") {
		t.Errorf("the controller does not say that KubeVirt makes the VMIs: %v\n%s", err, log)
	}
	for name, was := range before.vms {
		s.eventually(name+" is pinned", func() (bool, any) {
			is := s.machine(name)
			return is.Annotations[v1alpha1.AnnotationPins] != "" && is.Annotations[v1alpha1.AnnotationIdentity] != "", is.Annotations
		})
		is := s.machine(name)
		if diff := cmp.Diff(was.Spec, is.Spec); diff != "" {
			t.Errorf("%s: the VM's spec has changed: -before +after\n%s", name, diff)
		}
		if diff := cmp.Diff(was.Status.InstancetypeRef, is.Status.InstancetypeRef); diff != "" {
			t.Errorf("%s: another instancetype is expanded: -before +after\n%s", name, diff)
		}
	}
	for name, was := range before.vmis {
		is := s.guest(name)
		if is.UID != was.UID {
			t.Errorf("%s: the guest has been restarted", name)
		}
		if diff := cmp.Diff(was.Spec, is.Spec); diff != "" {
			t.Errorf("%s: the VMI's spec has changed: -before +after\n%s", name, diff)
		}
	}
	s.noFight()
}
