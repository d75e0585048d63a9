package review

import (
	"context"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// A missing object that a snapshot, restore or clone names is a warning and not an error, because the same 'kubectl apply' may create it later. The target of a
// clone does not exist, and the target of a restore may be missing.

// kindSnapshot is the kind of a VirtualMachineSnapshot.
const kindSnapshot = "VirtualMachineSnapshot"

var kindVM = v1.VirtualMachineGroupVersionKind.Kind

// ReviewSnapshot reviews a VirtualMachineSnapshot that is created. It must have its namespace.
func (r Reviewer) ReviewSnapshot(ctx context.Context, of *api.VirtualMachineSnapshot, asker Asker) admit.Verdict {
	verdict := admit.Verdict{Errors: snapshot.CheckSnapshot(&of.Spec)}
	r.judgeReferences(ctx, &verdict, asker, of.Namespace, resolve.Referred{Path: field.NewPath("spec", "source", "name"), Kind: kindVM,
		Name: of.Spec.Source.Name, Without: "the snapshot waits for it until its failureDeadline"})
	return verdict
}

// ReviewRestore reviews a VirtualMachineRestore that is created. It must have its namespace.
func (r Reviewer) ReviewRestore(ctx context.Context, of *api.VirtualMachineRestore, asker Asker) admit.Verdict {
	verdict := admit.Verdict{Errors: snapshot.CheckRestore(&of.Spec)}
	r.judgeReferences(ctx, &verdict, asker, of.Namespace,
		resolve.Referred{Path: field.NewPath("spec", "target", "name"), Kind: kindVM, Name: of.Spec.Target.Name, MadeAnew: true,
			Without: "the restore makes it, as another VM"},
		resolve.Referred{Path: field.NewPath("spec", "virtualMachineSnapshotName"), Kind: kindSnapshot, Name: of.Spec.VirtualMachineSnapshotName,
			Without: "the restore waits for it"})
	return verdict
}

// ReviewClone reviews a VirtualMachineClone that is created. It must have its namespace.
func (r Reviewer) ReviewClone(ctx context.Context, of *clone.VirtualMachineClone, asker Asker) admit.Verdict {
	verdict := admit.Verdict{Errors: snapshot.CheckClone(&of.Spec)}
	var all []resolve.Referred
	if source := of.Spec.Source; source != nil && (source.Kind == kindVM || source.Kind == kindSnapshot) {
		all = append(all, resolve.Referred{Path: field.NewPath("spec", "source", "name"), Kind: source.Kind, Name: source.Name, Either: true,
			Without: "the clone waits for it"})
	}
	if target := nameOf(of.Spec.Target); target != "" {
		all = append(all, resolve.Referred{Path: field.NewPath("spec", "target", "name"), Kind: kindVM, Name: target})
	}
	r.judgeReferences(ctx, &verdict, asker, of.Namespace, all...)
	return verdict
}

func nameOf(of *corev1.TypedLocalObjectReference) string {
	if of == nil {
		return ""
	}
	return of.Name
}

// judgeReferences adds a warning for each object that does not exist, and a suggestion to each error about a name. An object that is refused, or that is stored
// already, has no such warnings, because it waits for nothing.
func (r Reviewer) judgeReferences(ctx context.Context, verdict *admit.Verdict, asker Asker, namespace string, all ...resolve.Referred) {
	for _, to := range all {
		to.Namespace, to.Refused = namespace, refusedName(verdict.Errors, to.Path)
		if to.Refused == nil && (r.Stored || !verdict.Allowed()) {
			continue
		}
		if warning := r.Resolver.Suggester(asker.MayRead).Warn(ctx, to); warning != "" {
			verdict.Warnings = append(verdict.Warnings, warning)
		}
	}
}
