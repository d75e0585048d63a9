package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kilnvm/kiln/test/load/creates"
	v1 "kubevirt.io/api/core/v1"
)

// runRounds runs something with each variant in turn, every other round in the reverse order: what a machine does besides, and how warm it is, meets
// all of them.
func runRounds(ctx context.Context, o options, into map[string][]Run, one func(context.Context, *bench) (Run, error)) error {
	all, err := chosenVariants(o)
	if err != nil {
		return err
	}
	for round := range o.Rounds {
		for _, v := range all {
			run, err := runVariant(ctx, o, v, one)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			into[v.name] = append(into[v.name], run)
			fmt.Fprintf(os.Stderr, "round %d, %s: %.1f/s, p50 %.0f ms, p99 %.0f ms, %d failed, %.1f s behind, webhook %.0f MB, controller %.0f MB\n",
				round+1, v.name, run.PerSecond, run.P50, run.P99, run.Failed, run.Behind, float64(run.WebhookPeak)/mega, float64(run.ControllerPeak)/mega)
		}
		slices.Reverse(all)
	}
	return nil
}

// runVariant starts a variant, creates VMs that are not counted, and runs it once.
func runVariant(ctx context.Context, o options, v variant, one func(context.Context, *bench) (Run, error)) (run Run, err error) {
	b, err := v.startBench(ctx, o.Root)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.createCatalog(ctx); err != nil {
		return run, err
	}
	select { // the API server publishes new kinds in OpenAPI for some seconds
	case <-ctx.Done():
		return run, ctx.Err()
	case <-time.After(o.Settle):
	}
	if err := b.createNamespaces(ctx, "warm", "load"); err != nil {
		return run, err
	}
	if err := b.awaitGarbageCollector(ctx, haltedVMs("warm")); err != nil {
		return run, err
	}
	warm, err := creates.Run(ctx, b.config, creates.Plan{Clients: o.Clients, Total: o.Warm, VM: numberedVMs(haltedVMs("warm"))})
	if err != nil {
		return run, err
	}
	if failed := warm.Failures(); len(failed) > 0 {
		return run, fmt.Errorf("warming up: %d of %d creates failed: %w", len(failed), o.Warm, failed[0].Err)
	}
	if _, err := b.workedOff(ctx, o.Warm); err != nil {
		return run, err
	}
	if v.admission {
		b.controlled = false
		if err := b.StopControllers(); err != nil {
			return run, err
		}
	}
	run, err = one(ctx, b)
	run.WebhookPeak, run.ControllerPeak = b.peakMemory()
	return run, err
}

func haltedVMs(namespace string) creates.Kind {
	return creates.Kind{Namespace: namespace, Instancetype: instancetypes[0], Preference: preference, Strategy: v1.RunStrategyHalted}
}

func numberedVMs(kind creates.Kind) func(int) *v1.VirtualMachine {
	return func(i int) *v1.VirtualMachine { return kind.VM(fmt.Sprintf("vm-%05d", i)) }
}

// measureCreates creates Halted VMs as fast as some clients can.
func measureCreates(ctx context.Context, o options, r *Results) error {
	r.Creates = map[string][]Run{}
	return runRounds(ctx, o, r.Creates, func(ctx context.Context, b *bench) (Run, error) {
		result, err := creates.Run(ctx, b.config, creates.Plan{Clients: o.Clients, Total: o.VMs, VM: numberedVMs(haltedVMs("load"))})
		run := runOf(result)
		if err != nil {
			return run, err
		}
		behind, err := b.workedOff(ctx, o.Warm+run.Created)
		run.Behind = behind.Seconds()
		return run, err
	})
}

// measureBurst creates all VMs at once, each by a client of its own.
func measureBurst(ctx context.Context, o options, r *Results) error {
	r.Bursts = map[string][]Run{}
	return runRounds(ctx, o, r.Bursts, func(ctx context.Context, b *bench) (Run, error) {
		result, err := creates.Run(ctx, b.config, creates.Plan{Clients: o.Burst, Total: o.Burst, VM: numberedVMs(haltedVMs("load"))})
		return runOf(result), err
	})
}
