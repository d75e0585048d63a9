package workbench

import (
	"context"

	"github.com/kilnvm/kiln/pkg/carrier"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// judgeFunc sets the verdict on an object, and for a VM or VMI the guest.
type judgeFunc = func(stageOne, context.Context, *Reviewed, []byte) error

// judgeOf returns the function for a kind; nil if the kind is not judged.
func judgeOf(of schema.GroupKind, carriers []carrier.Kind) judgeFunc {
	if judge := judges[of]; judge != nil {
		return judge
	}
	if carrier.Find(of, carriers) != nil {
		return stageOne.judgeCarrier
	}
	return nil
}

// judgeCarrier judges the templates of an object that carries VMs or VMIs, such as a VirtualMachinePool.
func (s stageOne) judgeCarrier(ctx context.Context, r *Reviewed, raw []byte) error {
	kind := r.GroupVersionKind()
	// The plural of a name is known only to its cluster. Policies may read it, and seldom do.
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	of := carrier.Object{Kind: *carrier.Find(kind.GroupKind(), s.carriers), Version: kind.Version, Resource: resource.Resource,
		Namespace: r.GetNamespace(), Raw: raw}
	if s.bench.updates {
		of.Old = raw
	}
	if s.oldCarrier != nil {
		old, err := s.oldCarrier.MarshalJSON()
		if err != nil {
			return err
		}
		of.Old = old
	}
	reviewed, err := s.reviewerFor(r).ReviewCarrier(ctx, of, s.bench.requestUser())
	r.Verdict, r.Policies, r.Carrier = reviewed.Verdict, reviewed.Policies, err == nil && (len(reviewed.Guests) > 0 || reviewed.Allowed())
	return err
}
