package authorization

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// authorizer answers the reviews that it is asked to create, and keeps the last one.
type authorizer struct {
	client.Writer
	allowed bool
	err     error
	asked   authorizationv1.SubjectAccessReviewSpec
}

func (a *authorizer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	review := object.(*authorizationv1.SubjectAccessReview)
	a.asked = review.Spec
	review.Status.Allowed = a.allowed
	return a.err
}

// TestIsAllowed: an authorizer sees all that is known of the user, and its answer or error is returned.
func TestIsAllowed(t *testing.T) {
	t.Parallel()
	action := authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "team", Name: "key"}
	for _, test := range []struct {
		user authenticationv1.UserInfo
		want authorizationv1.SubjectAccessReviewSpec
	}{
		{authenticationv1.UserInfo{Username: "alice"}, authorizationv1.SubjectAccessReviewSpec{User: "alice", ResourceAttributes: &action}},
		{authenticationv1.UserInfo{Username: "bob", UID: "7", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}}},
			authorizationv1.SubjectAccessReviewSpec{User: "bob", UID: "7", Groups: []string{"team"},
				Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}}, ResourceAttributes: &action}},
	} {
		for _, server := range []*authorizer{{allowed: true}, {}, {err: errors.New("the API server is down")}} {
			allowed, err := IsAllowed(t.Context(), server, test.user, action)
			if allowed != server.allowed || !errors.Is(err, server.err) {
				t.Errorf("%s: %t %v, want %t %v", test.user.Username, allowed, err, server.allowed, server.err)
			}
			if diff := cmp.Diff(test.want, server.asked); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.user.Username, diff)
			}
		}
	}
}
