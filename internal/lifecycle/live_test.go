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

// inPod is running, with a guest in a pod, and a webhook that judges what the controller changes.
func inPod(t *testing.T) *cluster {
	t.Helper()
	c := running(t, v1.RunStrategyAlways)
	vmi := c.guest()
	vmi.Status.ActivePods = map[types.UID]string{"pod": "node"}
	if err := c.Status().Update(c.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	limits := config.Default().Limits
	limits.Updaters = []string{"kiln"}
	c.controller.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if now, is := object.(*v1.VirtualMachineInstance); is {
				change := validate.GuestChange{New: now, Old: c.guest(), By: validate.Account{Name: "kiln"}}
				if errs := validate.GuestUpdate(change, limits); len(errs) > 0 {
					t.Errorf("admission refuses %v", errs)
				}
			}
			return to.Patch(ctx, object, patch, options...)
		}})
	return c
}

func sockets(n uint32) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.CPU = &v1.CPU{Sockets: n, Cores: 1, Threads: 1}
	}
}

// TestLiveUpdate: an edit that the guest can get while it runs changes the VMI, and needs no restart.
func TestLiveUpdate(t *testing.T) {
	c := inPod(t)
	had := c.guest().Spec.Domain
	c.edit(sockets(2))
	if c.step(); c.waits() != "" {
		t.Errorf("more sockets wait for a restart: %s", c.waits())
	}
	vmi, vm := c.guest(), c.vm()
	if cpu := vmi.Spec.Domain.CPU; cpu.Sockets != 2 || cpu.MaxSockets != had.CPU.MaxSockets {
		t.Errorf("the VMI has %+v, had %+v", cpu, had.CPU)
	}
	if vm.Status.ObservedGeneration != vm.Generation || vmi.Annotations[v1alpha1.AnnotationTemplateDigest] == "" {
		t.Errorf("the VMI is of generation %d, the VM has %d", vm.Status.ObservedGeneration, vm.Generation)
	}

	two := resource.MustParse("2Gi")
	c.edit(func(vm *v1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Memory.Guest = &two
		vm.Spec.Template.Spec.Hostname = "shop"
	})
	c.step()
	if !strings.HasPrefix(c.waits(), "changes of hostname take effect") || strings.Contains(c.waits(), "memory") {
		t.Errorf("the condition is '%s'", c.waits())
	}
	if memory := c.guest().Spec.Domain.Memory; memory.Guest.Cmp(two) != 0 || memory.MaxGuest.Cmp(*had.Memory.MaxGuest) != 0 {
		t.Errorf("the VMI has %v", memory)
	}
	if c.guest().Annotations[v1alpha1.AnnotationTemplateDigest] != "" {
		t.Error("the VMI says that it is what the VM asks for")
	}
	c.edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "" })
	if c.step(); c.waits() != "" || c.guest().Annotations[v1alpha1.AnnotationTemplateDigest] == "" {
		t.Errorf("after the edit was taken back the condition is '%s'", c.waits())
	}
	c.edit(sockets(1))
	c.step()
	if !strings.HasPrefix(c.waits(), "changes of domain.cpu take effect") || c.guest().Spec.Domain.CPU.Sockets != 2 {
		t.Errorf("fewer sockets: the condition is '%s'", c.waits())
	}
}

// TestLiveUpdateWaits: nothing is changed before the guest runs, on a bare machine, and with the rollout strategy Stage.
func TestLiveUpdateWaits(t *testing.T) {
	for why, set := range map[string]func(*cluster){
		"before the guest runs": func(c *cluster) { c.phase(v1.Scheduled) },
		"on a bare machine": func(c *cluster) {
			vmi := c.guest()
			vmi.Status.ActivePods = nil
			if err := c.Status().Update(c.Context(), vmi); err != nil {
				c.Fatal(err)
			}
		},
		"with the rollout strategy Stage": func(c *cluster) {
			c.controller.Configuration = func() config.Cluster {
				stage := config.Default()
				stage.Limits.LiveUpdate = nil
				return stage
			}
		},
	} {
		c := inPod(t)
		set(c)
		c.edit(sockets(2))
		c.step()
		if !strings.Contains(c.waits(), "domain.cpu") || c.guest().Spec.Domain.CPU.Sockets != 1 {
			t.Errorf("%s: the condition is '%s', the VMI has %d sockets", why, c.waits(), c.guest().Spec.Domain.CPU.Sockets)
		}
		if why != "before the guest runs" {
			continue
		}
		c.phase(v1.Running)
		if c.step(); c.waits() != "" || c.guest().Spec.Domain.CPU.Sockets != 2 {
			t.Errorf("when the guest runs, the condition is '%s', the VMI has %d sockets", c.waits(), c.guest().Spec.Domain.CPU.Sockets)
		}
	}
}

// TestLiveUpdateFails: a write that fails is repeated, and the condition stays as it was meanwhile.
func TestLiveUpdateFails(t *testing.T) {
	c := inPod(t)
	working := c.controller.Live
	c.controller.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("the webhook does not answer")
		}})
	c.edit(sockets(2))
	s, err := c.controller.read(c.Context(), client.ObjectKeyFromObject(c.vm()))
	if err != nil {
		t.Fatal(err)
	}
	if c.controller.compare(c.Context(), s); s.retryable == nil || !s.pendingUnknown {
		t.Errorf("a failed write is not retried: %v", s.retryable)
	}
	c.controller.Live = working
	if c.step(); c.waits() != "" || c.guest().Spec.Domain.CPU.Sockets != 2 {
		t.Errorf("the condition is '%s', the VMI has %d sockets", c.waits(), c.guest().Spec.Domain.CPU.Sockets)
	}
}
