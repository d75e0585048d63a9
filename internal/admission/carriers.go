package admission

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// validateCarrier judges the templates of an object that carries VMs, such as a VirtualMachinePool. What is made of them is judged again by itself: a policy
// may be written after the object, and some of what it refers to exists only later.
func (s *Server) validateCarrier(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	kind := carrier.Find(schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}, s.Carriers)
	switch {
	case request.SubResource != "" || isUpdateOfDeleted(request):
		return answer{}, nil
	case kind == nil:
		return answer{warnings: []string{fmt.Sprintf("Kiln does not know where a %s of group '%s' has templates of VMs, and has not judged it: the webhook "+
			"needs a flag --carrier for this kind", request.Kind.Kind, request.Kind.Group)}}, nil
	}
	reviewed, err := s.Reviewer.ReviewCarrier(ctx, readCarrier(request, *kind), s.asker(request))
	return answerVerdict(reviewed.Verdict, err)
}

// readCarrier returns the object of a request and, on update, the old one.
func readCarrier(request *admissionv1.AdmissionRequest, kind carrier.Kind) carrier.Object {
	of := carrier.Object{Kind: kind, Version: request.Kind.Version, Resource: request.Resource.Resource, Namespace: request.Namespace, Raw: request.Object.Raw}
	if request.Operation == admissionv1.Update {
		of.Old = request.OldObject.Raw
	}
	return of
}

// isUpdateOfDeleted reports whether an update is of an object that is being deleted: its controller makes nothing of it any more.
func isUpdateOfDeleted(request *admissionv1.AdmissionRequest) bool {
	return request.Operation == admissionv1.Update && gjson.GetBytes(request.OldObject.Raw, "metadata.deletionTimestamp").Str != ""
}
