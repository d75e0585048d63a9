package main

import (
	"context"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubecli"
	"kubevirt.io/client-go/version"
)

// made makes a call, and returns what the server answered.
type made func(ctx context.Context, t target, argument string) (any, error)

// takes is whether a call has an argument.
type takes int

const (
	nothing takes = iota
	possibly
	something
)

// known is a call of the program.
type known struct {
	argument takes
	made     made
}

// calls are all calls by name, as the comment of the package lists them.
var calls = func() map[string]known {
	all := map[string]known{
		"expand-vm-spec": {nothing, expandVMSpec},
		"server-version": callWithAnswer(func(ctx context.Context, t target) (*version.Info, error) {
			return withinContext(ctx, t.client.ServerVersion().Get)
		}),
	}
	for _, some := range []map[string]known{ofVM, ofVMI, ofSEV, ofStreams} {
		maps.Copy(all, some)
	}
	return all
}()

func (t target) vm() kubecli.VirtualMachineInterface { return t.client.VirtualMachine(t.namespace) }

func (t target) vmi() kubecli.VirtualMachineInstanceInterface {
	return t.client.VirtualMachineInstance(t.namespace)
}

// plainCall returns a call without argument and answer.
func plainCall(made func(ctx context.Context, t target) error) known {
	return known{nothing, func(ctx context.Context, t target, _ string) (any, error) { return nil, made(ctx, t) }}
}

// callWithArgument returns a call with an argument and without an answer.
func callWithArgument(made func(ctx context.Context, t target, argument string) error) known {
	return known{something, func(ctx context.Context, t target, argument string) (any, error) { return nil, made(ctx, t, argument) }}
}

// callWithAnswer returns a call without argument that has an answer.
func callWithAnswer[A any](made func(ctx context.Context, t target) (A, error)) known {
	return known{nothing, func(ctx context.Context, t target, _ string) (any, error) { return made(ctx, t) }}
}

// withinContext gives a method of the client that takes no context the time limit of ctx. The method itself may stay behind until the program ends: a time
// limit of the client's configuration would be a parameter of each request.
func withinContext[A any](ctx context.Context, method func() (A, error)) (A, error) {
	type returned struct {
		answer A
		err    error
	}
	done := make(chan returned, 1)
	go func() {
		answer, err := method()
		done <- returned{answer, err}
	}()
	select {
	case <-ctx.Done():
		var no A
		return no, ctx.Err()
	case it := <-done:
		return it.answer, it.err
	}
}

// expandVMSpec sends the VM that the server has.
func expandVMSpec(ctx context.Context, t target, _ string) (any, error) {
	vm, err := t.vm().Get(ctx, t.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return withinContext(ctx, func() (*v1.VirtualMachine, error) { return t.client.ExpandSpec(t.namespace).ForVirtualMachine(vm) })
}

// volumeOptions returns what virtctl asks for: disk and volume have the claim's name, and so has the serial.
func (t target) volumeOptions(claim string) *v1.AddVolumeOptions {
	source := v1.PersistentVolumeClaimVolumeSource{Hotpluggable: true}
	source.ClaimName = claim
	return &v1.AddVolumeOptions{
		Name: claim, VolumeSource: &v1.HotplugVolumeSource{PersistentVolumeClaim: &source}, DryRun: t.dryRun,
		Disk: &v1.Disk{Serial: claim, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusSCSI}}},
	}
}

func freezeGuest(ctx context.Context, t target, argument string) (any, error) {
	var limit time.Duration
	if argument != "" {
		var err error
		if limit, err = time.ParseDuration(argument); err != nil {
			return nil, err
		}
	}
	return nil, t.vmi().Freeze(ctx, t.name, limit)
}
