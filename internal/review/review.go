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

// Reviewer has what a review needs besides the object.
type Reviewer struct {
	Resolver resolve.Resolver
	// Configuration returns the configuration in force. Each review calls it once, so that one object is pinned to the configuration that it
	// is judged by, also when another one comes into force meanwhile.
	Configuration func() config.Cluster
	// Policies returns the GuestPolicies in force, compiled; nil for none. It fails while they have not been read: nothing is admitted then.
	Policies func() ([]*policy.Policy, error)
	// Judged is called with what the policies say of an object, after violations of the stored VM were forgiven; nil to count nothing.
	Judged func(policy.Result)
	// KubeVirt completes the objects of KubeVirt's controllers; nil if they stay as they are.
	KubeVirt KubeVirt
	// Now returns the time by which instancetypes and preferences become obsolete; nil for the clock of this machine.
	Now func() time.Time
	// Stored means that the VMs and VMIs that are reviewed exist already. None of them is refused because what it refers to is obsolete, or because of a
	// policy, whose violations become warnings. References of snapshots, restores and clones that exist are not judged.
	Stored bool
}

// Asker is the account that sends an object. The zero value asks nobody's permission: it reads with rights of its own, and may write what
// every user may.
type Asker struct {
	Name string
	// MayRead reports whether the account may read a source in another namespace. Nil: the reader refuses what it may not read.
	MayRead resolve.MayRead
	// User and DryRun are what policies read about the request.
	User   authenticationv1.UserInfo
	DryRun bool
	// Seed is the identity of a VM that is created without one: the UID of the request. It is empty in a dry run, and where there is no request; then
	// the controller gives the VM its UID.
	Seed string
}

// VM is a VM after its review.
type VM struct {
	// Verdict is on the VM and on the VMI that it would boot.
	admit.Verdict
	// Meant is the VM as its pins mean it, see resolve.Effective.
	Meant *v1.VirtualMachine
	// Explicit is the VMI that would boot; nil without a template. It is a draft while Unknown.
	Explicit *v1.VirtualMachineInstance
	// Resolved is what the VM refers to, with the revisions that it is pinned to.
	Resolved resolve.Resolution
	// Input is what the engine judged the VM by.
	Input admit.Input

	// Policies is what the GuestPolicies say. Errors and warnings are in the verdict, too.
	Policies policy.Result

	given, old    *v1.VirtualMachine
	seed          string
	configuration config.Cluster
	// authorised is the value of the annotation that records what the owner may read.
	authorised string
}

// VM reviews a VM that is written; old is nil on create. The VM must have its namespace. Mistakes in its references are part of the
// verdict, and so is what the policies say. An error means that there is no verdict.
func (r Reviewer) VM(ctx context.Context, vm, old *v1.VirtualMachine, asker Asker) (VM, error) {
	reviewed, err := r.vm(ctx, r.begin(vm, old, asker), asker)
	if err == nil {
		err = r.judgeVM(ctx, &reviewed, asker)
	}
	if reviewed.Meant != nil && reviewed.Allowed() { // what is refused takes no effect
		reviewed.Warnings = append(reviewed.Warnings, validate.ChangeWarnings(reviewed.Meant, old, reviewed.configuration.Limits)...)
	}
	if err == nil {
		err = ctx.Err()
	}
	return reviewed, err
}

// begin returns the review of a VM before its first stage.
func (r Reviewer) begin(vm, old *v1.VirtualMachine, asker Asker) VM {
	return VM{given: vm, old: old, seed: asker.Seed, configuration: r.Configuration()}
}

// vm is VM without the policies.
func (r Reviewer) vm(ctx context.Context, reviewed VM, asker Asker) (VM, error) {
	vm, old := reviewed.given, reviewed.old
	resolver := r.resolver(reviewed.configuration)
	resolver.Rights = rights(vm, old, asker)
	var err error
	reviewed.Resolved, err = resolver.VM(ctx, vm, reviewed.pinned(asker))
	var mistakes *resolve.Refusal
	if err != nil && !errors.As(err, &mistakes) {
		return reviewed, err
	}
	reviewed.Input, err = resolver.Input(ctx, vm.Namespace, reviewed.Resolved, reviewed.configuration)
	var unreadable *resolve.Refusal
	if errors.As(err, &unreadable) {
		err = nil
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return reviewed, err
	}
	reviewed.Input.User = asker.Name
	if mistakes != nil {
		reviewed.Input.Set.Instancetype, reviewed.Input.Set.Preference = nil, nil
		reviewed.Input.Mistakes = mistakes.Errors
	}
	if unreadable != nil {
		reviewed.Input.Mistakes = append(reviewed.Input.Mistakes, unreadable.OfTemplate().Errors...)
	}
	if reviewed.Resolved.Waiting {
		reviewed.authorised = authorised(vm, old, resolver.Rights)
	}
	resolver.Suggester(asker.MayRead).Suggest(ctx, &reviewed.Resolved)
	obsolete := r.lifecycles(&reviewed)
	reviewed.Meant = resolve.Effective(vm, reviewed.Resolved.Pins)
	reviewed.Explicit, reviewed.Verdict = admit.VM(reviewed.Meant, old, reviewed.Input)
	reviewed.Errors = append(reviewed.Errors, obsolete...)
	reviewed.Warnings = slices.Concat(reviewed.Resolved.Warnings, reviewed.Warnings)
	if reviewed.Allowed() && !reviewed.Unknown() {
		setters := func() func(string) string { return admit.Setters(reviewed.Meant, reviewed.Input) }
		reviewed.Warnings = append(reviewed.Warnings, podWarnings(reviewed.Explicit, reviewed.configuration, setters)...)
	}
	return reviewed, ctx.Err()
}

// pinned returns the stored VM whose pins an update keeps; nil where it has none to keep. A restore brings its pins along, like a VM that is created from a
// backup: they are honoured.
func (v VM) pinned(asker Asker) *v1.VirtualMachine {
	restored := v.old != nil && v.given.Annotations[snapshot.Mark] != v.old.Annotations[snapshot.Mark]
	if restored && slices.Contains(v.configuration.Limits.Restorers, asker.Name) {
		return nil
	}
	return v.old
}

// Unknown reports whether the VM refers to an instancetype or a preference that does not exist yet. It is admitted, and cannot start.
func (v VM) Unknown() bool {
	return v.Meant.Spec.Instancetype != nil && v.Input.Set.Instancetype == nil || v.Meant.Spec.Preference != nil && v.Input.Set.Preference == nil
}

// Explain returns where each field of the explicit VMI comes from. The VM must be allowed and have a template.
func (v VM) Explain() admit.Explanation { return admit.ExplainVM(v.Meant, v.Input) }

// resolver pins to the given configuration.
func (r Reviewer) resolver(now config.Cluster) resolve.Resolver {
	resolver := r.Resolver
	resolver.Defaults, resolver.InfersAtOnce = &now.Defaults, now.Limits.KubeVirtGuests
	return resolver
}

// rights bound what an inference may read in other namespaces: what the asker may read. An update that asks for no inference, such as one by
// Kiln's controller, reads no more than was authorised before.
func rights(vm, old *v1.VirtualMachine, asker Asker) *resolve.Rights {
	switch {
	case asker.MayRead == nil:
		return nil
	case old != nil && !resolve.RequestsInference(vm, old):
		return resolve.RecordedRights(old)
	}
	return &resolve.Rights{MayRead: asker.MayRead}
}
