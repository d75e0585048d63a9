package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/test/load/creates"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// instancetypes and preference are what the VMs of all measurements name.
var instancetypes = []string{"load.nano", "load.small", "load.medium", "load.large", "load.huge"}

const preference = "load.linux"

// newClient reads and writes as the cluster's administrator.
func (b *bench) newClient() (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, v1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(b.config, client.Options{Scheme: scheme})
}

// createCatalog creates the instancetypes and the preference.
func (b *bench) createCatalog(ctx context.Context) error {
	c, err := b.newClient()
	if err != nil {
		return err
	}
	for i, name := range instancetypes {
		size := &v1beta1.VirtualMachineClusterInstancetype{ObjectMeta: metav1.ObjectMeta{Name: name}}
		size.Spec.CPU.Guest = 1 << i
		size.Spec.Memory.Guest = *resource.NewQuantity(1<<(30+i), resource.BinarySI)
		if err := c.Create(ctx, size); err != nil {
			return err
		}
	}
	linux := &v1beta1.VirtualMachineClusterPreference{ObjectMeta: metav1.ObjectMeta{Name: preference}}
	linux.Spec.Devices = &v1beta1.DevicePreferences{PreferredDiskBus: v1.DiskBusVirtio, PreferredInterfaceModel: "virtio"}
	return c.Create(ctx, linux)
}

func (b *bench) createNamespaces(ctx context.Context, names ...string) error {
	c, err := b.newClient()
	if err != nil {
		return err
	}
	for _, name := range names {
		err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// collectorPatience bounds how long the garbage collector may take to watch a new kind.
const collectorPatience = 3 * time.Minute

// awaitGarbageCollector waits until kube-controller-manager's garbage collector watches VMs, as it does in a cluster: until it deletes a VM whose owner does
// not exist. The collector looks for new kinds every 30 s. Its watch costs the API server time with each create, in every variant.
func (b *bench) awaitGarbageCollector(ctx context.Context, kind creates.Kind) error {
	c, err := b.newClient()
	if err != nil {
		return err
	}
	vm := kind.VM("without-owner")
	vm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "5d1cbb4b-3a3f-4f7c-9b2e-0a4f5a1c7e11"}}
	if err := c.Create(ctx, vm); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < collectorPatience; time.Sleep(100 * time.Millisecond) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(vm), vm); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return fmt.Errorf("the garbage collector has not deleted a VM without owner after %s", collectorPatience)
}

// patience bounds how long a controller may take for all VMs.
const patience = 30 * time.Minute

// workedOff waits until that many VMs exist and each of them has a status, which only a controller writes. It returns at once if no controller runs. Lists are
// read in pages and from the API server's cache, and once a second: a full list would cost more than what it waits for.
func (b *bench) workedOff(ctx context.Context, vms int) (time.Duration, error) {
	begun := time.Now()
	if !b.controlled {
		return 0, nil
	}
	c, err := b.newClient()
	if err != nil {
		return 0, err
	}
	for time.Since(begun) < patience {
		all, reported := 0, 0
		for next := ""; ; {
			var page v1.VirtualMachineList
			if err := c.List(ctx, &page, client.Limit(500), client.Continue(next)); err != nil {
				return 0, err
			}
			all += len(page.Items)
			for i := range page.Items {
				if page.Items[i].Status.PrintableStatus != "" {
					reported++
				}
			}
			if next = page.Continue; next == "" {
				break
			}
		}
		took := time.Since(begun)
		if all >= vms && reported == all {
			return took, nil
		}
		time.Sleep(time.Second)
	}
	return 0, fmt.Errorf("the controller has not reported on %d VMs after %s", vms, patience)
}

// countObjects returns the number of objects of a kind of kubevirt.io/v1. It asks for one of them: the API server says how many more there are.
func (b *bench) countObjects(ctx context.Context, kind string) (int, error) {
	c, err := b.newClient()
	if err != nil {
		return 0, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1.GroupVersion.WithKind(kind + "List"))
	if err := c.List(ctx, list, client.Limit(1)); err != nil {
		return 0, err
	}
	items := len(list.Items)
	if more := list.GetRemainingItemCount(); more != nil {
		items += int(*more)
	}
	return items, nil
}
