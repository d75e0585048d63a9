package admission

import (
	"context"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MayRead reports whether a user may read a source.
type MayRead func(context.Context, authenticationv1.UserInfo, resolve.Source) (bool, error)

// AccessReview asks the API server by SubjectAccessReviews, with the groups and extra fields of the user: authorizers may decide by
// them. A review is a write that stores nothing, so that a dry run may make it.
func AccessReview(c client.Client) MayRead {
	return func(ctx context.Context, user authenticationv1.UserInfo, source resolve.Source) (bool, error) {
		attributes := authorizationv1.ResourceAttributes{Verb: source.Verb()}
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

// asker is who sent a request, and what they may read.
func (s *Server) asker(request *admissionv1.AdmissionRequest) review.Asker {
	asker := review.Asker{Name: request.UserInfo.Username, User: request.UserInfo, DryRun: request.DryRun != nil && *request.DryRun}
	if !asker.DryRun { // nothing is created, and its answer is shown again and again
		asker.Seed = string(request.UID)
	}
	asker.MayRead = func(ctx context.Context, source resolve.Source) (bool, error) {
		// A restore is written by the controller in the name of a user. Rights of the controller must not decide what that user may read.
		if s.MayRead == nil || s.restores(request) {
			return false, nil
		}
		return s.MayRead(ctx, request.UserInfo, source)
	}
	return asker
}
