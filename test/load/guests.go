package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kilnvm/kiln/test/load/creates"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// measureGuests creates VMs with runStrategy Always, and measures the time from the request for each VM to the event of its VMI. Only variants with
// a controller have VMIs.
func measureGuests(ctx context.Context, o options, r *Results) error {
	all, err := chosenVariants(o)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(v variant) bool { return v.overlay == "" || v.admission })
	r.Guests = map[string][]Run{}
	o.Variants = ""
	for i, v := range all {
		if i > 0 {
			o.Variants += ","
		}
		o.Variants += v.name
	}
	if len(all) == 0 {
		return nil
	}
	return runRounds(ctx, o, r.Guests, func(ctx context.Context, b *bench) (Run, error) { return b.measureGuests(ctx, o) })
}

// seen are the times at which VMIs were first seen, by name.
type seen struct {
	sync.Mutex
	at map[string]time.Time
}

func (s *seen) len() int {
	s.Lock()
	defer s.Unlock()
	return len(s.at)
}

func (b *bench) measureGuests(ctx context.Context, o options) (Run, error) {
	c, err := b.newClient()
	if err != nil {
		return Run{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := &seen{at: map[string]time.Time{}}
	if err := found.watchVMIs(ctx, c); err != nil {
		return Run{}, err
	}
	always := haltedVMs("load")
	always.Strategy = v1.RunStrategyAlways
	begun := time.Now()
	result, err := creates.Run(ctx, b.config, creates.Plan{Clients: o.Clients, Total: o.Guests, VM: numberedVMs(always)})
	if err != nil {
		return Run{}, err
	}
	created := time.Now()
	want := len(result.Creates) - len(result.Failures())
	for found.len() < want {
		if time.Since(created) > patience {
			return Run{}, fmt.Errorf("%d of %d VMIs after %s", found.len(), want, patience)
		}
		time.Sleep(10 * time.Millisecond)
	}
	var last time.Time
	for i := range result.Creates {
		one := &result.Creates[i]
		if at, is := found.at[one.Name]; is {
			one.Latency = at.Sub(one.Due)
			if at.After(last) {
				last = at
			}
		}
	}
	result.Took = last.Sub(begun)
	run := runOf(result)
	run.Behind = max(0, last.Sub(created).Seconds())
	return run, nil
}

// watchVMIs records VMIs of namespace load from now on.
func (s *seen) watchVMIs(ctx context.Context, c client.WithWatch) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1.VirtualMachineInstanceGroupVersionKind.GroupVersion().WithKind("VirtualMachineInstanceList"))
	events, err := c.Watch(ctx, list, client.InNamespace("load"))
	if err != nil {
		return err
	}
	go func() {
		for event := range events.ResultChan() {
			if object, is := event.Object.(client.Object); is {
				s.Lock()
				if _, known := s.at[object.GetName()]; !known {
					s.at[object.GetName()] = time.Now()
				}
				s.Unlock()
			}
		}
	}()
	return nil
}
