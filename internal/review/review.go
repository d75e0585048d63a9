// Package review reads what an object refers to, and runs stage 1 (package pkg/admit) and the GuestPolicies on it. It reads the configuration of the
// cluster once for each object. Webhooks, command line and corpora reach the same verdict because all of them call this package: a test refuses other
// callers of pkg/admit.
package review

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"github.com/kilnvm/kiln/pkg/validate"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Reviewer contains what a review needs besides the object.
type Reviewer struct {
	Resolver resolve.Resolver
	// Configuration returns the configuration in force. Each review calls it once, so that an object is judged by the configuration that it is pinned to, even
	// if the configuration changes meanwhile.
	Configuration func() config.Cluster
	// Policies returns the GuestPolicies in force, compiled; nil for none. It returns an error until they have been read: nothing is admitted until then.
	Policies func() ([]*policy.Policy, error)
	// Params returns the source of the params of policies for one request; nil if policies with params cannot be evaluated.
	Params func(context.Context) policy.ParamSource
	// Exceptions returns the GuestPolicyExceptions of a namespace; nil if there are none.
	Exceptions policy.ExceptionSource
	// Judged is called with the result of the policies for an object, without the violations that were forgiven; nil to count nothing.
	Judged func(policy.Result)
	// KubeVirt completes the objects of KubeVirt's controllers; nil if they stay as they are.
	KubeVirt KubeVirt
	// Now returns the time by which instancetypes and preferences become obsolete, and exceptions end; nil for the clock of this machine.
	Now func() time.Time
	// EachEffect returns a warning for each field that has no effect in a pod. Without it, a review returns three, and the number of the others.
	EachEffect bool
	// Stored means that the reviewed objects exist already. VMs and VMIs are not refused for obsolete references or violated policies; these are warnings.
	// References of snapshots, restores and clones are not judged.
	Stored bool
}

// Asker is the account that sends an object. The zero value reads with the rights of the Reviewer's resolver, and may write what every user may.
type Asker struct {
	Name string
	// MayRead reports whether the account may read a source in another namespace. If it is nil, the reader refuses what it may not read.
	MayRead resolve.MayRead
	// User and DryRun are what policies read about the request.
	User   authenticationv1.UserInfo
	DryRun bool
	// Seed is the identity of a VM that is created without one: the UID of the request. It is empty in a dry run, and if there is no request. Then the
	// controller uses the UID of the VM.
	Seed string
}

// UnknownAsker returns the account for an object that is stored, because nobody knows who wrote it last. A policy that reads the name of the account fails.
func UnknownAsker() Asker {
	return Asker{User: authenticationv1.UserInfo{Groups: []string{"system:authenticated"}}}
}

// VM is a VM after its review.
type VM struct {
	// Verdict is the judgement on the VM and on the VMI that it would boot.
	admit.Verdict
	// Meant is the VM with its pins applied, see resolve.EffectiveVM.
	Meant *v1.VirtualMachine
	// Explicit is the VMI that would boot, nil without a template. If Unknown reports true, it lacks the instancetype or the preference.
	Explicit *v1.VirtualMachineInstance
	// Resolved contains the objects that the VM refers to, and the revisions that it is pinned to.
	Resolved resolve.Resolution
	// Input is the input of stage 1.
	Input admit.Input

	// Policies is the result of the GuestPolicies. The verdict contains its errors and warnings, too.
	Policies policy.Result

	given, old    *v1.VirtualMachine
	seed          string
	configuration config.Cluster
	// inference is the value of the annotation that records what the inference of the VM may read.
	inference string
}

// ReviewVM reviews a VM in its final form, for the validating webhook and all other callers; old is nil on create. The VM must have its namespace. The verdict
// contains the mistakes in its references and the result of the policies. An error means that there is no verdict.
func (r Reviewer) ReviewVM(ctx context.Context, vm, old *v1.VirtualMachine, asker Asker) (VM, error) {
	reviewed, err := r.runVMStage1(ctx, r.newVMReview(vm, old, asker), asker)
	if err == nil {
		r.addRuntimeWarnings(&reviewed)
		err = r.judgeVMByPolicies(ctx, &reviewed, asker)
	}
	if reviewed.Meant != nil && reviewed.Allowed() { // a refused change has no effect
		reviewed.Warnings = append(reviewed.Warnings, validate.ChangeWarnings(reviewed.Meant, old, reviewed.configuration.Limits)...)
	}
	if err == nil {
		err = ctx.Err()
	}
	return reviewed, err
}

