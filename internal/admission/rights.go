package admission

import (
	"context"
	"maps"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Review asks the API server whether a user may read a source.
type Review func(context.Context, authenticationv1.UserInfo, resolve.Source) (bool, error)

// Reviewer asks by SubjectAccessReviews.
func Reviewer(c client.Client) Review {
	return func(ctx context.Context, user authenticationv1.UserInfo, source resolve.Source) (bool, error) {
		attributes := authorizationv1.ResourceAttributes{Verb: "get"}
		attributes.Group, attributes.Version, attributes.Resource, attributes.Namespace, attributes.Name = source.Attributes()
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &attributes, User: user.Username, Groups: user.Groups, UID: user.UID,
		}}
		for key, values := range user.Extra {
			if review.Spec.Extra == nil {
				review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
			}
			review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
		}
		err := c.Create(ctx, review)
		return review.Status.Allowed, err
	}
}

// resolver resolves for one request. What an inference reads in other namespaces, its caller must be allowed to read; callers that
// change nothing about it, such as Kiln's controller, can have no more read than was authorised before.
func (s *Server) resolver(request *admissionv1.AdmissionRequest, vm, old *v1.VirtualMachine) resolve.Resolver {
	r := s.Resolver
	if old != nil && !resolve.Asks(vm, old) {
		r.Rights = resolve.RecordedRights(old)
		return r
	}
	r.Rights = &resolve.Rights{May: func(ctx context.Context, source resolve.Source) (bool, error) {
		return s.Review(ctx, request.UserInfo, source)
	}}
	return r
}

// authorised is what a VM has to record of the rights that its inference was asked with: nothing when it waits for nothing.
func authorised(vm, old *v1.VirtualMachine, rights *resolve.Rights) string {
	if old != nil && !resolve.Asks(vm, old) {
		return old.Annotations[v1alpha1.AnnotationInference]
	}
	return rights.Record()
}

// annotate sets an annotation of a VM whose map may belong to another, or removes it when the value is empty.
func annotate(vm *v1.VirtualMachine, key, value string) {
	if vm.Annotations[key] == value {
		return
	}
	vm.Annotations = maps.Clone(vm.Annotations)
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	vm.Annotations[key] = value
	if value == "" {
		delete(vm.Annotations, key)
	}
}

// ours are the annotations of a VM that admission reads.
var ours = []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationInference}
