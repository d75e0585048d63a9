package policytest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/policy"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// caseJudge judges the cases of one test.
type caseJudge struct {
	*policyFolder
	bench   *workbench.Bench
	policy  *testedPolicy
	test    policyTest
	cluster []*unstructured.Unstructured
}

// reviewCase reviews the object of a case as the webhook does, with only the policy of the test. It fails if Kiln refuses the object for another reason,
// because then the policy is not tested.
func (j caseJudge) reviewCase(ctx context.Context, c v1alpha1.GuestPolicyCase) (Answer, error) {
	var none Answer
	object, err := j.caseObject(j.test, c.Object, c.Namespace)
	if err != nil {
		return none, fmt.Errorf("object: %w", err)
	}
	bench := j.bench.WithPolicies(accountOf(c.User), j.policy.compiled)
	if c.Now != nil {
		bench.Now = func() time.Time { return c.Now.Time }
	}
	var old *v1.VirtualMachine
	var revisions []*unstructured.Unstructured
	if carrier.Find(object.GroupVersionKind().GroupKind(), nil) != nil {
		bench, err = j.withOldCarrier(bench, object, c)
	} else {
		old, revisions, err = j.storedOldVM(ctx, c)
	}
	if err != nil {
		return none, fmt.Errorf("oldObject: %w", err)
	}
	reviewed, err := bench.Review(ctx, j.reviewInputs(object, revisions...), old)
	switch {
	case err != nil:
		return none, err
	case len(reviewed.Objects) != 1 || !workbench.JudgedByPolicies(object.GroupVersionKind().GroupKind()):
		return none, fmt.Errorf("%s is neither a VirtualMachine nor a VirtualMachineInstance, and has no template of one", object.Name())
	case reviewed.Objects[0].Fault != nil:
		return none, reviewed.Objects[0].Fault
	}
	return answerOf(reviewed.Objects[0])
}

// reviewInputs returns inputs with an object, whose cluster has the objects of the test and more.
func (j caseJudge) reviewInputs(object manifest.Object, more ...*unstructured.Unstructured) manifest.Inputs {
	all := manifest.AddNamespaceLabels(slices.Concat(j.definitions, j.cluster, more))
	return manifest.Inputs{Named: []manifest.Object{object}, Reader: objects.New(j.known, all...)}
}

// withOldCarrier returns a bench that reviews an object with templates of VMs as an update of the oldObject of the case, if there is one.
func (j caseJudge) withOldCarrier(bench *workbench.Bench, object manifest.Object, c v1alpha1.GuestPolicyCase) (*workbench.Bench, error) {
	if c.OldObject == nil {
		return bench, nil
	}
	old, err := j.caseObject(j.test, c.OldObject, c.Namespace)
	switch {
	case err != nil:
		return nil, err
	case old.GroupVersionKind().GroupKind() != object.GroupVersionKind().GroupKind():
		return nil, fmt.Errorf("%s must have the kind of the object", old.Name())
	}
	return bench.WithOldCarrier(old.Unstructured), nil
}

// storedOldVM returns the VM before an update as a cluster stores it, and the revisions that it is pinned to; nil if the case has no oldObject. VMIs are not
// judged when they are updated, because a user may not change what they boot.
func (j caseJudge) storedOldVM(ctx context.Context, c v1alpha1.GuestPolicyCase) (*v1.VirtualMachine, []*unstructured.Unstructured, error) {
	if c.OldObject == nil {
		return nil, nil, nil
	}
	object, err := j.caseObject(j.test, c.OldObject, c.Namespace)
	if err != nil {
		return nil, nil, err
	}
	bench := j.bench.WithPolicies(authenticationv1.UserInfo{})
	reviewed, err := bench.Review(ctx, j.reviewInputs(object), nil)
	switch {
	case err != nil:
		return nil, nil, err
	case len(reviewed.Objects) != 1 || object.GetKind() != v1.VirtualMachineGroupVersionKind.Kind:
		return nil, nil, errors.New("policies judge only VirtualMachines when they are updated")
	}
	r := reviewed.Objects[0]
	if r.Fault != nil {
		return nil, nil, r.Fault
	}
	if !r.Verdict.Allowed() {
		return nil, nil, r.Verdict.Errors.ToAggregate()
	}
	stored, drafts := r.Guest.Stored()
	var revisions []*unstructured.Unstructured
	for _, draft := range drafts {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(draft.Object())
		if err != nil {
			return nil, nil, err
		}
		made := &unstructured.Unstructured{Object: content}
		made.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
		revisions = append(revisions, made)
	}
	return stored, revisions, nil
}

// accountOf converts the user of a case to the type of an API server.
func accountOf(u v1alpha1.GuestPolicyUser) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.Username, UID: u.UID, Groups: u.Groups}
	for key, values := range u.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// noValidation is the index of a violation that no validation caused: an expression failed.
const noValidation = math.MaxInt

// answerOf returns the answer of the policies with which an object was reviewed. It fails if something else refuses the object.
func answerOf(r workbench.Reviewed) (Answer, error) {
	answer := Answer{Answer: v1alpha1.PolicyAllows, Violations: []Violation{}}
	var others field.ErrorList
	denied, excepted := false, false
	for _, e := range r.Verdict.Errors {
		switch e.Origin {
		case policy.RuleDenied:
			denied = true
		case policy.RuleFailed:
		default:
			others = append(others, e)
		}
	}
	if len(others) > 0 {
		return answer, fmt.Errorf("the object is refused whatever the policy says: %w", others.ToAggregate())
	}
	for _, v := range r.Policies.Violations {
		excepted = excepted || v.Exception != ""
		answer.Violations = append(answer.Violations, Violation{Param: v.Param, Message: v.Message, Field: v.Err.Field, validation: v.Validation})
	}
	for _, failure := range r.Policies.Failures {
		answer.Violations = append(answer.Violations, Violation{Param: failure.Param, Message: failure.Message, validation: noValidation})
	}
	switch {
	case len(r.Policies.Failures) > 0:
		answer.Answer = v1alpha1.PolicyBreaks
	case denied:
		answer.Answer = v1alpha1.PolicyDenies
	case excepted:
		answer.Answer = v1alpha1.PolicyExcepts
	case len(r.Policies.Warnings) > 0:
		answer.Answer = v1alpha1.PolicyWarns
	case len(answer.Violations) > 0:
		answer.Answer = v1alpha1.PolicyAudits
	}
	return answer, nil
}
