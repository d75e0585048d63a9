package review

import (
	"cmp"
	"context"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/profile"
)

// Profile is a GuestProfile or a ClusterGuestProfile after its review.
type Profile struct {
	admit.Verdict
	// Missing are the profiles that it extends and that do not exist. Each is a warning of the verdict.
	Missing []resolve.Missing
}

// Profile reviews a profile that is written. data is its JSON, with its namespace. An error means that there is no verdict.
func (r Reviewer) Profile(ctx context.Context, data []byte) (reviewed Profile, err error) {
	written, errs := profile.Check("", data)
	if len(errs) > 0 {
		reviewed.Errors = errs
		return reviewed, nil
	}
	bases, err := r.Resolver.Bases(ctx, written)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return reviewed, err
	}
	judged := profile.Judge(written, bases, r.Configuration())
	reviewed.Errors, reviewed.Warnings = judged.Errors, judged.Warnings
	for _, m := range judged.Missing {
		reviewed.Missing = append(reviewed.Missing, resolve.Missing{
			Path: m.Path, Value: m.Name, Kind: m.Kind, Namespace: m.Namespace, Warning: m.String(),
		})
	}
	return reviewed, ctx.Err()
}
