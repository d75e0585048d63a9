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

// What snapshots, restores and clones name may be made later, by the same 'kubectl apply': it is warned of. The target of a clone does
// not exist, and that of a restore need not.

// kindSnapshot is the kind of a VirtualMachineSnapshot.
const kindSnapshot = "VirtualMachineSnapshot"

var kindVM = v1.VirtualMachineGroupVersionKind.Kind

// Snapshot reviews a VirtualMachineSnapshot that is created. It must have its namespace.
func (r Reviewer) Snapshot(ctx context.Context, of *api.VirtualMachineSnapshot, asker Asker) admit.Verdict {
	verdict := admit.Verdict{Errors: snapshot.CheckSnapshot(&of.Spec)}
	r.judgeReferences(ctx, &verdict, asker, of.Namespace, resolve.Referred{Path: field.NewPath("spec", "source", "name"), Kind: kindVM,
		Name: of.Spec.Source.Name, Without: "the snapshot waits for it until its failureDeadline"})
	return verdict
}

// Restore reviews a VirtualMachineRestore that is created. It must have its namespace.
func (r Reviewer) Restore(ctx context.Context, of *api.VirtualMachineRestore, asker Asker) admit.Verdict {
	verdict := admit.Verdict{Errors: snapshot.CheckRestore(&of.Spec)}
	r.judgeReferences(ctx, &verdict, asker, of.Namespace,
		resolve.Referred{Path: field.NewPath("spec", "target", "name"), Kind: kindVM, Name: of.Spec.Target.Name, MadeAnew: true,
			Without: "the restore makes it, as another VM"},
		resolve.Referred{Path: field.NewPath("spec", "virtualMachineSnapshotName"), Kind: kindSnapshot, Name: of.Spec.VirtualMachineSnapshotName,
			Without: "the restore waits for it"})
	return verdict
}

// Clone reviews a VirtualMachineClone that is created. It must have its namespace.
func (r Reviewer) Clone(ctx context.Context, of *clone.VirtualMachineClone, asker Asker) admit.Verdict {
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

// judgeReferences warns of objects that do not exist, and adds what was probably meant to errors of names. An object that is refused has no warnings: it
// waits for nothing, and neither does one that exists already, perhaps since long ago.
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
