package admission

import (
	"cmp"
	"context"
	"errors"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/patch"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// mutateVM pins a VM to revisions. Its spec stays as its owner wrote it, unless the cluster's policy is to expand it.
func (s *Server) mutateVM(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vm, old, err := readVM(request)
	if err != nil || settled(vm, old) {
		return answer{}, err
	}
	after := *vm // what is changed below is copied first
	keepIdentity(&after, old)
	var resolved resolve.Answer
	granted := ""
	if _, repinned := vm.Annotations[v1alpha1.AnnotationPins]; old != nil && !repinned && equality.Semantic.DeepEqual(vm.Spec, old.Spec) {
		// 'kubectl replace' with a manifest that has no pins. Nothing is resolved, so that it works without a catalog.
		resolved.Pins, granted = resolve.ReadPins(old), old.Annotations[v1alpha1.AnnotationInference]
		resolved.Set.Architecture = old.Annotations[v1alpha1.AnnotationArchitecture]
	} else {
		resolver := s.resolver(request, vm, old)
		resolved, err = resolver.VM(ctx, vm, old)
		if errors.As(err, new(*resolve.Refusal)) {
			return s.judgeVM(ctx, request, change{vm, old, resolved, err}) // with all else that is wrong
		}
		if err != nil {
			return answer{}, err
		}
		if refused, err := s.judgeVM(ctx, request, change{vm, old, resolved, nil}); err != nil {
			return refused, err // before a policy does, which tells less; see mutateVMI
		}
		if resolved.Waiting {
			granted = authorised(vm, old, resolver.Rights)
		}
	}
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	if s.expands(old) {
		s.expand(&after, &resolved)
	}
	annotate(&after, v1alpha1.AnnotationInference, granted)
	annotate(&after, v1alpha1.AnnotationArchitecture, resolved.Set.Architecture)
	resolve.WritePins(&after, resolved.Pins)
	patch, err := patch.Write(request.Object.Raw, vm, &after)
	if err != nil {
		return answer{}, err
	}
	if request.DryRun == nil || !*request.DryRun {
		err = s.Write(ctx, resolved.Drafts...)
	}
	return answer{patch: patch, warnings: resolved.Warnings}, err
}

// validateVM judges a VM and the guest that it would boot.
func (s *Server) validateVM(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vm, old, err := readVM(request)
	if err != nil || vm.DeletionTimestamp != nil {
		return answer{}, err
	}
	if old != nil && equality.Semantic.DeepEqual(vm.Spec, old.Spec) && samePins(vm, old) {
		// Labels and the like: rules that came since then must not keep anybody from changing them.
		return judged(validate.HardwareChange(vm, old), nil)
	}
	resolved, err := s.resolver(request, vm, old).VM(ctx, vm, old)
	return s.judgeVM(ctx, request, change{vm, old, resolved, err})
}

// change is a VM with what its references were resolved to, or the error of that.
type change struct {
	vm, old  *v1.VirtualMachine
	resolved resolve.Answer
	err      error
}

// judgeVM judges a VM. A mistake in its references is one among others.
func (s *Server) judgeVM(ctx context.Context, request *admissionv1.AdmissionRequest, c change) (answer, error) {
	var mistakes *resolve.Refusal
	if c.err != nil && !errors.As(c.err, &mistakes) {
		return answer{}, c.err
	}
	in, err := s.Resolver.Input(ctx, request.Namespace, c.resolved, s.Cluster())
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return answer{}, err
	}
	if in.User = request.UserInfo.Username; mistakes != nil {
		in.Set.Instancetype, in.Set.Preference, in.Mistakes = nil, nil, mistakes.Errors
	}
	_, judged := admit.VM(resolve.Effective(c.vm, c.resolved.Pins), c.old, in)
	judged.Warnings = append(c.resolved.Warnings, judged.Warnings...)
	return verdict(judged)
}

// samePins tells whether the pins of a VM stay. That its circumstances are pinned for the first time changes nothing in what they are.
func samePins(vm, old *v1.VirtualMachine) bool {
	now, was := resolve.ReadPins(vm), resolve.ReadPins(old)
	if was.Presets == nil {
		now.Presets = nil
	}
	if was.Configuration == "" {
		now.Configuration = ""
	}
	return now.Equal(was)
}

// readVM reads the VM and, on update, the old one.
func readVM(request *admissionv1.AdmissionRequest) (vm, old *v1.VirtualMachine, err error) {
	if vm, err = decode[v1.VirtualMachine](request.Object.Raw); err != nil {
		return nil, nil, err
	}
	if old, err = decodeOld[v1.VirtualMachine](request); err != nil {
		return nil, nil, err
	}
	vm.Namespace = request.Namespace
	return vm, old, nil
}

// settled tells whether there is nothing to decide: a VM on its way out, whose finalizers must go whatever became of the
// catalog, or one in which nothing changed that matters here.
func settled(vm, old *v1.VirtualMachine) bool {
	if vm.DeletionTimestamp != nil || old == nil {
		return vm.DeletionTimestamp != nil
	}
	for _, key := range ours {
		value, found := vm.Annotations[key]
		if was, had := old.Annotations[key]; value != was || found != had {
			return false
		}
	}
	return equality.Semantic.DeepEqual(vm.Spec, old.Spec)
}

// keepIdentity restores the seed of UUID, serial and MACs that 'kubectl replace' with the original manifest would drop: a
// guest that was restored under another UID would become another machine.
func keepIdentity(vm, old *v1.VirtualMachine) {
	if old == nil || old.Annotations[v1alpha1.AnnotationIdentity] == "" || vm.Annotations[v1alpha1.AnnotationIdentity] != "" {
		return
	}
	annotate(vm, v1alpha1.AnnotationIdentity, old.Annotations[v1alpha1.AnnotationIdentity])
}
