package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// verdict is what was found in the API server when all was well again, or had had the time to be.
type verdict struct {
	// lost VMs were acknowledged and do not exist. stuck ones are incomplete, or have no VMI though they are to run. unpinned ones
	// name revisions that do not exist, others than their VMI, or others than they named at first.
	lost, stuck, unpinned int
	// restless VMs and VMIs are written though nothing happens: two writers do not agree.
	restless int
	// orphans are revisions that no VM and no VMI refers to. The collector removes them after an hour.
	orphans  int
	examples []string
}

// judge waits until every VM is complete, or the time for that is over.
func (s *stage) judge(ctx context.Context, space string, t *trial) (v verdict, err error) {
	waited := until(ctx, mends, func() error {
		if v, err = s.look(ctx, space, t); err != nil {
			return err
		}
		if v.lost+v.stuck+v.unpinned > 0 {
			return errors.New("not all is well")
		}
		return nil
	})
	if waited != nil && ctx.Err() != nil {
		return v, ctx.Err()
	}
	if err == nil {
		err = s.rests(ctx, space, &v)
	}
	return v, err
}

// quiet is the time for which nobody writes a VM, some seconds after the last fault.
const quiet = 5 * time.Second

// rests counts the VMs and VMIs that are written while nothing happens.
func (s *stage) rests(ctx context.Context, space string, v *verdict) error {
	time.Sleep(quiet)
	for _, resource := range []schema.GroupVersionResource{machines, guests} {
		before, err := s.list(ctx, space, resource)
		if err != nil {
			return err
		}
		time.Sleep(quiet)
		after, err := s.list(ctx, space, resource)
		if err != nil {
			return err
		}
		for name, object := range after {
			if old := before[name]; old != nil && old.GetResourceVersion() != object.GetResourceVersion() {
				v.restless++
				v.example(fmt.Sprintf("%s '%s' is written again and again", object.GetKind(), name))
			}
		}
	}
	return nil
}

func (s *stage) look(ctx context.Context, space string, t *trial) (v verdict, err error) {
	vms, err := s.list(ctx, space, machines)
	if err != nil {
		return v, err
	}
	vmis, err := s.list(ctx, space, guests)
	if err != nil {
		return v, err
	}
	kept, err := s.list(ctx, space, revisions)
	if err != nil {
		return v, err
	}
	for _, c := range t.Creates {
		if vms[c.Name] == nil && c.Err == nil {
			v.lost++
			v.example("lost: " + c.Name)
		}
	}
	used := map[string]bool{}
	for name, vm := range vms { // those whose create failed and that exist, too
		v.vm(vm, vmis[name])
		if first := t.seen.firstPins(name); first != "" && first != fmt.Sprint(pins(vm)) {
			v.unpinned++
			v.example(fmt.Sprintf("VM '%s' had pins %s and has %v", name, first, pins(vm)))
		}
		for _, object := range []*unstructured.Unstructured{vm, vmis[name]} {
			if object == nil {
				continue
			}
			mine := map[string]bool{}
			names(map[string]any(pins(object)), mine)
			for revision := range mine {
				if kept[revision] == nil {
					v.unpinned++
					v.example(fmt.Sprintf("%s '%s' is pinned to %s, which does not exist", object.GetKind(), name, revision))
				}
			}
			maps.Copy(used, mine)
		}
	}
	for name := range kept {
		if !used[name] {
			v.orphans++
		}
	}
	return v, nil
}

// vm judges one VM with its VMI.
func (v *verdict) vm(vm, vmi *unstructured.Unstructured) {
	if lacks := incomplete(vm); lacks != "" {
		v.stuck++
		v.example(fmt.Sprintf("stuck: VM '%s' has %s", vm.GetName(), lacks))
	}
	strategy, _, _ := unstructured.NestedString(vm.Object, "spec", "runStrategy")
	if strategy == "Halted" {
		return
	}
	if vmi == nil {
		v.stuck++
		v.example(fmt.Sprintf("stuck: VM '%s' has no VMI", vm.GetName()))
		return
	}
	if lacks := incomplete(vmi); lacks != "" {
		v.stuck++
		v.example(fmt.Sprintf("stuck: VMI '%s' has %s", vmi.GetName(), lacks))
	}
	if fmt.Sprint(pins(vm)) != fmt.Sprint(pins(vmi)) {
		v.unpinned++
		v.example(fmt.Sprintf("VMI '%s' has pins %v, its VM %v", vmi.GetName(), pins(vmi), pins(vm)))
	}
}

// example keeps some texts of what is wrong.
func (v *verdict) example(text string) {
	if len(v.examples) < 5 {
		v.examples = append(v.examples, text)
	}
}
