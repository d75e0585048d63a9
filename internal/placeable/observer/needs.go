package observer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/placeable"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// need is what a VM needs, with the objects that it was read from.
type need struct {
	placeable.Need
	depends map[dependency]bool
}

// size returns about how many bytes are in a need. Tenants may have written all of them.
func (n *need) size() int {
	size := len(n.MachineType) + n.CPU.Size()
	if n.Pod != nil {
		size += n.Pod.Size()
	}
	for _, mistake := range n.Mistakes {
		size += len(mistake.Field) + len(mistake.Detail) + len(fmt.Sprint(mistake.BadValue))
	}
	for on := range n.depends {
		size += len(on.Namespace) + len(on.Name)
	}
	for _, claim := range n.Awaited {
		size += len(claim)
	}
	return size
}

// dependency is an object whose creation, deletion or change makes a need stale.
type dependency struct {
	kind string
	types.NamespacedName
}

// Kinds of dependencies.
const (
	kindClaim   = "PersistentVolumeClaim"
	kindNetwork = "NetworkAttachmentDefinition"
	kindClass   = "StorageClass"
)

// readNeed reads what the guest of a VM needs. It returns a verdict if nobody can tell.
func (o *Observer) readNeed(ctx context.Context, vm *v1.VirtualMachine) (*need, *placeable.Verdict) {
	unknown := func(reason, message string) (*need, *placeable.Verdict) {
		verdict := placeable.Unknown(reason, message)
		return nil, &verdict
	}
	vmi, mistakes, err := o.explicitVMI(ctx, vm)
	if err != nil {
		return unknown(v1alpha1.ReasonUnreadable, unreadable(err))
	}
	if len(mistakes) > 0 {
		return unknown(v1alpha1.ReasonNotExplicit, "it is not known what the guest needs: "+condition.Mistakes(mistakes))
	}
	reader := podinput.Reader{Cache: o.Cache, Live: o.Cache, Configuration: o.Reviewer.Configuration(), Settings: o.Settings, DemandOnly: true}
	in, err := reader.Read(ctx, vmi)
	if err != nil {
		return unknown(v1alpha1.ReasonUnreadable, unreadable(err))
	}
	n := &need{depends: dependenciesOf(vmi)}
	// The cache has no records.
	if n.CPU, err = (podinput.Reader{Live: o.Live, Configuration: reader.Configuration}).NeededCPU(ctx, vmi); err != nil {
		return unknown(v1alpha1.ReasonUnreadable, unreadable(err))
	}
	if machine := vmi.Spec.Domain.Machine; machine != nil {
		n.MachineType = machine.Type
	}
	var classes field.ErrorList
	if classes, err = o.missingClasses(ctx, n, in, vm); err != nil {
		return unknown(v1alpha1.ReasonUnreadable, unreadable(err))
	}
	references, err := reader.MissingReferences(ctx, o.Live, vmi)
	if err != nil {
		return unknown(v1alpha1.ReasonUnreadable, unreadable(err))
	}
	made, errs := pod.New(in)
	n.Mistakes = append(errs, classes...)
	for _, reference := range references {
		n.Mistakes = append(n.Mistakes, reference.Missing())
	}
	if made.Pod != nil {
		n.Pod = slimPod(made.Pod)
	}
	return n, nil
}

// explicitVMI returns the VMI that a start of a VM would create, or why it cannot be known. Its UID is the UID of the VM, and only names depend on it.
func (o *Observer) explicitVMI(ctx context.Context, vm *v1.VirtualMachine) (*v1.VirtualMachineInstance, field.ErrorList, error) {
	reviewed, err := o.Reviewer.ReviewVM(ctx, vm, nil, review.UnknownAsker())
	var refusal *resolve.Refusal
	switch {
	case errors.As(err, &refusal):
		return nil, refusal.Errors, nil
	case err != nil:
		return nil, nil, err
	case !reviewed.Allowed() || reviewed.Unknown():
		_, errs := reviewed.Expanded()
		return nil, errs, nil
	}
	vmi := reviewed.Explicit.DeepCopy()
	vmi.Name, vmi.Namespace, vmi.UID = vm.Name, vm.Namespace, vm.UID
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
	return vmi, nil, nil
}

// dependenciesOf returns the claims and networks of a VMI.
func dependenciesOf(vmi *v1.VirtualMachineInstance) map[dependency]bool {
	all := map[dependency]bool{}
	for i := range vmi.Spec.Volumes {
		if name := podinput.ClaimName(&vmi.Spec.Volumes[i]); name != "" {
			all[dependency{kindClaim, types.NamespacedName{Namespace: vmi.Namespace, Name: name}}] = true
		}
	}
	for i := range vmi.Spec.Networks {
		if network := &vmi.Spec.Networks[i]; pod.HasDefinition(network) {
			namespace, name := pod.NetworkAttachmentDefinition(vmi.Namespace, network.Multus.NetworkName)
			all[dependency{kindNetwork, types.NamespacedName{Namespace: namespace, Name: name}}] = true
		}
	}
	return all
}

