package resolve

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/preset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// matchingPresets returns the presets that match the VM's VMI now, as snapshots in name order.
func (r Resolver) matchingPresets(ctx context.Context, vm *v1.VirtualMachine) ([]*pinObject, error) {
	if vm.Spec.Template == nil {
		return nil, nil
	}
	all, err := r.Presets(ctx, vm.Namespace)
	if err != nil {
		return nil, err
	}
	typed, errs := preset.Match(all, SelectableVMI(vm))
	if len(errs) > 0 {
		return nil, (&Refusal{errs}).OfTemplate() // preset.Match judges the VMI
	}
	var found []*pinObject
	for i := range typed {
		draft, err := r.presetDraft(ctx, &typed[i])
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading preset '%s': %w", typed[i].Name, err)
		}
		c, err := r.reader().storedOrDraft(ctx, presets, draft)
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	return found, nil
}

// presetDraft returns the snapshot of a preset. It is made from the untyped object, because a typed one would lose the fields of a newer API. Presets have no
// untyped informer, so the object is read live, once for each version.
func (r Resolver) presetDraft(ctx context.Context, typed *v1.VirtualMachineInstancePreset) (revision.Draft, error) {
	if known, ok := r.Memo.cachedDraft(typed.Namespace, typed); ok {
		return known, nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1.VirtualMachineInstancePresetGroupVersionKind)
	reader := r.Cached
	if r.Live != nil {
		reader = r.Live
	}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(typed), object); err != nil {
		return revision.Draft{}, err
	}
	return r.reader().newDraft(typed.Namespace, object)
}

// currentConfiguration returns the current configuration as a snapshot for the VM's namespace, or nil if the Resolver has no Defaults.
func (r Resolver) currentConfiguration(ctx context.Context, vm *v1.VirtualMachine) ([]*pinObject, error) {
	if r.Defaults == nil {
		return nil, nil
	}
	draft, err := r.Memo.snapshotOf(*r.Defaults, func() (revision.Draft, error) {
		object, err := config.Snapshot(*r.Defaults)
		if err != nil {
			return revision.Draft{}, err
		}
		return revision.NewDraft("", &unstructured.Unstructured{Object: object})
	})
	if err != nil {
		return nil, err
	}
	draft.Namespace = vm.Namespace
	found, err := r.reader().storedOrDraft(ctx, configurations, draft)
	return []*pinObject{found}, err
}
