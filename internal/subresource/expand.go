package subresource

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	v1 "kubevirt.io/api/core/v1"
)

// expand-spec answers with a VM whose template contains its instancetype, preference and defaults, without the references: an equivalent manifest that needs
// no catalog.

// expandStored expands a VM of the cluster by its pins.
func (a *API) expandStored(ctx context.Context, c call) (reply, error) {
	vm, err := c.readVM(ctx, a.Live)
	if err != nil {
		return reply{}, err
	}
	reviewer := a.Reviewer
	reviewer.Stored = true
	return a.expandVM(ctx, reviewer, vm)
}

// expandGiven expands the VM in the body.
func (a *API) expandGiven(ctx context.Context, c call) (reply, error) {
	if len(c.body) == 0 {
		return reply{}, apierrors.NewBadRequest("empty request body: send a VirtualMachine")
	}
	vm := &v1.VirtualMachine{}
	if err := c.decodeBody(vm); err != nil {
		return reply{}, err
	}
	if kind := vm.GroupVersionKind(); kind.Kind != v1.VirtualMachineGroupVersionKind.Kind || kind.Group != v1.VirtualMachineGroupVersionKind.Group {
		return reply{}, apierrors.NewBadRequest(fmt.Sprintf("the body is a %s, want a VirtualMachine of group %s", kind, v1.GroupVersion.Group))
	}
	if vm.Namespace != "" && vm.Namespace != c.namespace {
		return reply{}, apierrors.NewBadRequest(field.Invalid(field.NewPath("metadata", "namespace"), vm.Namespace,
			fmt.Sprintf("must be '%s', the namespace of the request, or empty", c.namespace)).Error())
	}
	vm.Namespace = c.namespace
	return a.expandVM(ctx, a.Reviewer, vm)
}

// expandVM answers with the expanded VM, or with each mistake in it.
func (a *API) expandVM(ctx context.Context, reviewer review.Reviewer, vm *v1.VirtualMachine) (reply, error) {
	if vm.Spec.Template == nil {
		return reply{}, invalidVM(vm.Name, field.ErrorList{field.Required(field.NewPath("spec", "template"), "the VM has nothing to boot")})
	}
	asker, err := a.requestAuthor(ctx)
	if err != nil {
		return reply{}, err
	}
	reviewed, err := reviewer.ReviewVM(ctx, vm, nil, asker)
	if err != nil {
		return reply{}, err
	}
	expanded, mistakes := reviewed.Expanded()
	if len(mistakes) > 0 {
		return reply{}, invalidVM(vm.Name, mistakes)
	}
	expanded.SetGroupVersionKind(v1.VirtualMachineGroupVersionKind)
	return objectReply(expanded), nil
}

// invalidVM returns an error with all mistakes, and their paths as causes. KubeVirt answers with the same status code if a VM cannot be expanded.
func invalidVM(name string, mistakes field.ErrorList) error {
	status := apierrors.NewInvalid(v1.VirtualMachineGroupVersionKind.GroupKind(), name, mistakes)
	status.ErrStatus.Code, status.ErrStatus.Reason = 400, metav1.StatusReasonBadRequest
	return status
}

// requestAuthor returns the caller as the author of the request: the review reads sources of volumes in other namespaces with the caller's rights. KubeVirt
// reads them with its own.
func (a *API) requestAuthor(ctx context.Context) (review.Asker, error) {
	caller, known := request.UserFrom(ctx)
	if !known {
		return review.Asker{}, errors.New("the request has no user")
	}
	asker := review.Asker{Name: caller.GetName(), DryRun: true, User: authenticationv1.UserInfo{
		Username: caller.GetName(), UID: caller.GetUID(), Groups: caller.GetGroups(), Extra: extraValues(caller)}}
	asker.MayRead = func(ctx context.Context, source resolve.Source) (bool, error) {
		attributes := authorizer.AttributesRecord{User: caller, Verb: source.Verb(), ResourceRequest: true}
		attributes.APIGroup, attributes.APIVersion, attributes.Resource, attributes.Namespace, attributes.Name = source.Attributes()
		decision, _, err := a.Authorizer.Authorize(ctx, attributes)
		return decision == authorizer.DecisionAllow, err
	}
	return asker, nil
}

func extraValues(caller user.Info) map[string]authenticationv1.ExtraValue {
	values := map[string]authenticationv1.ExtraValue{}
	for key, value := range caller.GetExtra() {
		values[key] = value
	}
	return values
}
