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
	// Authorizers may decide by groups, UID and extra fields too: a node by its groups, a token with scopes by its extra fields.
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user.Username, Groups: user.Groups, UID: user.UID}}
	for key, values := range user.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	return review
}

// IsAllowed reports whether a user may act on a resource. It creates a SubjectAccessReview, which the API server does not store: dry runs may do so.
func IsAllowed(ctx context.Context, c client.Writer, user authenticationv1.UserInfo, action authorizationv1.ResourceAttributes) (bool, error) {
	review := ReviewFor(user)
	review.Spec.ResourceAttributes = &action
	err := c.Create(ctx, review)
	return review.Status.Allowed, err
}
