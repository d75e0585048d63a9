package workbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Reviewed is an object after stage 1.
type Reviewed struct {
	manifest.Object
	// Verdict is the verdict on the object. It has no meaning if the object has a Fault.
	Verdict admit.Verdict
	// Guest is the guest that the object boots; nil if the object is neither a VM with a template nor a VMI. Use it only if the verdict allows the object.
	Guest *Guest
	// Unknown reports that a VM refers to an instancetype or preference that does not exist. The webhook admits it, but it cannot start.
	Unknown bool

	// Policies has the results of the GuestPolicies for a VM, a VMI or the templates of other kinds.
	Policies policy.Result
	// Carrier reports that the object has templates of VMs or VMIs which were reviewed. Such an object has no Guest.
	Carrier bool

	// Unselected are the policies of Bench.Policies that do not select a VM or VMI.
	Unselected []string

	// unrecorded means that the hardware of earlier boots is not read.
	unrecorded bool

	// Inferred has what the volumes of a VM recommend, and the objects with the labels.
	Inferred []resolve.Inference

	// LostPins are the revisions that a VM is pinned to, and that do not exist or were changed. The VM was reviewed with the current objects in their place.
	LostPins []string

	missing []resolve.Missing
	// sources are all objects that were read to find what volumes recommend.
	sources []resolve.Source
	Inputs  manifest.Inputs
}

// AddReferences returns inputs whose objects may also refer to the objects that r was reviewed with. If both have an object of one name, the inputs' object
// is used.
func (r Reviewed) AddReferences(in manifest.Inputs) manifest.Inputs {
	in.Reader = objects.Layers{in.Reader, r.Inputs.Reader}
	return in
}

// Skipped is an object that is neither accepted nor rejected, because Kiln does not serve its kind.
type Skipped struct {
	manifest.Object
	Reason string
}

// Review is the result of stage 1 for several objects.
type Review struct {
	// Objects are in the order of the inputs. Objects of groups that Kiln does not know are left out.
	Objects []Reviewed
	// Skipped are the objects of KubeVirt's groups that were not reviewed.
	Skipped []Skipped
	// Warnings are about the settings, such as the configuration, with which the objects were reviewed.
	Warnings []string
}

// Review runs stage 1 on each object that the user named. old is a stored VM, or nil: a VM with its name is reviewed as its update. An error of one object
// is the Fault of this object. Review fails only if no object can be reviewed.
func (b *Bench) Review(ctx context.Context, in manifest.Inputs, old *v1.VirtualMachine) (Review, error) {
	now, warnings, err := b.Configuration(ctx, in)
	all := Review{Warnings: warnings}
	if err != nil {
		return all, err
	}
	policies, warnings, err := b.GuestPolicies(ctx, in)
	if all.Warnings = append(all.Warnings, warnings...); err != nil {
		return all, err
	}
	carriers, err := carrier.ParseKinds(b.Carriers)
	if err != nil {
		return all, fmt.Errorf("--carrier: %w", err)
	}
	stage := stageOne{bench: b, old: old, oldCarrier: b.oldCarrier, carriers: carriers, reviewer: review.Reviewer{
		Resolver: resolve.Resolver{Cached: in.Reader, OfFiles: !in.OfCluster, Memo: b.memo}, Configuration: func() config.Cluster { return now.Cluster },
		Policies: func() ([]*policy.Policy, error) { return policies, nil }, Params: paramsOf(in), KubeVirt: virtcontroller.Completer{}, EachEffect: true,
		Exceptions: exceptionsOf(ctx, in), Now: b.Now,
	}}
	for _, object := range in.Named {
		r := Reviewed{Object: object, Inputs: in, unrecorded: b.unrecorded, Verdict: admit.Verdict{Errors: object.Mistakes, Warnings: object.Warnings}}
		kind := r.GroupVersionKind()
		switch {
		case r.Fault != nil:
		case len(r.Mistakes) > 0 && !reachWebhooks(r.Mistakes):
			stage.judgeRest(ctx, &r)
		case crdschema.IsFileKind(kind):
			all.Skipped = append(all.Skipped, Skipped{object, "it is read by another command, and is no object of a cluster"})
			continue
		case isUnserved(kind, carriers):
			reason := unservedReason(kind)
			if !b.Strict || servedByOthers(kind) {
				all.Skipped = append(all.Skipped, Skipped{object, reason})
				continue
			}
			r.Verdict.Errors = append(r.Verdict.Errors, field.Forbidden(field.NewPath("kind"), reason))
		case judgeOf(kind.GroupKind(), carriers) == nil:
			continue
		default:
			if err := stage.judgeObject(ctx, &r); err != nil {
				r.Fault = fmt.Errorf("%s: %w", r.Name(), err)
			}
			stage.warnOfAbsence(ctx, &r)
			b.judgeMissing(&r)
			if r.Guest != nil {
				r.Unselected = slices.DeleteFunc(slices.Clone(b.tried), func(name string) bool { return slices.Contains(r.Policies.Selected, name) })
			}
			r.addMistakes()
		}
		all.Objects = append(all.Objects, r)
	}
	all.Skipped = slices.DeleteFunc(all.Skipped, func(s Skipped) bool { return all.hasRead(s.Object) })
	return all, nil
}

