package resolve

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/preset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// matching returns the presets that match the VM's VMI now, as snapshots in name order.
func (r Resolver) matching(ctx context.Context, vm *v1.VirtualMachine) ([]*pinObject, error) {
	if vm.Spec.Template == nil {
		return nil, nil
	}
	all, err := r.Presets(ctx, vm.Namespace)
	if err != nil {
		return nil, err
	}
	typed, errs := preset.Match(all, admit.Instance(vm))
	if len(errs) > 0 {
		for _, err := range errs {
			err.Field = "spec.template." + err.Field // preset.Match judges the VMI
		}
		return nil, &Refusal{errs}
	}
	var found []*pinObject
	for i := range typed {
		// Read again, untyped: a typed snapshot would lose the fields of a newer API. Presets have no untyped informer, so they are read live.
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1.VirtualMachineInstancePresetGroupVersionKind)
		reader := r.Cached
		if r.Live != nil {
			reader = r.Live
		}
		if err := reader.Get(ctx, client.ObjectKeyFromObject(&typed[i]), object); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading preset '%s': %w", typed[i].Name, err)
		}
		c, err := r.snapshot(ctx, presets, vm.Namespace, object)
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	return found, nil
}

// configuration returns the configuration in force as a snapshot; none if the Resolver has no Defaults.
func (r Resolver) configuration(ctx context.Context, namespace string) ([]*pinObject, error) {
	if r.Defaults == nil {
		return nil, nil
	}
	object, err := config.Snapshot(*r.Defaults)
	if err != nil {
		return nil, err
	}
	found, err := r.snapshot(ctx, configurations, namespace, &unstructured.Unstructured{Object: object})
	return []*pinObject{found}, err
}
