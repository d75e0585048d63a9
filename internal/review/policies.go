package review

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/shorten"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// CurrentPolicies returns the GuestPolicies in force; none if the Reviewer has no source of them.
func (r Reviewer) CurrentPolicies() ([]*policy.Policy, error) {
	if r.Policies == nil {
		return nil, nil
	}
	return r.Policies()
}

// params returns the source of the params of policies for one request.
func (r Reviewer) params(ctx context.Context) policy.ParamSource {
	if r.Params == nil {
		return nil
	}
	return r.Params(ctx)
}

// CurrentTime returns the time by which instancetypes become obsolete, and exceptions end.
func (r Reviewer) CurrentTime() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// judgeVMByPolicies adds the result of the policies for a VM to its verdict.
func (r Reviewer) judgeVMByPolicies(ctx context.Context, reviewed *VM, asker Asker) error {
	policies, err := r.CurrentPolicies()
	if err != nil || len(policies) == 0 {
		return err
	}
	request, err := r.vmRequest(ctx, reviewed, asker)
	if err != nil {
		return err
	}
	result, err := evaluatePolicies(ctx, policies, request)
	if err != nil {
		return err
	}
	if reviewed.old != nil && len(result.Errors) > 0 {
		if err := r.forgiveVMUpdate(ctx, reviewed, request, policies, &result); err != nil {
			return err
		}
	}
	reviewed.Policies = r.addPolicyResult(&reviewed.Verdict, result)
	return nil
}

// vmRequest returns what policies read about a VM.
func (r Reviewer) vmRequest(ctx context.Context, reviewed *VM, asker Asker) (*policy.Request, error) {
	request := &policy.Request{
		Operation: v1alpha1.PolicyCreate, Resource: v1alpha1.PolicyVirtualMachines, Object: reviewed.given, User: asker.User, DryRun: asker.DryRun,
		Params: r.params(ctx), Exceptions: r.Exceptions, Now: r.CurrentTime(),
	}
	if reviewed.old != nil {
		request.Operation, request.OldObject = v1alpha1.PolicyUpdate, reviewed.old
	}
	request.Hardware = r.recordOfVM(ctx, reviewed.given)
	if !reviewed.Unknown() {
		request.Guest = reviewed.Explicit
	}
	return request, r.addContext(ctx, request, reviewed.Input.Set)
}

// addContext adds the namespace of the object, and its instancetype and preference, to a request.
func (r Reviewer) addContext(ctx context.Context, request *policy.Request, set instancetype.Set) error {
	namespace := request.Object.GetNamespace()
	whole, err := r.Resolver.CatalogObjects(ctx, namespace, set)
	if err != nil {
		return err
	}
	request.Instancetype, request.Preference = whole.Instancetype, whole.Preference
	request.Namespace, err = r.Resolver.Namespace(ctx, namespace)
	return err
}

// judgeVMIByPolicies adds the result of the policies for an explicit VMI to its verdict. The VMI is object and guest, because it is stored as it boots. The
// policies do not judge a VMI that a controller creates for a VM: they judged the VM, and an administrator's new policy must not keep an existing VM from
// starting. They do not judge a VMI that could not be made explicit either, because it is not known what would boot.
func (r Reviewer) judgeVMIByPolicies(ctx context.Context, reviewed *VMI, asker Asker) error {
	policies, err := r.CurrentPolicies()
	if err != nil || len(policies) == 0 || !reviewed.Merged.Allowed() || judgedWithVM(reviewed.given, reviewed.Input) && !reviewed.unjudged {
		return err
	}
	request := &policy.Request{
		Operation: v1alpha1.PolicyCreate, Resource: v1alpha1.PolicyVirtualMachineInstances,
		Object: reviewed.Explicit, Guest: reviewed.Explicit, User: asker.User, DryRun: asker.DryRun, Params: r.params(ctx),
		Exceptions: r.Exceptions, Now: r.CurrentTime(),
	}
	if err := r.addContext(ctx, request, reviewed.Resolved.Set); err != nil {
		return err
	}
	result, err := evaluatePolicies(ctx, policies, request)
	if err == nil {
		reviewed.Policies = r.addPolicyResult(&reviewed.Verdict, result)
	}
	return err
}

// judgedWithVM reports whether a controller creates a VMI for a VM whose guest the policies have judged. The account decides and not only the owner reference,
// because a user may write the reference: rule vmi/owner refuses that, and nothing here relies on the rule. KubeVirt starts VMs that Kiln's controller has
// not pinned to presets and profiles yet: the policies have not judged what these add to the VM. If admission pins the VMI to them, it judges at once.
func judgedWithVM(vmi *v1.VirtualMachineInstance, in admit.Input) bool {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil || owner.Kind != v1.VirtualMachineGroupVersionKind.Kind || !slices.Contains(in.Cluster.Limits.Controllers, in.User) {
		return false
	}
	return !slices.Contains(in.Cluster.Limits.KubeVirt, in.User) || pin.Read(vmi).Presets != nil
}