// newVMReview returns the review of a VM before its first step.
func (r Reviewer) newVMReview(vm, old *v1.VirtualMachine, asker Asker) VM {
	return VM{given: vm, old: old, seed: asker.Seed, configuration: r.Configuration()}
}

// runVMStage1 reviews a VM without the policies and without the warnings of the runtime. The mutating webhook returns no such warnings.
func (r Reviewer) runVMStage1(ctx context.Context, reviewed VM, asker Asker) (VM, error) {
	resolver := r.resolverFor(reviewed.configuration)
	resolver.Rights = inferenceRights(reviewed.given, reviewed.old, asker)
	if err := reviewed.readReferences(ctx, resolver, asker); err != nil {
		return reviewed, err
	}
	resolver.Suggester(asker.MayRead).Suggest(ctx, &reviewed.Resolved)
	obsolete := r.judgeLifecycles(&reviewed)
	reviewed.Meant = resolve.EffectiveVM(reviewed.given, reviewed.Resolved.Pins)
	reviewed.Explicit, reviewed.Verdict = admit.VM(reviewed.Meant, reviewed.old, reviewed.Input)
	reviewed.Errors = append(reviewed.Errors, obsolete...)
	reviewed.Warnings = slices.Concat(reviewed.Resolved.Warnings, reviewed.Warnings)
	return reviewed, ctx.Err()
}

// readReferences reads what the VM refers to: Resolved and Input. Mistakes of the user in the references become Input.Mistakes.
func (v *VM) readReferences(ctx context.Context, resolver resolve.Resolver, asker Asker) (err error) {
	v.Resolved, err = resolver.VM(ctx, v.given, v.pinSource(asker))
	var mistakes *resolve.Refusal
	if err != nil && !errors.As(err, &mistakes) {
		return err
	}
	v.Input, err = resolver.Input(ctx, v.given.Namespace, v.Resolved, v.configuration)
	var unreadable *resolve.Refusal
	if errors.As(err, &unreadable) {
		err = nil
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	v.Input.User = asker.Name
	if mistakes != nil {
		v.Input.Set.Instancetype, v.Input.Set.Preference = nil, nil
		v.Input.Mistakes = mistakes.Errors
	}
	if unreadable != nil {
		v.Input.Mistakes = append(v.Input.Mistakes, unreadable.OfTemplate().Errors...)
	}
	if v.Resolved.Waiting {
		v.inference = inferenceRecord(v.given, v.old, resolver.Rights)
	}
	return nil
}

// pinSource returns the stored VM whose pins an update keeps; nil if the pins of the update itself count. They count in a restore, and in a VM that is created
// from a backup.
func (v VM) pinSource(asker Asker) *v1.VirtualMachine {
	restored := v.old != nil && v.given.Annotations[snapshot.Mark] != v.old.Annotations[snapshot.Mark]
	if restored && slices.Contains(v.configuration.Limits.Restorers, asker.Name) {
		return nil
	}
	return v.old
}

// Unknown reports whether the VM refers to an instancetype or a preference that does not exist yet. Such a VM is admitted, and cannot start.
func (v VM) Unknown() bool {
	return v.Meant.Spec.Instancetype != nil && v.Input.Set.Instancetype == nil || v.Meant.Spec.Preference != nil && v.Input.Set.Preference == nil
}

// Resolvable reports whether everything that the VM refers to could be read, or does not exist yet: then Stored returns its pins, whatever its own mistakes
// are.
func (v VM) Resolvable() bool { return len(v.Input.Mistakes) == 0 }

// Explain returns where each field of the explicit VMI comes from. The VM must be allowed and have a template.
func (v VM) Explain() admit.Explanation { return admit.ExplainVM(v.Meant, v.Input) }

// resolverFor returns the resolver that pins to a configuration.
func (r Reviewer) resolverFor(cluster config.Cluster) resolve.Resolver {
	resolver := r.Resolver
	resolver.Defaults, resolver.InfersAtOnce = &cluster.Defaults, cluster.Limits.KubeVirtGuests
	return resolver
}

// inferenceRights returns what an inference may read in other namespaces: what the asker may read. An update that requests no inference, such as one by Kiln's
// controller, reads only what was authorised before.
func inferenceRights(vm, old *v1.VirtualMachine, asker Asker) *resolve.Rights {
	switch {
	case asker.MayRead == nil:
		return nil
	case old != nil && !resolve.ChangesInferenceSources(vm, old):
		return resolve.RecordedRights(old)
	}
	return &resolve.Rights{MayRead: asker.MayRead}
}