// warnOfAbsence adds a warning to an object of a namespace in which admission is absent: an API server takes whatever this review refuses. It says nothing if
// the user may not read the namespace.
func (s stageOne) warnOfAbsence(ctx context.Context, r *Reviewed) {
	if !s.reviewer.Configuration().Limits.KubeVirtGuests || r.GetNamespace() == "" {
		return
	}
	namespace, err := s.reviewer.Resolver.Namespace(ctx, r.GetNamespace())
	if err == nil && namespace.Labels[v1alpha1.LabelAdmission] == v1alpha1.AdmissionDisabled {
		r.Verdict.Warnings = append(r.Verdict.Warnings, fmt.Sprintf("admission does not judge this: namespace '%s' has label %s: %s", namespace.Name,
			v1alpha1.LabelAdmission, v1alpha1.AdmissionDisabled))
	}
}

// reachWebhooks reports whether an API server calls the webhook for an object with such mistakes. It does if only fields are missing, because it checks
// required fields after the mutating webhooks.
func reachWebhooks(mistakes field.ErrorList) bool {
	return !slices.ContainsFunc(mistakes, func(err *field.Error) bool {
		return err.Type != field.ErrorTypeRequired || strings.HasPrefix(err.Field, "metadata")
	})
}

// addMistakes adds the mistakes of the schema to the causes of the webhook. If both have a cause at a field, it keeps the webhook's, which says what to do,
// unless the webhook took the missing value for an empty one.
func (r *Reviewed) addMistakes() {
	for _, mistake := range r.Mistakes {
		switch at := slices.IndexFunc(r.Verdict.Errors, func(err *field.Error) bool { return err.Field == mistake.Field }); {
		case at < 0:
			r.Verdict.Errors = append(r.Verdict.Errors, mistake)
		case r.Verdict.Errors[at].Type != field.ErrorTypeRequired:
			r.Verdict.Errors[at] = mistake
		}
	}
}

// hasRead reports whether an object was read to find what a volume of a VM recommends.
func (r Review) hasRead(object manifest.Object) bool {
	kind := object.GroupVersionKind().GroupKind()
	return slices.ContainsFunc(r.Objects, func(of Reviewed) bool {
		return slices.ContainsFunc(of.sources, func(s resolve.Source) bool {
			return s.GroupKind() == kind && s.Namespace == object.GetNamespace() && s.Name == object.GetName()
		})
	})
}

// judgeObject judges an object whose kind is in judges. A rejection is in the verdict; an error means that a read or Kiln failed.
func (s stageOne) judgeObject(ctx context.Context, r *Reviewed) error {
	raw, err := r.MarshalJSON()
	if err != nil {
		return err
	}
	if over := validate.Counts(raw); over != nil { // as in the webhook, the rest is not judged then
		r.Verdict.Errors = field.ErrorList{over}
		return nil
	}
	err = judgeOf(r.GroupVersionKind().GroupKind(), s.carriers)(s, ctx, r, raw)
	var refusal *resolve.Refusal
	if errors.As(err, &refusal) {
		r.Verdict.Errors, err = append(r.Verdict.Errors, refusal.Errors...), nil
	}
	if mistyped := (*json.UnmarshalTypeError)(nil); errors.As(err, &mistyped) { // the schema accepts the value, and the webhook's Go types do not
		if len(r.Verdict.Errors) == 0 {
			r.Verdict.Errors = field.ErrorList{validate.Mistyped(mistyped, raw)}
		}
		err = nil
	}
	r.Verdict.Warnings = append(r.Warnings, r.Verdict.Warnings...)
	if err == nil && r.Verdict.Allowed() && r.Guest != nil && !s.bench.Undocumented {
		r.Guest.Document, err = r.patchedDocument(r.Guest.Explicit)
	}
	return err
}