// ReviewVMIUpdate returns the verdict of the policies on an update of a VMI. The VMI boots as it is stored, and only controllers change its spec. The policies
// do not judge updates by controllers, and updates of a VMI that is being deleted. They judge a VMI with an owner, because its author may have written the
// reference.
func (r Reviewer) ReviewVMIUpdate(ctx context.Context, vmi, old *v1.VirtualMachineInstance, asker Asker) (admit.Verdict, error) {
	policies, err := r.CurrentPolicies()
	if err != nil || len(policies) == 0 || sameMetadata(vmi, old) || vmi.DeletionTimestamp != nil {
		return admit.Verdict{}, err
	}
	now := r.Configuration()
	if slices.Contains(now.Limits.Controllers, asker.Name) {
		return admit.Verdict{}, nil
	}
	resolved, err := r.resolverFor(now).VMI(ctx, vmi)
	if err != nil {
		return admit.Verdict{}, err
	}
	request := &policy.Request{
		Operation: v1alpha1.PolicyUpdate, Resource: v1alpha1.PolicyVirtualMachineInstances,
		Object: vmi, OldObject: old, Guest: vmi, User: asker.User, DryRun: asker.DryRun, Params: r.params(ctx), Hardware: r.recordOfVMI(ctx, vmi),
		Exceptions: r.Exceptions, Now: r.CurrentTime(),
	}
	if err := r.addContext(ctx, request, resolved.Set); err != nil {
		return admit.Verdict{}, err
	}
	result, err := evaluatePolicies(ctx, policies, request)
	if err != nil {
		return admit.Verdict{}, err
	}
	if len(result.Errors) > 0 && equality.Semantic.DeepEqual(vmi.Spec, old.Spec) {
		before := *request
		before.Object, before.Guest, before.Hardware = old, old, r.recordOfVMI(ctx, old)
		was, err := evaluatePolicies(ctx, policies, &before)
		if err != nil {
			return admit.Verdict{}, err
		}
		forgiveOldViolations(policies, judgement{&before, was}, judgement{request, result}, &result)
	}
	verdict := admit.Verdict{}
	r.addPolicyResult(&verdict, result)
	return verdict, nil
}

// evaluatePolicies evaluates policies within four fifths of the remaining time, so that the answer still reaches the API server. It returns an error if the
// evaluation was interrupted. Each policy has its own budget, and many policies that spend it take longer than a request may.
func evaluatePolicies(ctx context.Context, policies []*policy.Policy, request *policy.Request) (policy.Result, error) {
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/5))
		defer cancel()
	}
	result := policy.Judge(ctx.Done(), policies, request)
	if result.Interrupted {
		return result, fmt.Errorf("the time of the request ended in GuestPolicy '%s': %w", result.Last, context.Cause(ctx))
	}
	return result, nil
}

// addPolicyResult adds the result of policies to a verdict, and returns it. Violations of a stored object are warnings.
func (r Reviewer) addPolicyResult(verdict *admit.Verdict, result policy.Result) policy.Result {
	if r.Stored {
		for _, err := range result.Errors { // an exception has taken its violations from the errors
			result.Warnings = append(result.Warnings, err.Detail)
		}
		result.Errors = nil
	}
	if r.Judged != nil {
		r.Judged(result)
	}
	verdict.Errors = append(verdict.Errors, result.Errors...)
	verdict.Warnings = append(verdict.Warnings, result.Warnings...)
	verdict.Audit = result.Audit
	return result
}

// forgivenSuffix is appended to the text of a violation that does not refuse an update.
const forgivenSuffix = "; admitted: violated before"

// forgivenText returns the warning of a violation that does not refuse an update. An API server may cut it after 256 characters: of a longer text the end
// is left out, and not why the update is admitted.
func forgivenText(violation string) string {
	return shorten.Runes(violation, 256-len(forgivenSuffix)) + forgivenSuffix
}

// forgiveVMUpdate forgives the violations that the stored VM has too, if the update does not change what boots: users who label, stop or start a VM are not
// responsible for a policy that came later. Stage 1 of the stored VM runs only for an update that violates a policy.
func (r Reviewer) forgiveVMUpdate(ctx context.Context, reviewed *VM, request *policy.Request, policies []*policy.Policy, result *policy.Result) error {
	before := r.reviewStoredVM(ctx, reviewed)
	if before == nil || !keepsGuest(before, reviewed) {
		return ctx.Err()
	}
	old := *request
	old.Object, old.Guest, old.Hardware = reviewed.old, before.knownGuest(), r.recordOfVM(ctx, reviewed.old)
	if err := r.addContext(ctx, &old, before.Input.Set); err != nil {
		return err
	}
	was, err := evaluatePolicies(ctx, policies, &old)
	if err == nil {
		forgiveOldViolations(policies, judgement{&old, was}, judgement{request, *result}, result)
	}
	return err
}

// judgement is the result of policies for a request.
type judgement struct {
	request *policy.Request
	result  policy.Result
}

// forgiveOldViolations turns an error of a result into a warning if the object violated the same validation before, and the update changes nothing that the
// validation reads. An error of the same expression that failed before becomes a warning, too. So who changes one forbidden label into another is not forgiven.
func forgiveOldViolations(policies []*policy.Policy, before, now judgement, result *policy.Result) {
	type validation struct {
		policy, param string
		index         int
	}
	violated := map[validation]bool{}
	for _, was := range before.result.Violations {
		violated[validation{was.Policy, was.Param, was.Validation}] = true
	}
	type expression struct{ policy, param, path string }
	failed := map[expression]policy.Failure{}
	for _, was := range before.result.Failures {
		failed[expression{was.Policy, was.Param, was.Expression}] = was
	}
	forgiven := map[*field.Error]bool{}
	for _, is := range now.result.Violations {
		of := slices.IndexFunc(policies, func(p *policy.Policy) bool { return p.Name == is.Policy })
		forgiven[is.Err] = violated[validation{is.Policy, is.Param, is.Validation}] && !policies[of].ReadsChange(is.Validation, before.request, now.request)
	}
	for _, is := range now.result.Failures {
		forgiven[is.Err] = is.SameAs(failed[expression{is.Policy, is.Param, is.Expression}])
	}
	result.Errors = slices.DeleteFunc(result.Errors, func(err *field.Error) bool {
		if forgiven[err] {
			result.Warnings = append(result.Warnings, forgivenText(err.Detail))
		}
		return forgiven[err]
	})
}
