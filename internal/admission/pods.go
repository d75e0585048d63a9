package admission

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

// mutatePod gives a pod of KubeVirt's virt-launcher the container of Kiln's hook. The webhook configuration selects only pods
// of KubeVirt's controller. A pod of any other account stays as it is, whatever its labels are.
func (s *Server) mutatePod(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	if request.Operation != admissionv1.Create || !slices.Contains(s.Reviewer.Configuration().Limits.KubeVirt, request.UserInfo.Username) {
		return answer{}, nil
	}
	pod, err := decodeObject[corev1.Pod](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	injected, err := s.LauncherHook.AddContainer(pod)
	if err != nil || injected == nil {
		return answer{}, err
	}
	return s.answerPatch(ctx, request, change{sent: pod, stored: injected})
}
