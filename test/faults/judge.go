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

// verdict is the state in the API server after all was well again, or after the time for this was over.
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

// awaitComplete waits until every VM is complete, or the time for that is over.
func (s *stage) awaitComplete(ctx context.Context, space string, t *trial) (v verdict, err error) {
	waited := retryUntil(ctx, mends, func() error {
		if v, err = s.inspectVMs(ctx, space, t); err != nil {
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
		err = s.countIdleWrites(ctx, space, &v)
	}
	return v, err
}

// quiet is the time for which nobody writes a VM, some seconds after the last fault.
const quiet = 5 * time.Second

// countIdleWrites counts the VMs and VMIs that are written while nothing happens.
func (s *stage) countIdleWrites(ctx context.Context, space string, v *verdict) error {
	time.Sleep(quiet)
	for _, resource := range []schema.GroupVersionResource{machines, guests} {
		before, err := s.listObjects(ctx, space, resource)
		if err != nil {
			return err
		}
		time.Sleep(quiet)
		after, err := s.listObjects(ctx, space, resource)
		if err != nil {
			return err
		}
		for name, object := range after {
			if old := before[name]; old != nil && old.GetResourceVersion() != object.GetResourceVersion() {
				v.restless++
				v.addExample(fmt.Sprintf("%s '%s' is written again and again", object.GetKind(), name))
			}
		}
	}
	return nil
}

func (s *stage) inspectVMs(ctx context.Context, space string, t *trial) (v verdict, err error) {
	vms, err := s.listObjects(ctx, space, machines)
	if err != nil {
		return v, err
	}
	vmis, err := s.listObjects(ctx, space, guests)
	if err != nil {
		return v, err
	}
	kept, err := s.listObjects(ctx, space, revisions)
	if err != nil {
		return v, err
	}
	for _, c := range t.Creates {
		if vms[c.Name] == nil && c.Err == nil {
			v.lost++
			v.addExample("lost: " + c.Name)
		}
	}
	used := map[string]bool{}
	for name, vm := range vms { // those whose create failed and that exist, too
		v.judgeVM(vm, vmis[name])
		if first := t.seen.firstPins(name); first != "" && first != fmt.Sprint(pinsOf(vm)) {
			v.unpinned++
			v.addExample(fmt.Sprintf("VM '%s' had pins %s and has %v", name, first, pinsOf(vm)))
		}
		for _, object := range []*unstructured.Unstructured{vm, vmis[name]} {
			if object == nil {
				continue
			}
			mine := map[string]bool{}
			collectNames(map[string]any(pinsOf(object)), mine)
			for revision := range mine {
				if kept[revision] == nil {
					v.unpinned++
					v.addExample(fmt.Sprintf("%s '%s' is pinned to %s, which does not exist", object.GetKind(), name, revision))
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

// judgeVM judges one VM with its VMI.
func (v *verdict) judgeVM(vm, vmi *unstructured.Unstructured) {
	if lacks := missingParts(vm); lacks != "" {
		v.stuck++
		v.addExample(fmt.Sprintf("stuck: VM '%s' has %s", vm.GetName(), lacks))
	}
	strategy, _, _ := unstructured.NestedString(vm.Object, "spec", "runStrategy")
	if strategy == "Halted" {
		return
	}
	if vmi == nil {
		v.stuck++
		v.addExample(fmt.Sprintf("stuck: VM '%s' has no VMI", vm.GetName()))
		return
	}
	if lacks := missingParts(vmi); lacks != "" {
		v.stuck++
		v.addExample(fmt.Sprintf("stuck: VMI '%s' has %s", vmi.GetName(), lacks))
	}
	if fmt.Sprint(pinsOf(vm)) != fmt.Sprint(pinsOf(vmi)) {
		v.unpinned++
		v.addExample(fmt.Sprintf("VMI '%s' has pins %v, its VM %v", vmi.GetName(), pinsOf(vmi), pinsOf(vm)))
	}
}

// addExample keeps some texts of what is wrong.
func (v *verdict) addExample(text string) {
	if len(v.examples) < 5 {
		v.examples = append(v.examples, text)
	}
}
