package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// newClusterWithPod returns a newClusterWithRunningGuest whose guest runs in a pod, and whose webhook validates what the controller changes.
func newClusterWithPod(t *testing.T) *testCluster {
	t.Helper()
	c := newClusterWithRunningGuest(t, v1.RunStrategyAlways)
	vmi := c.vmi()
	vmi.Status.ActivePods = map[types.UID]string{"pod": "node"}
	if err := c.Status().Update(c.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	limits := config.Default().Limits
	limits.Updaters = []string{"kiln"}
	c.controller.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if now, is := object.(*v1.VirtualMachineInstance); is {
				change := validate.GuestChange{New: now, Old: c.vmi(), By: validate.Account{Name: "kiln"}}
				if errs := validate.GuestUpdate(change, limits); len(errs) > 0 {
					t.Errorf("admission refuses %v", errs)
				}
			}
			return to.Patch(ctx, object, patch, options...)
		}})
	return c
}

func setSockets(n uint32) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.CPU = &v1.CPU{Sockets: n, Cores: 1, Threads: 1}
	}
}

// TestLiveUpdate: an edit that the guest can get while it runs changes the VMI, and needs no restart.
func TestLiveUpdate(t *testing.T) {
	c := newClusterWithPod(t)
	had := c.vmi().Spec.Domain
	c.editVM(setSockets(2))
	if c.reconcileRepeatedly(); c.restartRequired() != "" {
		t.Errorf("more sockets wait for a restart: %s", c.restartRequired())
	}
	vmi, vm := c.vmi(), c.vm()
	if cpu := vmi.Spec.Domain.CPU; cpu.Sockets != 2 || cpu.MaxSockets != had.CPU.MaxSockets {
		t.Errorf("the VMI has %+v, had %+v", cpu, had.CPU)
	}
	if vm.Status.ObservedGeneration != vm.Generation || vmi.Annotations[v1alpha1.AnnotationTemplateDigest] == "" {
		t.Errorf("the VMI is of generation %d, the VM has %d", vm.Status.ObservedGeneration, vm.Generation)
	}

	two := resource.MustParse("2Gi")
	c.editVM(func(vm *v1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Memory.Guest = &two
		vm.Spec.Template.Spec.Hostname = "shop"
	})
	c.reconcileRepeatedly()
	if !strings.HasPrefix(c.restartRequired(), "changes of hostname take effect") || strings.Contains(c.restartRequired(), "memory") {
		t.Errorf("the condition is '%s'", c.restartRequired())
	}
	if memory := c.vmi().Spec.Domain.Memory; memory.Guest.Cmp(two) != 0 || memory.MaxGuest.Cmp(*had.Memory.MaxGuest) != 0 {
		t.Errorf("the VMI has %v", memory)
	}
	if c.vmi().Annotations[v1alpha1.AnnotationTemplateDigest] != "" {
		t.Error("the VMI says that it is what the VM asks for")
	}
	c.editVM(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "" })
	if c.reconcileRepeatedly(); c.restartRequired() != "" || c.vmi().Annotations[v1alpha1.AnnotationTemplateDigest] == "" {
		t.Errorf("after the edit was taken back the condition is '%s'", c.restartRequired())
	}
	c.editVM(setSockets(1))
	c.reconcileRepeatedly()
	if !strings.HasPrefix(c.restartRequired(), "changes of domain.cpu take effect") || c.vmi().Spec.Domain.CPU.Sockets != 2 {
		t.Errorf("fewer sockets: the condition is '%s'", c.restartRequired())
	}
}

// TestLiveUpdateWaits: the VMI is not changed before its guest runs, on a bare machine, or with rollout strategy Stage.
func TestLiveUpdateWaits(t *testing.T) {
	for why, set := range map[string]func(*testCluster){
		"before the guest runs": func(c *testCluster) { c.setPhase(v1.Scheduled) },
		"on a bare machine": func(c *testCluster) {
			vmi := c.vmi()
			vmi.Status.ActivePods = nil
			if err := c.Status().Update(c.Context(), vmi); err != nil {
				c.Fatal(err)
			}
		},
		"with the rollout strategy Stage": func(c *testCluster) {
			c.controller.Configuration = func() config.Cluster {
				stage := config.Default()
				stage.Limits.LiveUpdate = nil
				return stage
			}
		},
	} {
		c := newClusterWithPod(t)
		set(c)
		c.editVM(setSockets(2))
		c.reconcileRepeatedly()
		if !strings.Contains(c.restartRequired(), "domain.cpu") || c.vmi().Spec.Domain.CPU.Sockets != 1 {
			t.Errorf("%s: the condition is '%s', the VMI has %d sockets", why, c.restartRequired(), c.vmi().Spec.Domain.CPU.Sockets)
		}
		if why != "before the guest runs" {
			continue
		}
		c.setPhase(v1.Running)
		if c.reconcileRepeatedly(); c.restartRequired() != "" || c.vmi().Spec.Domain.CPU.Sockets != 2 {
			t.Errorf("when the guest runs, the condition is '%s', the VMI has %d sockets", c.restartRequired(), c.vmi().Spec.Domain.CPU.Sockets)
		}
	}
}

// TestLiveUpdateFails: a failed write is retried, and the condition stays until it succeeds.
func TestLiveUpdateFails(t *testing.T) {
	c := newClusterWithPod(t)
	working := c.controller.Live
	c.controller.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("the webhook does not answer")
		}})
	c.editVM(setSockets(2))
	s, err := c.controller.readState(c.Context(), client.ObjectKeyFromObject(c.vm()))
	if err != nil {
		t.Fatal(err)
	}
	if c.controller.findPendingEdit(c.Context(), s); s.retryable == nil || !s.pendingUnknown {
		t.Errorf("a failed write is not retried: %v", s.retryable)
	}
	c.controller.Live = working
	if c.reconcileRepeatedly(); c.restartRequired() != "" || c.vmi().Spec.Domain.CPU.Sockets != 2 {
		t.Errorf("the condition is '%s', the VMI has %d sockets", c.restartRequired(), c.vmi().Spec.Domain.CPU.Sockets)
	}
}
