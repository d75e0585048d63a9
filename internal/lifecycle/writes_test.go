package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// recordRequests returns the requests of the controllers to the API server: writes, and reads that bypass the cache.
func (c *testCluster) recordRequests() *[]string {
	var all []string
	note := func(verb string, object client.Object) { all = append(all, fmt.Sprintf("%s %T", verb, object)) }
	writes := interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
			note("create", object)
			return to.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			note("patch", object)
			return to.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, to client.Client, of string, object client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			note("patch "+of+" of", object)
			return to.SubResource(of).Patch(ctx, object, p, o...)
		},
	}
	reads := writes
	reads.Get = func(ctx context.Context, from client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		note("get", object)
		return from.Get(ctx, key, object, options...)
	}
	api := c.Client.(client.WithWatch)
	c.controller.Client, c.controller.Live = interceptor.NewClient(api, writes), interceptor.NewClient(api, reads)
	c.records.Client, c.records.Live = c.controller.Client, c.controller.Live
	return &all
}

// TestRequestsForANewVM: a VM that admission has completed costs one write of its status. A VM that it could not complete costs one more write, of identity
// and pins.
func TestRequestsForANewVM(t *testing.T) {
	const status = "patch status of *v1.VirtualMachine"
	complete := map[string]string{v1alpha1.AnnotationIdentity: "seed", v1alpha1.AnnotationPins: `{"presets":[],"configuration":"c"}`}
	for _, test := range []struct {
		name, why   string
		annotations map[string]string
		strategy    v1.VirtualMachineRunStrategy
		want        []string
	}{
		{"halted", "there is nothing to do but to report", complete, v1.RunStrategyHalted, []string{status}},
		{"manual", "nothing starts it", complete, v1.RunStrategyManual, []string{status}},
		{"always", "the cache has no template, and VMs and records in it may be outdated", complete, v1.RunStrategyAlways,
			[]string{"get *v1.VirtualMachine", "get *v1alpha1.GuestHardware", "create *v1.VirtualMachineInstance", status}},
		{"halted, not completed", "an old webhook, or one that was down", nil, v1.RunStrategyHalted, []string{"patch *v1.VirtualMachine", status}},
		{"halted, without identity", "admitted by a webhook that leaves it to the controller",
			map[string]string{v1alpha1.AnnotationPins: complete[v1alpha1.AnnotationPins]}, v1.RunStrategyHalted, []string{"patch *v1.VirtualMachine", status}},
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := newVM(test.strategy)
			vm.Annotations = test.annotations
			c := newCluster(t, vm)
			if test.annotations[v1alpha1.AnnotationPins] != "" { // another VM would get a revision of the configuration, too
				cluster := config.Default()
				cluster.Limits.Runtime = config.RuntimePod
				c.controller.Configuration = func() config.Cluster { return cluster }
			}
			got := c.recordRequests()
			c.reconcileRepeatedly()
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Errorf("%s: -want +got\n%s", test.why, diff)
			}
			written := slices.Contains(test.want, "patch *v1.VirtualMachine")
			if identity := c.vm().Annotations[v1alpha1.AnnotationIdentity]; written != (identity == string(vm.UID)) || !written && identity != "seed" {
				t.Errorf("%s: identity '%s'", test.why, identity)
			}
		})
	}
}
