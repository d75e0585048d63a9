package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/lifecycle/datavolumes"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/instancetype"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// volumeMaker makes the DataVolumes of spec.dataVolumeTemplates of one VM.
type volumeMaker struct {
	*Controller
	*state
}

// makeAll makes the DataVolumes that do not exist, and notes those for which the VM waits. As in KubeVirt, a halted VM has its DataVolumes, too. A VM whose
// instancetype or preference is inferred gets its DataVolumes before it is pinned: an import may bring the labels. During a restore it makes none, because
// template and claims may be of different versions.
func (m volumeMaker) makeAll(ctx context.Context) {
	c, s := m.Controller, m.state
	key := client.ObjectKeyFromObject(s.vm)
	var names, awaited []string
	if c.MakesDataVolumes && s.vm.Status.RestoreInProgress == nil {
		for i := range s.vm.Spec.DataVolumeTemplates {
			names = append(names, s.vm.Spec.DataVolumeTemplates[i].Name)
		}
	}
	for i, name := range names {
		found, err := m.ensureVolume(ctx, i, name)
		switch {
		case err != nil:
			m.noteError(err)
		case found.State == datavolumes.Ready:
			continue
		case s.vmi == nil || found.Reason == v1alpha1.ReasonFailedDataVolumeCreate:
			m.noteVerdict(found)
		}
		awaited = append(awaited, name)
	}
	c.awaitedVolumes.set(key, awaited)
	if len(awaited) > 0 && !c.watchesDataVolumes { // nothing else would reconcile the VM when CDI has filled a claim
		s.requeue(minRecheck)
	}
}

// noteVerdict notes why a DataVolume keeps the VM from its start. An error takes precedence over a wait.
func (m volumeMaker) noteVerdict(found datavolumes.Verdict) {
	s := m.state
	if found.State == datavolumes.Failed && s.failure == nil {
		s.setFailure(found.Reason, found.Message)
	}
	if s.awaitedVolume == nil || s.awaitedVolume.State < found.State {
		s.awaitedVolume = &found
	}
}

// noteError reports why a DataVolume could not be made. What was wrong before is reported first.
func (m volumeMaker) noteError(err error) {
	s := m.state
	switch {
	case s.retryable != nil:
		return
	case apierrors.IsConflict(err):
		s.retryable = err
		return
	case s.failure != nil:
		s.requeue(minRecheck)
		return
	}
	var refusal *datavolumes.Refusal
	if errors.As(err, &refusal) {
		s.setFailure(refusal.Reason, refusal.Message)
		return
	}
	m.handleError(s, v1alpha1.ReasonFailedDataVolumeCreate, err)
}

// ensureVolume judges the DataVolume or the claim of a template, the i-th of the VM. It makes the DataVolume if neither exists.
func (m volumeMaker) ensureVolume(ctx context.Context, i int, name string) (datavolumes.Verdict, error) {
	s := m.state
	if why := validation.IsDNS1123Subdomain(name); len(why) > 0 { // client-go would fail without a call
		return datavolumes.Verdict{}, &datavolumes.Refusal{Cause: dataVolumeCause("spec.dataVolumeTemplates[%d].metadata.name is '%.64s': %s", i, name, why[0])}
	}
	key := types.NamespacedName{Namespace: s.vm.Namespace, Name: name}
	volume, served, err := m.readVolume(ctx, key)
	if err != nil {
		return datavolumes.Verdict{}, err
	}
	if volume != nil {
		return datavolumes.Judge(volume, s.vm), nil
	}
	claim := &metav1.PartialObjectMetadata{}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	if claim, err = objects.GetOrNil(ctx, m.Client, key, claim); err != nil {
		return datavolumes.Verdict{}, err
	}
	switch {
	case claim != nil:
		return datavolumes.JudgeClaim(claim, s.vm, served), nil
	case !served:
		return datavolumes.Verdict{}, &datavolumes.Refusal{Cause: dataVolumeCause("spec.dataVolumeTemplates[%d]: there is no PersistentVolumeClaim '%s', and "+
			"nothing here that makes one of the template: install Containerized Data Importer (CDI), or create the claim", i, name)}
	case s.vm.Annotations[v1.ImmediateDataVolumeCreation] == "false" && s.nextAction() != actionStart:
		return datavolumes.Verdict{}, nil // KubeVirt's annotation: not before the start
	case s.vm.Spec.Preference != nil && s.pins.Preference == "" && s.vm.Spec.Preference.InferFromVolume == "":
		return waitingVerdict("DataVolume '%s' is made when the preference of the virtual machine exists, which may name its storage class", name), nil
	}
	return m.createVolume(ctx, key)
}

