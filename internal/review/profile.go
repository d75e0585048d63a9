package review

import (
	"context"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/profile"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Profile is a GuestProfile or a ClusterGuestProfile after its review.
type Profile struct {
	admit.Verdict
	// Missing contains the profiles that it extends and that do not exist. The verdict contains a warning for each.
	Missing []resolve.Missing
}

// ReviewProfile reviews a profile that is written. data is its JSON, with its namespace. An error means that there is no verdict.
func (r Reviewer) ReviewProfile(ctx context.Context, data []byte, asker Asker) (reviewed Profile, err error) {
	written, errs := profile.Check("", data)
	if len(errs) > 0 {
		reviewed.Errors = errs
		r.suggestBases(ctx, data, errs, asker)
		return reviewed, ctx.Err()
	}
	bases, err := r.Resolver.Bases(ctx, written)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return reviewed, err
	}
	judged := profile.Judge(written, bases, r.Configuration())
	reviewed.Errors, reviewed.Warnings = judged.Errors, judged.Warnings
	extender := resolve.Extender{Kind: written.Kind, Namespace: written.Namespace, Name: written.Name}
	for i, m := range judged.Missing {
		missing := extender.MissingBase(m.Path, m.Kind, m.Name, m.String(), nil)
		r.Resolver.Suggester(asker.MayRead).Hint(ctx, &missing)
		reviewed.Warnings[i] = missing.Warning
		reviewed.Missing = append(reviewed.Missing, missing)
	}
	return reviewed, ctx.Err()
}

// suggestBases adds a suggestion to each error about a name in spec.extends that no profile can have.
func (r Reviewer) suggestBases(ctx context.Context, data []byte, errs field.ErrorList, asker Asker) {
	of, bases := profile.ReadReferences(data)
	extender := resolve.Extender{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}
	for i, base := range bases {
		at := field.NewPath("spec", "extends").Index(i).Child("name")
		if refused := refusedName(errs, at); refused != nil {
			missing := extender.MissingBase(at, base.Kind, base.Name, "", refused)
			r.Resolver.Suggester(asker.MayRead).Hint(ctx, &missing)
		}
	}
}

// refusedName returns the error at a path about a name that no object can have, or nil.
func refusedName(errs field.ErrorList, at *field.Path) *field.Error {
	for _, err := range errs {
		if err.Type == field.ErrorTypeInvalid && err.Field == at.String() {
			return err
		}
	}
	return nil
}
