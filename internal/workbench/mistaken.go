package workbench

import (
	"context"
	"slices"

	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// judgeRest adds the causes of rules to an object that an API server refuses by its schema, before it calls a webhook. So the author gets both in one run.
// It judges the object without the values that the schema refuses, and leaves out what may be a consequence of their absence: causes at, above or below these
// values, causes about missing fields, and GuestPolicies.
func (s stageOne) judgeRest(ctx context.Context, r *Reviewed) {
	mended, possible := crdschema.Mend(r.Unstructured, r.Mistakes)
	if !possible || judges[r.GroupVersionKind().GroupKind()] == nil {
		return
	}
	s.reviewer.Policies = func() ([]*policy.Policy, error) { return nil, nil }
	rest := *r
	rest.Unstructured, rest.Verdict = mended, admit.Verdict{}
	if err := s.judgeObject(ctx, &rest); err != nil {
		return // the mistakes of the schema are reported
	}
	for _, err := range rest.Verdict.Errors {
		related := slices.ContainsFunc(r.Mistakes, func(mistake *field.Error) bool {
			_, below := fieldpath.Below(err.Field, mistake.Field)
			_, above := fieldpath.Below(mistake.Field, err.Field)
			return below || above
		})
		if !related && err.Type != field.ErrorTypeRequired {
			r.Verdict.Errors = append(r.Verdict.Errors, err)
		}
	}
}
