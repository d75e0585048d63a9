package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/patch"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guest is an object of the user after stage 1: a VM or VMI, or an object of the catalog, which is only judged.
type guest struct {
	object
	reader  client.Reader
	vm      *v1.VirtualMachine
	verdict admit.Verdict
	// explicit is the VMI that will boot, and document its JSON: the sparse VMI with the webhook's patch applied.
	explicit *v1.VirtualMachineInstance
	document []byte
	sparse   *v1.VirtualMachineInstance
	input    admit.Input
	// frozen is the hardware of the guest's last boot; nil before the first.
	frozen *record.Record
	// forgotten is why the hardware of the last boot could not be read, though there may have been one.
	forgotten error
	// profiles are those that may be for it and its host.
	profiles func() ([]v1alpha1.HostProfile, error)
	// admit gives the VM as a cluster would store it; nil for other kinds.
	admit func() ([]byte, error)
	// explain works out where each field of the explicit VMI came from; nil for the catalog.
	explain func() (admit.Explanation, error)
	// unknown says that the VM refers to something that is not there. The webhook lets it pass, but it cannot start.
	unknown bool
	missing []resolve.Missing
}

// guests runs stage 1 on each object that the user named, in their order, and leaves those out that are none of Kiln's.
func (o *options) guests(ctx context.Context, args []string) ([]guest, error) {
	in, err := o.load(ctx, args)
	if err != nil {
		return nil, err
	}
	return o.judge(ctx, in, stageOne{})
}

func (o *options) judge(ctx context.Context, in inputs, stage stageOne) ([]guest, error) {
	now, err := o.configuration(ctx, in)
	if err != nil {
		return nil, err
	}
	stage.reader = in.reader
	stage.reviewer = review.Reviewer{Resolver: resolve.Resolver{Cached: in.reader}, Configuration: func() config.Cluster { return now.Cluster }}
	profiles := func() ([]v1alpha1.HostProfile, error) { return o.hostProfiles(ctx, in) }
	var guests []guest
	for _, object := range in.named {
		g := guest{object: object, reader: in.reader, profiles: profiles, verdict: admit.Verdict{Errors: object.mistakes, Warnings: object.warnings}}
		switch {
		case g.fault != nil || len(g.mistakes) > 0:
		case unserved(object.GroupVersionKind()):
			if !o.passOver(&g) {
				continue
			}
		case judges[object.GroupVersionKind().GroupKind()] == nil:
			continue
		default:
			if err := stage.run(ctx, &g); err != nil {
				g.fault = fmt.Errorf("%s: %w", g.name(), err)
			}
			o.lacks(ctx, &g)
		}
		guests = append(guests, g)
	}
	return guests, nil
}

// run judges an object of a kind that has a judge. Rejections are in the verdict; the error is ours.
func (s stageOne) run(ctx context.Context, g *guest) error {
	raw, err := g.MarshalJSON()
	if err != nil {
		return err
	}
	if over := validate.Counts(raw); over != nil { // as in the webhook, nothing else is judged then
		g.verdict.Errors = field.ErrorList{over}
		return nil
	}
	sparse, err := judges[g.GroupVersionKind().GroupKind()](s, ctx, g, raw)
	var refusal *resolve.Refusal
	if errors.As(err, &refusal) {
		g.verdict.Errors, err = append(g.verdict.Errors, refusal.Errors...), nil
	}
	g.verdict.Warnings = append(g.warnings, g.verdict.Warnings...)
	if err == nil && g.verdict.Allowed() && sparse != nil {
		g.sparse = sparse
		g.document, err = patched(sparse, g.explicit)
	}
	return err
}

// patched applies the patch that the webhook would answer, so that what is printed is what a cluster would store. The patch is
// made from the JSON that it is applied to: an empty list or map of the typed object is not in that.
func patched(sparse, explicit *v1.VirtualMachineInstance) ([]byte, error) {
	raw, err := json.Marshal(sparse)
	if err != nil {
		return nil, err
	}
	sent := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(raw, sent); err != nil {
		return nil, err
	}
	diff, err := patch.Write(raw, sent, explicit)
	if err != nil {
		return nil, err
	}
	return apply(diff, raw)
}

// apply applies an RFC 6902 patch; nil is none.
func apply(diff, raw []byte) ([]byte, error) {
	if diff == nil {
		return raw, nil
	}
	patch, err := jsonpatch.DecodePatch(diff)
	if err != nil {
		return nil, err
	}
	return patch.Apply(raw)
}
