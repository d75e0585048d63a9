package revision

import (
	"context"

	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Named is an instancetype or preference that a VM names in its spec, whether or not it is pinned to a revision of it.
type Named struct {
	// Namespace and VM are those of the VM.
	Namespace, VM string
	// Kind and Name are those of the object. Kind is one of instancetype.CatalogKinds.
	Kind, Name string
}

// NamedBy lists what the VMs of a namespace name; of all namespaces if it is empty. What is inferred from a volume has no name in the spec, and is
// left out.
func NamedBy(ctx context.Context, reader client.Reader, namespace string) (all []Named, err error) {
	err = eachPage(ctx, reader, func(page *v1.VirtualMachineList) {
		for i := range page.Items {
			all = append(all, namedBy(&page.Items[i])...)
		}
	}, client.InNamespace(namespace), pageSize)
	return all, err
}

func namedBy(vm *v1.VirtualMachine) (all []Named) {
	add := func(kinds instancetype.KindNames, kind, name string) {
		if kind = kinds.Canonical(kind); kind != "" && name != "" {
			all = append(all, Named{vm.Namespace, vm.Name, kind, name})
		}
	}
	if m := vm.Spec.Instancetype; m != nil {
		add(instancetype.Kinds, m.Kind, m.Name)
	}
	if m := vm.Spec.Preference; m != nil {
		add(instancetype.PreferenceKinds, m.Kind, m.Name)
	}
	return all
}
