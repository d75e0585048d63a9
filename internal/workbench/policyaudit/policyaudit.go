// Package policyaudit finds existing VMs, VMIs and templates of VMs that violate GuestPolicies.
package policyaudit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Audit reports which existing VMs, VMIs and templates of VMs violate policies.
type Audit struct {
	// Policies are the names of the policies. Judged is the number of VMs, of VMIs without a VM, and of objects with templates of them that the policies have
	// judged.
	Policies []string `json:"policies"`
	Judged   int      `json:"judged"`
	// Violations are sorted by namespace, kind, name and policy.
	Violations []Violation `json:"violations"`
	// Unjudged are the objects that could not be judged.
	Unjudged []UnjudgedObject `json:"unjudged"`
	Warnings []string         `json:"warnings"`
	// Forbidden reports that the user may not list the GuestPolicies of the cluster.
	Forbidden bool `json:"-"`
}

// Violation is a validation that an object violates, or a policy that fails on it.
type Violation struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Policy    string `json:"policy"`
	// Param names the object with which the policy was evaluated; empty if the policy has no params.
	Param   string `json:"param,omitempty"`
	Message string `json:"message"`
	// Field is the path of the cause.
	Field string `json:"field,omitempty"`
	// Actions are the validationActions of the policy; empty if Failed.
	Actions []v1alpha1.GuestPolicyAction `json:"validationActions"`
	// Exception is the GuestPolicyException that permits the violation, as NAMESPACE/NAME, and Until its end; empty without an exception.
	Exception string       `json:"exception,omitempty"`
	Until     *metav1.Time `json:"until,omitempty"`
	// Failed means that the policy could not be evaluated, and that its failurePolicy decides about the object.
	Failed bool `json:"failed,omitempty"`
}

// UnjudgedObject is an object that could not be judged, and the reason.
type UnjudgedObject struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
}

// OfCluster judges the VMs, the VMIs without a VM, and the objects with templates of them, such as VirtualMachinePools, of a namespace, or of all namespaces if
// it is empty. It uses the policies of the cluster and of the bench. Objects are read in pages, and the objects to which they refer only once: 8,000 VMs with
// one instancetype take about 20 requests. Kinds that the cluster does not serve are left out.
func OfCluster(ctx context.Context, b *workbench.Bench, cluster Cluster, namespace string) (Audit, error) {
	in := manifest.Inputs{Reader: objects.Remember(cluster), OfCluster: true}
	audit, err := newAudit(ctx, b, in)
	if err != nil {
		return audit, err
	}
	kinds, err := b.JudgedKinds()
	if err != nil {
		return audit, err
	}
	for _, kind := range kinds {
		served := kind.WithVersion(v1.GroupVersion.Version)
		guest := served == v1.VirtualMachineGroupVersionKind || served == v1.VirtualMachineInstanceGroupVersionKind
		if !guest {
			mapping, err := cluster.RESTMapper().RESTMapping(kind)
			if meta.IsNoMatchError(err) {
				continue
			}
			if err != nil {
				return audit, fmt.Errorf("reading the kind %s: %w", kind, err)
			}
			served = mapping.GroupVersionKind
		}
		err := manifest.EachPage(ctx, cluster, served, namespace, func(page []manifest.Object) error {
			in.Named = page
			return audit.judgePage(ctx, b, in)
		})
		switch {
		case apierrors.IsForbidden(err) && !guest:
			audit.Warnings = append(audit.Warnings, fmt.Sprintf("you may not list %s: their templates are not judged", kind))
		case err != nil:
			return audit, err
		}
	}
	return audit.sortResults(), nil
}

// Cluster reads objects of a cluster, and knows which kinds it serves.
type Cluster interface {
	client.Reader
	RESTMapper() meta.RESTMapper
}

// OfFiles judges the objects of files, as OfCluster does.
func OfFiles(ctx context.Context, b *workbench.Bench, in manifest.Inputs) (Audit, error) {
	audit, err := newAudit(ctx, b, in)
	if err != nil {
		return audit, err
	}
	for _, one := range in.Named {
		if one.Fault != nil {
			audit.Unjudged = append(audit.Unjudged, UnjudgedObject{Name: one.File(), Reason: one.Fault.Error()})
		}
	}
	kinds, err := b.JudgedKinds()
	if err != nil {
		return audit, err
	}
	in.Named = slices.DeleteFunc(slices.Clone(in.Named), func(o manifest.Object) bool {
		return o.Fault != nil || !slices.Contains(kinds, o.GroupVersionKind().GroupKind())
	})
	err = audit.judgePage(ctx, b, in)
	return audit.sortResults(), err
}

// newAudit returns an audit with the names of the policies that judge the inputs, and with no results.
func newAudit(ctx context.Context, b *workbench.Bench, in manifest.Inputs) (Audit, error) {
	audit := Audit{Policies: []string{}, Violations: []Violation{}, Unjudged: []UnjudgedObject{}, Warnings: []string{}}
	policies, warnings, err := b.GuestPolicies(ctx, in)
	audit.Warnings, audit.Forbidden = append(audit.Warnings, warnings...), b.PoliciesForbidden
	for _, p := range policies {
		audit.Policies = append(audit.Policies, p.Name)
	}
	return audit, err
}

// judgePage judges objects, and adds their violations.
func (a *Audit) judgePage(ctx context.Context, b *workbench.Bench, in manifest.Inputs) error {
	in.Named = slices.DeleteFunc(in.Named, manifest.Object.MadeByVM) // the policies judge the VM
	reviewed, err := b.ReviewForAudit(ctx, in, false)
	a.Warnings = append(a.Warnings, reviewed.Warnings...)
	if err != nil {
		return err
	}
	for _, r := range reviewed.Objects {
		a.addViolations(r)
	}
	return ctx.Err()
}

// addViolations adds the violations of an object, or the reason why it could not be judged.
func (a *Audit) addViolations(r workbench.Reviewed) {
	violation := Violation{Namespace: r.GetNamespace(), Kind: r.GetKind(), Name: r.GetName()}
	fault := r.Fault
	if fault == nil && r.Guest == nil && !r.Carrier {
		fault = r.Verdict.Errors.ToAggregate()
	}
	if fault != nil {
		a.Unjudged = append(a.Unjudged, UnjudgedObject{r.GetNamespace(), r.GetKind(), r.GetName(), fault.Error()})
		return
	}
	a.Judged++
	for _, v := range r.Policies.Violations {
		violation.Policy, violation.Param, violation.Message, violation.Field, violation.Actions = v.Policy, v.Param, v.Message, v.Err.Field, v.Actions
		violation.Exception, violation.Until = v.Exception, v.Until
		a.Violations = append(a.Violations, violation)
	}
	violation.Failed, violation.Field, violation.Actions = true, "", []v1alpha1.GuestPolicyAction{}
	violation.Exception, violation.Until = "", nil
	for _, f := range r.Policies.Failures {
		violation.Policy, violation.Param, violation.Message = f.Policy, f.Param, "failed: "+f.Message
		a.Violations = append(a.Violations, violation)
	}
}

// sortResults returns the audit with sorted violations and warnings.
func (a Audit) sortResults() Audit {
	slices.SortStableFunc(a.Violations, func(x, y Violation) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name),
			strings.Compare(x.Policy, y.Policy))
	})
	slices.Sort(a.Warnings)
	a.Warnings = slices.Compact(a.Warnings)
	return a
}
