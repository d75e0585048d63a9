package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
)

// admit is a VM as the webhook would leave it, whatever the policy: the webhook's own code answers a dry run.
func (s stageOne) admit(ctx context.Context, vm *v1.VirtualMachine, raw []byte) ([]byte, error) {
	server := &admission.Server{
		Resolver: s.resolver, Cluster: func() config.Cluster { return s.cluster },
		Write: func(context.Context, ...revision.Draft) error { return nil },
	}
	kind := v1.VirtualMachineGroupVersionKind
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Namespace: vm.Namespace, Name: vm.Name, DryRun: new(true),
			Kind: metav1.GroupVersionKind(kind), Object: runtime.RawExtension{Raw: raw},
		},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	if body, err = server.Hooks()[admission.MutateVM].Answer(ctx, body); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, err
	}
	if !review.Response.Allowed {
		return nil, fmt.Errorf("admission: %s", review.Response.Result.Message)
	}
	return apply(review.Response.Patch, raw)
}
