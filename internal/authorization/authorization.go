// Package authorization asks the API server what an account may do.
package authorization

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReviewFor returns a SubjectAccessReview for a user. The caller adds ResourceAttributes or NonResourceAttributes.
func ReviewFor(user authenticationv1.UserInfo) *authorizationv1.SubjectAccessReview {
	// Authorizers may also decide by groups, UID and extra fields, for example about nodes by groups, and about tokens with scopes by extra fields.
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user.Username, Groups: user.Groups, UID: user.UID}}
	for key, values := range user.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	return review
}

// IsAllowed reports whether a user may act on a resource. It creates a SubjectAccessReview, which is allowed in dry runs, because the API server does not
// store it.
func IsAllowed(ctx context.Context, c client.Writer, user authenticationv1.UserInfo, action authorizationv1.ResourceAttributes) (bool, error) {
	review := ReviewFor(user)
	review.Spec.ResourceAttributes = &action
	err := c.Create(ctx, review)
	return review.Status.Allowed, err
}
