package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/pipeline"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	strictjson "sigs.k8s.io/json"
)

// guest is a VM or VMI after stage 1.
type guest struct {
	kind, namespace, object string
	verdict                 pipeline.Verdict
	// explicit is the VMI that will boot, and document its JSON: the sparse VMI with the webhook's patch applied.
	explicit *v1.VirtualMachineInstance
	document []byte
}

func (g guest) name() string { return fmt.Sprintf("%s %s/%s", g.kind, g.namespace, g.object) }

// explain prints every cause of a rejection.
func (g guest) explain(out io.Writer) {
	fmt.Fprintf(out, "%s is rejected:\n", g.name())
	for _, err := range g.verdict.Errors {
		fmt.Fprintf(out, "  %s: %s\n", err.Field, err.ErrorBody())
	}
}

// guests runs stage 1 on each VM and VMI that the user named, in their order.
func (o *options) guests(ctx context.Context, args []string) ([]guest, error) {
	in, err := o.load(ctx, args)
	if err != nil {
		return nil, err
	}
	cluster, err := o.configuration()
	if err != nil {
		return nil, err
	}
	stage := stageOne{resolver: resolve.Resolver{Cached: in.reader}, cluster: cluster}
	var guests []guest
	for _, object := range in.guests {
		g := guest{kind: object.GetKind(), namespace: object.GetNamespace(), object: object.GetName()}
		known, err := stage.run(ctx, object, &g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.name(), err)
		}
		if known {
			guests = append(guests, g)
		}
	}
	return guests, nil
}

// run fills the guest from a VM or VMI and tells whether the object is one. Rejections are in the verdict; the error is ours.
func (s stageOne) run(ctx context.Context, object *unstructured.Unstructured, g *guest) (bool, error) {
	raw, err := object.MarshalJSON()
	if err != nil || object.GroupVersionKind().Group != v1.GroupVersion.Group {
		return false, err
	}
	var sparse *v1.VirtualMachineInstance
	switch object.GetKind() {
	case "VirtualMachine":
		vm := &v1.VirtualMachine{}
		if g.verdict.Errors = decode(raw, vm); g.verdict.Allowed() {
			sparse, err = s.vm(ctx, vm, g)
		}
	case "VirtualMachineInstance":
		vmi := &v1.VirtualMachineInstance{}
		if g.verdict.Errors = decode(raw, vmi); g.verdict.Allowed() {
			sparse, err = vmi, s.vmi(ctx, vmi, g)
		}
	default:
		return false, nil
	}
	var refusal *resolve.Refusal
	if errors.As(err, &refusal) {
		g.verdict.Errors, err = append(g.verdict.Errors, refusal.Errors...), nil
	}
	if err == nil && g.verdict.Allowed() {
		g.document, err = patched(sparse, g.explicit)
	}
	return true, err
}

// decode reads strictly, as the API server does: a field that does not exist is a typing error, not a wish.
func decode(raw []byte, into any) field.ErrorList {
	strict, err := strictjson.UnmarshalStrict(raw, into)
	if err != nil {
		return field.ErrorList{field.Invalid(nil, "", err.Error())}
	}
	var errs field.ErrorList
	for _, err := range strict {
		var path strictjson.FieldError
		if errors.As(err, &path) {
			errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: path.FieldPath(), Detail: strings.TrimSuffix(err.Error(), fmt.Sprintf(" %q", path.FieldPath()))})
			continue
		}
		errs = append(errs, field.Invalid(nil, "", err.Error()))
	}
	return errs
}

// patched applies the patch that the webhook would answer, so that what is printed is what a cluster would store.
func patched(sparse, explicit *v1.VirtualMachineInstance) ([]byte, error) {
	raw, err := json.Marshal(sparse)
	if err != nil {
		return nil, err
	}
	diff, err := pipeline.Patch(raw, sparse, explicit)
	if err != nil || diff == nil {
		return raw, err
	}
	patch, err := jsonpatch.DecodePatch(diff)
	if err != nil {
		return nil, err
	}
	return patch.Apply(raw)
}
