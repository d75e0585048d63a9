package lifecycle

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errKilled = errors.New("the process was killed")

// killAt makes every call from the n-th on fail, after or before the API server has done what it asks for, until the returned function is called. That reports
// whether there was such a call.
func (c *testCluster) killAt(n int, done bool) (restart func() bool) {
	calls := 0
	call := func(do func() error) error {
		if calls++; calls < n {
			return do()
		}
		if done && calls == n {
			if err := do(); err != nil {
				return err
			}
		}
		return errKilled
	}
	killed := func(of client.Client) client.Client {
		return interceptor.NewClient(of.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, to client.WithWatch, k client.ObjectKey, object client.Object, options ...client.GetOption) error {
				return call(func() error { return to.Get(ctx, k, object, options...) })
			},
			Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
				return call(func() error { return to.Create(ctx, object, options...) })
			},
			Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				return call(func() error { return to.Patch(ctx, object, patch, options...) })
			},
			SubResourcePatch: func(ctx context.Context, to client.Client, name string, object client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				return call(func() error { return to.SubResource(name).Patch(ctx, object, patch, options...) })
			},
		})
	}
	was := c.controller
	c.controller = &Controller{Client: killed(was.Client), Live: killed(was.Live), Resolver: was.Resolver, Events: was.Events, Now: was.Now,
		MakesDataVolumes: true, watchesDataVolumes: true}
	return func() bool {
		c.controller = &Controller{Client: was.Client, Live: was.Live, Resolver: was.Resolver, Events: was.Events, Now: was.Now,
			MakesDataVolumes: true, watchesDataVolumes: true}
		return calls >= n
	}
}

// TestKilledAtEveryCall: whichever call a process does not survive, its successor ends with one DataVolume for each template, and no DataVolume of a foreign
// source was made without a question before it.
func TestKilledAtEveryCall(t *testing.T) {
	for _, done := range []bool{false, true} {
		for n, more := 1, true; more; n++ {
			c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, clonedFrom("golden", "image"), imported("data")))
			asked := c.allowClones("default", "golden")
			restart := c.killAt(n, done)
			for range 3 {
				_, _ = c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			}
			before := map[string]types.UID{}
			for _, name := range []string{"root", "data"} {
				if volume := c.dataVolume(name); volume != nil {
					before[name] = volume.UID
				}
			}
			if before["root"] != "" && len(*asked) == 0 {
				t.Errorf("call %d: a clone without a question", n)
			}
			more = restart()
			c.reconcileRepeatedly()
			for _, name := range []string{"root", "data"} {
				volume := c.dataVolume(name)
				if volume == nil || before[name] != "" && volume.UID != before[name] {
					t.Fatalf("call %d, done %t: DataVolume %v, before %v", n, done, volume, before)
				}
				c.fill(name, cdi.Succeeded)
			}
			if c.reconcileRepeatedly(); c.vmi() == nil || c.failureCondition() != nil || len(*asked) == 0 {
				t.Errorf("call %d, done %t: VMI %v, failure %v", n, done, c.vmi(), c.failureCondition())
			}
			if n > 100 {
				t.Fatal("the calls do not end")
			}
		}
	}
}

// TestCopiesOfAVM: a VM that a restore or a clone has made, or that somebody has created from a backup with all annotations, is asked for its own right, and
// does not get the disk of the original.
func TestCopiesOfAVM(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, clonedFrom("golden", "image")))
	c.allowClones("default", "golden")
	c.reconcileRepeatedly()
	c.fill("root", cdi.Succeeded)
	c.reconcileRepeatedly()
	original := c.vm()

	clone := original.DeepCopy()
	clone.Name, clone.UID, clone.ResourceVersion = "b", "22222222-bbbb", ""
	if err := c.Create(t.Context(), clone); err != nil {
		t.Fatal(err)
	}
	ofClone := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(clone)}
	for range 3 {
		if _, err := c.controller.Reconcile(t.Context(), ofClone); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), ofClone.NamespacedName, clone); err != nil {
		t.Fatal(err)
	}
	failures := conditionsOfType(clone, v1.VirtualMachineFailure)
	if len(failures) != 1 || failures[0].Reason != "FailedDataVolumeCreate" {
		t.Errorf("the clone uses the disk of the original: %+v", clone.Status)
	}

	elsewhere := original.DeepCopy()
	elsewhere.Namespace, elsewhere.UID, elsewhere.ResourceVersion = "other", "33333333-cccc", ""
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "default"}}
	if err := errors.Join(c.Create(t.Context(), elsewhere), c.Create(t.Context(), account)); err != nil {
		t.Fatal(err)
	}
	var users []string
	allow := c.authorize
	c.authorize = func(spec authorizationv1.SubjectAccessReviewSpec) bool {
		users = append(users, spec.User)
		return allow(spec)
	}
	for range 3 {
		if _, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(elsewhere)}); err != nil {
			t.Fatal(err)
		}
	}
	var volumes cdi.DataVolumeList
	if err := c.List(t.Context(), &volumes, client.InNamespace("other")); err != nil || len(volumes.Items) > 0 {
		t.Errorf("the copy in another namespace has %v, error %v", volumes.Items, err)
	}
	if len(users) == 0 || users[0] != "system:serviceaccount:other:default" {
		t.Errorf("asked about %v", users)
	}
}
