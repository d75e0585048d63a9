package admission

import (
	"context"

	"github.com/kilnvm/kiln/internal/authorization"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MayRead reports whether a user may read a source.
type MayRead func(context.Context, authenticationv1.UserInfo, resolve.Source) (bool, error)

// AccessReview returns a MayRead that asks the API server.
func AccessReview(c client.Client) MayRead {
	return func(ctx context.Context, user authenticationv1.UserInfo, source resolve.Source) (bool, error) {
		attributes := authorizationv1.ResourceAttributes{Verb: source.Verb()}
		attributes.Group, attributes.Version, attributes.Resource, attributes.Namespace, attributes.Name = source.Attributes()
		return authorization.IsAllowed(ctx, c, user, attributes)
	}
}

// asker returns the requesting account, and what it may read.
func (s *Server) asker(request *admissionv1.AdmissionRequest) review.Asker {
	asker := review.Asker{Name: request.UserInfo.Username, User: request.UserInfo, DryRun: request.DryRun != nil && *request.DryRun}
	if !asker.DryRun { // a dry run creates nothing, and its answers are compared
		asker.Seed = string(request.UID)
	}
	asker.MayRead = func(ctx context.Context, source resolve.Source) (bool, error) {
		// The controller writes a restore in the name of a user. The rights of the controller must not decide what that user may read.
		if s.MayRead == nil || s.isRestorer(request) {
			return false, nil
		}
		return s.MayRead(ctx, request.UserInfo, source)
	}
	return asker
}
