package revision

import (
	"context"
	"strings"

	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Named is an instancetype or preference that a VM names in its spec. The VM may be pinned to a revision of it.
type Named struct {
	// Namespace and VM are namespace and name of the VM.
	Namespace, VM string
	// Kind and Name identify the object. Kind is one of instancetype.CatalogKinds. Both are empty for an object that is inferred from a volume and not pinned,
	// because it is not known before the volume can be read.
	Kind, Name string
}

// NamedBy returns the objects that the VMs of a namespace name, and of all namespaces if it is empty. It omits objects that were inferred from a volume and
// pinned: their revision identifies them.
func NamedBy(ctx context.Context, reader client.Reader, namespace string) (all []Named, err error) {
	err = forEachPage(ctx, reader, func(page *v1.VirtualMachineList) {
		for i := range page.Items {
			all = append(all, objectsNamedBy(&page.Items[i])...)
		}
	}, client.InNamespace(namespace), pageSize)
	return all, err
}

func objectsNamedBy(vm *v1.VirtualMachine) (all []Named) {
	add := func(kinds instancetype.KindNames, kind, name string) {
		if kind = kinds.Canonical(kind); kind != "" && name != "" {
			all = append(all, Named{vm.Namespace, vm.Name, kind, name})
		}
	}
	pins, inferred := pin.Read(vm), false
	if m := vm.Spec.Instancetype; m != nil {
		add(instancetype.Kinds, m.Kind, m.Name)
		inferred = m.InferFromVolume != "" && m.Name == "" && hasNoRevision(vm.Status.InstancetypeRef, pins.Instancetype, m.RevisionName)
	}
	if m := vm.Spec.Preference; m != nil {
		add(instancetype.PreferenceKinds, m.Kind, m.Name)
		inferred = inferred || m.InferFromVolume != "" && m.Name == "" && hasNoRevision(vm.Status.PreferenceRef, pins.Preference, m.RevisionName)
	}
	if inferred {
		all = append(all, Named{Namespace: vm.Namespace, VM: vm.Name})
	}
	return all
}

// hasNoRevision reports whether neither one of the names nor the status, which KubeVirt writes, refers to a revision.
func hasNoRevision(status *v1.InstancetypeStatusRef, names ...string) bool {
	return strings.Join(names, "") == "" && (status == nil || status.ControllerRevisionRef == nil)
}
