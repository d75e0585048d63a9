package admission

import (
	"cmp"
	"context"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/patch"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "kubevirt.io/api/core/v1"
)

// mutateVMI makes a VMI explicit: the size and preference of its pins, presets, defaults.
func (s *Server) mutateVMI(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vmi, err := decode[v1.VirtualMachineInstance](request.Object.Raw)
	if err != nil || request.Operation != admissionv1.Create {
		return answer{}, err
	}
	vmi.Namespace = request.Namespace
	resolved, err := s.Resolver.VMI(ctx, vmi)
	if err != nil {
		return answer{}, err
	}
	in, err := s.Resolver.Input(ctx, request.Namespace, resolved, s.Cluster())
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return answer{}, err
	}
	explicit, agreed := admit.VMI(vmi, in)
	agreed.Warnings = append(resolved.Warnings, agreed.Warnings...)
	given, err := verdict(agreed)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return given, err
	}
	// The API server asks policies before validating webhooks, and a policy tells one mistake without its value. So all of them
	// are told here; the validating webhook judges again what other webhooks made of the guest.
	if refused, err := verdict(admit.Judge(explicit, admit.Input{Cluster: s.Cluster(), User: request.UserInfo.Username})); err != nil {
		return refused, err
	}
	if given.patch, err = patch.Write(request.Object.Raw, vmi, explicit); err == nil && (request.DryRun == nil || !*request.DryRun) {
		err = s.Write(ctx, resolved.Drafts...) // a revision that the collector has marked stays
	}
	return given, err
}

// validateVMI judges an explicit VMI, and what was changed in one that exists.
func (s *Server) validateVMI(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vmi, err := decode[v1.VirtualMachineInstance](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	vmi.Namespace = request.Namespace
	old, err := decodeOld[v1.VirtualMachineInstance](request)
	if err != nil {
		return answer{}, err
	}
	if old == nil {
		return verdict(admit.Judge(vmi, admit.Input{Cluster: s.Cluster(), User: request.UserInfo.Username}))
	}
	// One that is being deleted too: its hardware is recorded before it goes. That finalizers and the like change is no rule's business.
	change := validate.GuestChange{New: vmi, Old: old, By: account(request)}
	return judged(validate.GuestUpdate(change, s.Cluster().Limits), nil)
}

// nodeClaim is what an API server says of a token that is bound to a pod: the node that the pod is on.
const nodeClaim = "authentication.kubernetes.io/node-name"

// account is who asks.
func account(request *admissionv1.AdmissionRequest) validate.Account {
	by := validate.Account{Name: request.UserInfo.Username}
	if nodes := request.UserInfo.Extra[nodeClaim]; len(nodes) > 0 {
		by.Node = nodes[0]
	}
	return by
}

// validateStatus judges who writes the status of a VM or a VMI.
func (s *Server) validateStatus(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	if request.Kind.Kind == v1.VirtualMachineGroupVersionKind.Kind {
		vm, old, err := readVM(request)
		if err != nil || old == nil {
			return answer{}, err
		}
		return judged(validate.For(request.UserInfo.Username, s.Cluster().Limits, validate.VMStatusUpdate(vm, old)), nil)
	}
	vmi, err := decode[v1.VirtualMachineInstance](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	old, err := decodeOld[v1.VirtualMachineInstance](request)
	if err != nil || old == nil {
		return answer{}, err
	}
	return judged(validate.GuestStatusUpdate(validate.GuestChange{New: vmi, Old: old, By: account(request)}, s.Cluster().Limits), nil)
}