// missingClasses returns errors for the StorageClasses that do not exist. Claims that wait for a volume name them, dataVolumeTemplates of the VM, and the claim
// for the state of the guest. It adds the claims that dataVolumeTemplates are to make to the input of the pod.
func (o *Observer) missingClasses(ctx context.Context, n *need, in pod.Input, vm *v1.VirtualMachine) (errs field.ErrorList, err error) {
	namespace := in.VMI.Namespace
	check := func(class *string, at *field.Path) {
		if class == nil || *class == "" || err != nil {
			return
		}
		n.depends[dependency{kindClass, types.NamespacedName{Name: *class}}] = true
		var found *storagev1.StorageClass
		if podinput.IsPossibleName(*class) {
			found, err = objects.GetOrNil(ctx, o.Cache, types.NamespacedName{Name: *class}, &storagev1.StorageClass{})
			if err != nil {
				err = fmt.Errorf("reading StorageClass '%.253s': %w", *class, err)
			}
		}
		if found == nil && err == nil {
			missing := field.NotFound(at, *class)
			missing.Detail = fmt.Sprintf("no StorageClass '%.253s': create it, or name another one", *class)
			errs = append(errs, missing.WithOrigin(placeable.RuleStorageClassMissing))
		}
	}
	templates := map[string]*v1.DataVolumeTemplateSpec{}
	for i := range vm.Spec.DataVolumeTemplates {
		templates[vm.Spec.DataVolumeTemplates[i].Name] = &vm.Spec.DataVolumeTemplates[i]
	}
	for i := range in.VMI.Spec.Volumes {
		name, at := podinput.ClaimName(&in.VMI.Spec.Volumes[i]), field.NewPath("spec", "volumes").Index(i)
		_, exists := in.Claims[name]
		template := templates[name]
		switch {
		case name == "":
		case exists:
			claim, readErr := objects.GetOrNil(ctx, o.Cache, types.NamespacedName{Namespace: namespace, Name: name}, &corev1.PersistentVolumeClaim{})
			if readErr != nil {
				return nil, readErr
			}
			if claim != nil && claim.Status.Phase == corev1.ClaimPending {
				check(claim.Spec.StorageClassName, at)
			}
		case template != nil:
			n.Awaited = append(n.Awaited, name)
			in.Claims[name] = pod.Claim{}
			check(classOfTemplate(template), at)
		}
	}
	if state := pod.StateClaim(in); state != nil {
		key := types.NamespacedName{Namespace: namespace, Name: state.Name}
		n.depends[dependency{kindClaim, key}] = true
		claim, readErr := objects.GetOrNil(ctx, o.Cache, key, &corev1.PersistentVolumeClaim{})
		if readErr != nil {
			return nil, readErr
		}
		if claim == nil {
			check(state.Spec.StorageClassName, field.NewPath("spec", "domain"))
		}
	}
	return errs, err
}

// classOfTemplate returns the StorageClass that a dataVolumeTemplate names, nil if it names none.
func classOfTemplate(template *v1.DataVolumeTemplateSpec) *string {
	switch {
	case template.Spec.PVC != nil:
		return template.Spec.PVC.StorageClassName
	case template.Spec.Storage != nil:
		return template.Spec.Storage.StorageClassName
	}
	return nil
}

// podSecurityAnnotations begin the annotations of pods that Pod Security judges.
var podSecurityAnnotations = []string{corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix, corev1.SeccompPodAnnotationKey,
	corev1.SeccompContainerAnnotationKeyPrefix}

// slimPod removes from a pod what no verdict depends on.
func slimPod(of *corev1.Pod) *corev1.Pod {
	of = of.DeepCopy()
	maps.DeleteFunc(of.Annotations, func(key, _ string) bool {
		for _, prefix := range podSecurityAnnotations {
			if strings.HasPrefix(key, prefix) {
				return false
			}
		}
		return true
	})
	of.Labels, of.OwnerReferences, of.Finalizers = nil, nil, nil
	for i := range of.Spec.Containers {
		c := &of.Spec.Containers[i]
		c.Command, c.Args, c.Env, c.VolumeMounts, c.VolumeDevices, c.LivenessProbe, c.ReadinessProbe = nil, nil, nil, nil, nil, nil, nil
	}
	return of
}