func dataVolumeCause(format string, a ...any) condition.Cause {
	return condition.Cause{Reason: v1alpha1.ReasonFailedDataVolumeCreate, Message: condition.OneLine(fmt.Sprintf(format, a...))}
}

func waitingVerdict(format string, a ...any) datavolumes.Verdict {
	return datavolumes.Verdict{State: datavolumes.Waiting, Cause: condition.Cause{Reason: v1alpha1.ReasonProvisioning, Message: fmt.Sprintf(format, a...)}}
}

// readVolume returns a DataVolume, nil if it does not exist, and whether the cluster serves DataVolumes. CDI may be installed after this process has
// started: then DataVolumes are read from the API server.
func (m volumeMaker) readVolume(ctx context.Context, key types.NamespacedName) (volume *cdi.DataVolume, served bool, err error) {
	reader := m.Live
	if m.watchesDataVolumes {
		reader = m.Client
	}
	volume, err = objects.GetOrNil(ctx, reader, key, &cdi.DataVolume{})
	if meta.IsNoMatchError(err) {
		return nil, false, nil
	}
	return volume, true, err
}

// createVolume makes the DataVolume of a template, after the API server was asked whether the VM may clone its source. It reads VM and claim from the API
// server: the template may have been edited since, and CDI must not fill a claim that its owner has just made.
func (m volumeMaker) createVolume(ctx context.Context, key types.NamespacedName) (datavolumes.Verdict, error) {
	c, s := m.Controller, m.state
	if err := c.readFullVM(ctx, s); err != nil {
		return datavolumes.Verdict{}, err
	}
	template, err := m.storedTemplate(ctx, key.Name)
	if err != nil || template == nil {
		return datavolumes.Verdict{}, err
	}
	claim, err := objects.GetOrNil(ctx, c.Live, key, &corev1.PersistentVolumeClaim{})
	if err != nil {
		return datavolumes.Verdict{}, err
	}
	if claim != nil {
		s.requeue(cacheRetry)
		return waitingVerdict("PersistentVolumeClaim '%s' is new", key.Name), nil
	}
	volume := datavolumes.New(s.vm, template)
	if err := (datavolumes.Authorizer{Live: c.Live}).Authorize(ctx, volume, datavolumes.Account(s.vm)); err != nil {
		return datavolumes.Verdict{}, err
	}
	switch err := c.Client.Create(ctx, volume); {
	case apierrors.IsAlreadyExists(err): // the cache does not have it yet, and the next reconcile finds whose it is
		s.requeue(cacheRetry)
	case err != nil:
		return datavolumes.Verdict{}, fmt.Errorf("creating DataVolume '%s': %w", key.Name, err)
	default:
		s.noteVMIEvent(v1alpha1.ReasonSuccessfulDataVolumeCreate, fmt.Sprintf("created DataVolume '%s'", key.Name))
	}
	return waitingVerdict("DataVolume '%s' is new: CDI has not begun to fill it", key.Name), nil
}

// storedTemplate returns a copy of a template of the full VM, with the storage class that the preference of the VM prefers; nil if the VM has no such template.
func (m volumeMaker) storedTemplate(ctx context.Context, name string) (*v1.DataVolumeTemplateSpec, error) {
	c, s := m.Controller, m.state
	for i := range s.vm.Spec.DataVolumeTemplates {
		if s.vm.Spec.DataVolumeTemplates[i].Name != name {
			continue
		}
		found := []v1.DataVolumeTemplateSpec{*s.vm.Spec.DataVolumeTemplates[i].DeepCopy()}
		if s.vm.Spec.Preference != nil {
			resolver := c.resolver()
			resolver.Rights = resolve.RecordedRights(s.vm)
			resolved, err := resolver.VM(ctx, s.vm, s.vm)
			if err != nil {
				return nil, err
			}
			instancetype.PreferVolumes(resolved.Set, found)
		}
		return &found[0], nil
	}
	return nil, nil
}
