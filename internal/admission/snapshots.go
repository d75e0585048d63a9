package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// A restore gives a VM back what it had, also networks of other namespaces, which the author of the VM may use and the author of the restore perhaps not. So
// the controller checks the rights of the account in annotation kilnvm.io/asker. Admission writes this annotation, and refuses any other value.

// longestAsker bounds the annotation, in bytes. Identity providers give a UserInfo any number of groups.
const longestAsker = 64 << 10

// mutateRestore writes the requesting account into a restore.
func (s *Server) mutateRestore(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	restore, err := decodeObject[api.VirtualMachineRestore](request.Object.Raw)
	if err != nil || request.Operation != admissionv1.Create || s.isRestorer(request) {
		return answer{}, err
	}
	noted := restore.DeepCopy()
	noteAsker(noted, request)
	return s.answerPatch(ctx, request, change{sent: restore, stored: noted})
}

// mutateClone writes the requesting account into a clone, and gives a target without a name one, as KubeVirt does.
func (s *Server) mutateClone(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	wanted, err := decodeObject[clone.VirtualMachineClone](request.Object.Raw)
	if err != nil || request.Operation != admissionv1.Create || s.isRestorer(request) {
		return answer{}, err
	}
	noted := wanted.DeepCopy()
	noteAsker(noted, request)
	nameTarget(noted, string(request.UID))
	return s.answerPatch(ctx, request, change{sent: wanted, stored: noted})
}

// nameTarget names the target of a clone by its source. The API server draws the UID of a request at random.
func nameTarget(of *clone.VirtualMachineClone, random string) {
	const letters = 5
	if of.Spec.Source == nil || of.Spec.Target != nil && of.Spec.Target.Name != "" {
		return
	}
	if of.Spec.Target == nil {
		of.Spec.Target = &corev1.TypedLocalObjectReference{APIGroup: &v1.GroupVersion.Group, Kind: v1.VirtualMachineGroupVersionKind.Kind}
	}
	of.Spec.Target.Name = fmt.Sprintf("clone-%s-%s", of.Spec.Source.Name, random[:min(letters, len(random))])
}

// askerAnnotation returns the value of the annotation for the requesting account.
func askerAnnotation(request *admissionv1.AdmissionRequest) string {
	text, err := json.Marshal(request.UserInfo)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// noteAsker writes the annotation that names the requesting account.
func noteAsker(of metav1.Object, request *admissionv1.AdmissionRequest) {
	annotations := of.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationAsker] = askerAnnotation(request)
	of.SetAnnotations(annotations)
}

// checkAsker refuses an annotation that does not name the account of the request, and any change of the annotation.
func (s *Server) checkAsker(request *admissionv1.AdmissionRequest, now, was metav1.Object) field.ErrorList {
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationAsker)
	asker := now.GetAnnotations()[v1alpha1.AnnotationAsker]
	switch {
	case s.isRestorer(request):
	case len(asker) > longestAsker:
		return field.ErrorList{field.TooLong(at, "", longestAsker).WithOrigin("restore/asker")}
	case was == nil && asker != askerAnnotation(request), was != nil && asker != was.GetAnnotations()[v1alpha1.AnnotationAsker]:
		return field.ErrorList{field.Forbidden(at, "is written only by admission: it names the account that created the object").WithOrigin("restore/asker")}
	}
	return nil
}

// isRestorer reports whether Kiln's controller sends a request. It has checked the rights of the account in whose name it restores.
func (s *Server) isRestorer(request *admissionv1.AdmissionRequest) bool {
	return slices.Contains(s.Reviewer.Configuration().Limits.Restorers, request.UserInfo.Username)
}

func (s *Server) validateSnapshot(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	object, err := decodeObject[api.VirtualMachineSnapshot](request.Object.Raw)
	if err != nil || request.Operation != admissionv1.Create {
		return answer{}, err
	}
	object.Namespace = request.Namespace
	return answerVerdict(s.Reviewer.ReviewSnapshot(ctx, object, s.asker(request)), ctx.Err())
}

func (s *Server) validateRestore(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	object, err := decodeObject[api.VirtualMachineRestore](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	if request.Operation == admissionv1.Create {
		object.Namespace = request.Namespace
		return s.answerCreated(ctx, request, object, s.Reviewer.ReviewRestore(ctx, object, s.asker(request)))
	}
	old, err := decodeOld[api.VirtualMachineRestore](request)
	if err != nil {
		return answer{}, err
	}
	return answerMistakes(s.checkAsker(request, object, old), nil)
}

func (s *Server) validateClone(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	object, err := decodeObject[clone.VirtualMachineClone](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	if request.Operation == admissionv1.Create {
		object.Namespace = request.Namespace
		return s.answerCreated(ctx, request, object, s.Reviewer.ReviewClone(ctx, object, s.asker(request)))
	}
	old, err := decodeOld[clone.VirtualMachineClone](request)
	if err != nil {
		return answer{}, err
	}
	return answerMistakes(s.checkAsker(request, object, old), nil)
}

// answerCreated adds the mistakes of the asker to the verdict on a restore or a clone that is created.
func (s *Server) answerCreated(ctx context.Context, request *admissionv1.AdmissionRequest, object metav1.Object, verdict admit.Verdict) (answer, error) {
	verdict.Errors = append(s.checkAsker(request, object, nil), verdict.Errors...)
	return answerVerdict(verdict, ctx.Err())
}
