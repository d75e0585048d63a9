package main

import (
	"context"
	"strconv"

	v1 "kubevirt.io/api/core/v1"
)

// ofVM are the calls of a VirtualMachine.
var ofVM = map[string]known{
	"start": plainCall(func(ctx context.Context, t target) error {
		return t.vm().Start(ctx, t.name, &v1.StartOptions{DryRun: t.dryRun})
	}),
	"start-paused": plainCall(func(ctx context.Context, t target) error {
		return t.vm().Start(ctx, t.name, &v1.StartOptions{Paused: true, DryRun: t.dryRun})
	}),
	"stop": plainCall(func(ctx context.Context, t target) error {
		return t.vm().Stop(ctx, t.name, &v1.StopOptions{DryRun: t.dryRun})
	}),
	"stop-grace": callWithArgument(func(ctx context.Context, t target, argument string) error {
		seconds, err := strconv.ParseInt(argument, 10, 64)
		if err != nil {
			return err
		}
		return t.vm().Stop(ctx, t.name, &v1.StopOptions{GracePeriod: &seconds, DryRun: t.dryRun})
	}),
	"restart": plainCall(func(ctx context.Context, t target) error {
		return t.vm().Restart(ctx, t.name, &v1.RestartOptions{DryRun: t.dryRun})
	}),
	"force-restart": plainCall(func(ctx context.Context, t target) error {
		return t.vm().Restart(ctx, t.name, &v1.RestartOptions{GracePeriodSeconds: new(int64), DryRun: t.dryRun})
	}),
	"expand-spec": callWithAnswer(func(ctx context.Context, t target) (*v1.VirtualMachine, error) {
		return t.vm().GetWithExpandedSpec(ctx, t.name)
	}),
	"addvolume": callWithArgument(func(ctx context.Context, t target, claim string) error {
		return t.vm().AddVolume(ctx, t.name, t.volumeOptions(claim))
	}),
	"removevolume": callWithArgument(func(ctx context.Context, t target, volume string) error {
		return t.vm().RemoveVolume(ctx, t.name, &v1.RemoveVolumeOptions{Name: volume, DryRun: t.dryRun})
	}),
	"objectgraph": callWithAnswer(func(ctx context.Context, t target) (v1.ObjectGraphNode, error) {
		return t.vm().ObjectGraph(ctx, t.name, &v1.ObjectGraphOptions{})
	}),
	"migrate": plainCall(func(ctx context.Context, t target) error {
		return t.vm().Migrate(ctx, t.name, &v1.MigrateOptions{DryRun: t.dryRun})
	}),
	"memorydump": callWithArgument(func(ctx context.Context, t target, claim string) error {
		return t.vm().MemoryDump(ctx, t.name, &v1.VirtualMachineMemoryDumpRequest{ClaimName: claim})
	}),
	"removememorydump": plainCall(func(ctx context.Context, t target) error { return t.vm().RemoveMemoryDump(ctx, t.name) }),
	"evacuate-cancel": plainCall(func(ctx context.Context, t target) error {
		return t.vm().EvacuateCancel(ctx, t.name, &v1.EvacuateCancelOptions{DryRun: t.dryRun})
	}),
}
