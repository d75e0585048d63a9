package resolve

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/preset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Circumstances are what a guest gets without naming it: presets that match its labels, and the defaults of the cluster. The
// controller pins them when it first sees a VM, so that the guest of that VM stays what it is when they are edited.

var (
	presets = family{field: "presets", KindNames: instancetype.KindNames{Namespaced: v1.VirtualMachineInstancePresetGroupVersionKind.Kind}}
	// configurations have no API: their snapshots are all there is of them.
	configurations = family{field: "configuration", KindNames: instancetype.KindNames{Namespaced: v1alpha1.KindClusterConfiguration}}
)

// Surround pins what of a VM's circumstances the given pins lack to what it is now. A Refusal names presets that cannot be matched.
func (r Resolver) Surround(ctx context.Context, vm *v1.VirtualMachine, pins v1alpha1.Pins) (v1alpha1.Pins, []revision.Draft, error) {
	var found []*content
	if pins.Presets == nil {
		matching, err := r.matching(ctx, vm)
		if err != nil {
			return pins, nil, err
		}
		pins.Presets, found = revisions(matching), matching
	}
	if pins.Configuration == "" {
		current, err := r.configuration(ctx, vm.Namespace)
		if err != nil {
			return pins, nil, err
		}
		for _, c := range current {
			pins.Configuration = c.revision
		}
		found = append(found, current...)
	}
	var drafts []revision.Draft
	for _, c := range found {
		if c.draft != nil {
			drafts = append(drafts, *c.draft)
		}
	}
	return pins, drafts, nil
}

// revisions are the names of contents; never nil.
func revisions(found []*content) []string {
	names := make([]string, 0, len(found))
	for _, c := range found {
		names = append(names, c.revision)
	}
	return names
}

// matching are the presets that match the guest of a VM now, as their snapshots, in name order.
func (r Resolver) matching(ctx context.Context, vm *v1.VirtualMachine) ([]*content, error) {
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
			err.Field = "spec.template." + err.Field // they are about the guest
		}
		return nil, &Refusal{errs}
	}
	var found []*content
	for i := range typed {
		// Read again as it is stored: what this release does not know must not get lost in a snapshot.
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

// configuration is the configuration in force, as its snapshot; none where nobody says which one is.
func (r Resolver) configuration(ctx context.Context, namespace string) ([]*content, error) {
	if r.Defaults == nil {
		return nil, nil
	}
	object, err := config.Snapshot(*r.Defaults)
	if err != nil {
		return nil, err
	}
	found, err := r.snapshot(ctx, configurations, namespace, &unstructured.Unstructured{Object: object})
	return []*content{found}, err
}
