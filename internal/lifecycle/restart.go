package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An edit of a VM changes the running VMI as far as possible (live.go). Condition RestartRequired of the VM says which changes wait for a restart, and what
// they mean for the hardware that the guest sees. With annotation 'kilnvm.io/rollout: restart' the controller restarts the VM.

// pendingEdit is what a restart would change. The zero value means that a restart would change nothing.
type pendingEdit struct {
	// message is the message of condition RestartRequired.
	message string
	// restartable reports that the VM can be restarted, as far as the cluster can tell.
	restartable bool
}

// vmEdited reports whether spec or pins of the VM have changed since its VMI was made from them. It returns false if the VMI does not name the generation that
// it was made from.
func (s *state) vmEdited() bool {
	made := s.vmiGeneration()
	return s.hasLiveVMI() && made > 0 && (made != s.vm.Generation || s.vmi.Annotations[v1alpha1.AnnotationPins] != s.vm.Annotations[v1alpha1.AnnotationPins])
}

// findPendingEdit sets what a restart of an edited VM would change. If it cannot find out, condition RestartRequired stays as it is until the next attempt.
func (c *Controller) findPendingEdit(ctx context.Context, s *state) {
	key := client.ObjectKeyFromObject(s.vm)
	if !s.vmEdited() {
		c.comparisons.forget(key)
		return
	}
	edit := c.comparedEditOf(s)
	if result, found := c.comparisons.findResult(key, edit); found {
		s.pending = result
		return
	}
	result, err := c.computePendingEdit(ctx, s)
	switch {
	case needsCorrection(err):
		result = impossibleRestart(err.Error())
	case err != nil:
		s.retryable, s.pendingUnknown = cmp.Or(s.retryable, err), true
		return
	}
	result.message = condition.Message(result.message)
	s.pending = result
	if result.message != "" && !result.restartable { // what is missing may be created, which is no event of the VM
		s.requeue(maxRecheck)
		return
	}
	c.comparisons.keepResult(key, edit, result)
}

// computePendingEdit compares the running VMI with the VMI that a start would create, and writes the changes that need no restart.
func (c *Controller) computePendingEdit(ctx context.Context, s *state) (pendingEdit, error) {
	if err := c.readFullVM(ctx, s); err != nil {
		return pendingEdit{}, err
	}
	running, err := objects.GetOrNil(ctx, c.Live, client.ObjectKeyFromObject(s.vm), &v1.VirtualMachineInstance{})
	if err != nil || running == nil || running.UID != s.vmi.UID {
		return pendingEdit{}, err // it is gone, and its event will arrive
	}
	next, err := c.nextVMI(ctx, s)
	if err != nil {
		return pendingEdit{}, err
	}
	if digest := next.Annotations[v1alpha1.AnnotationTemplateDigest]; digest == running.Annotations[v1alpha1.AnnotationTemplateDigest] {
		c.noteWithoutEffect(s, running)
		return pendingEdit{}, nil // the VM requires what it required then, whatever webhooks and later versions of Kiln make of it
	}
	if err := c.admitByDryRun(ctx, s, next); err != nil {
		return pendingEdit{}, err
	}
	c.noteWithoutEffect(s, next)
	next.Spec.StartStrategy = running.Spec.StartStrategy // a request to start may have set it
	live, err := c.vmiWithLiveChanges(ctx, s, vmiChange{running: running, next: next})
	if err != nil {
		return pendingEdit{}, err
	}
	changed := validate.ChangedFields(next.Spec, live.Spec)
	if !containsAll(running.Labels, next.Labels) || !containsAll(running.Annotations, templateAnnotations(next.Annotations)) {
		changed = append(changed, "metadata")
	}
	if err := c.patchRunningVMI(ctx, vmiChange{running, live, next}, changed); err != nil || len(changed) == 0 {
		return pendingEdit{}, err
	}
	hardware, errs, err := c.describeHardwareChange(ctx, s.vm, live, next)
	if err != nil {
		return pendingEdit{}, err
	}
	if len(errs) > 0 {
		return impossibleRestart(condition.Mistakes(errs)), nil
	}
	return pendingEdit{restartable: true, message: fmt.Sprintf("changes of %s take effect when the virtual machine is restarted; %s",
		strings.Join(changed, ", "), hardware)}, nil
}

func impossibleRestart(why string) pendingEdit {
	return pendingEdit{message: "the virtual machine cannot be started as it is now: " + why}
}

// admitByDryRun replaces a VMI by what the API server and all webhooks make of it in a dry run. Only they know that, and only if they answer can the VM be
// started again. The dry run uses another name, because the name of the VM is taken.
func (c *Controller) admitByDryRun(ctx context.Context, s *state, vmi *v1.VirtualMachineInstance) error {
	vmi.Name = "restart-" + string(s.vm.UID)
	if err := c.Live.Create(ctx, vmi, client.DryRunAll); err != nil {
		return err
	}
	vmi.Name, vmi.UID = s.vm.Name, s.vmi.UID // without another seed, the identity is derived from the UID
	return nil
}

// describeHardwareChange says what the edit means for the hardware that the guest sees: the verdict of 'kubectl kiln diff' and the changes that lead to it.
// Both VMIs are rendered for the same assumed host, with the record of the VM. errs says why the hardware of the next VMI cannot be rendered.
func (c *Controller) describeHardwareChange(
	ctx context.Context, vm *v1.VirtualMachine, running, next *v1.VirtualMachineInstance,
) (text string, errs field.ErrorList, err error) {
	hardware, err := ownership.ReadHardware(ctx, c.Live, client.ObjectKeyFromObject(vm))
	if err != nil {
		return "", nil, err
	}
	m := render.Machine{Defaults: c.clusterConfig().Frontend}
	if ownership.GuestOf(vm).Ownership(hardware) == ownership.Own && record.Check(hardware.Spec.Hardware) == nil {
		m.Frozen = hardware.Spec.Hardware
		if hardware.Status.Guest != nil && config.CheckFrontend(hardware.Status.Guest.Frontend) == nil {
			m.Defaults = m.Defaults.With(hardware.Status.Guest.Frontend)
		}
	}
	before, errs := renderOnAssumedHost(m, running)
	if len(errs) > 0 { // the guest runs, so only the assumed host differs from its host
		return "the hardware cannot be compared: " + condition.Mistakes(errs), nil, nil
	}
	if m.Frozen = &before.Record; vm.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		m.Frozen = nil
	}
	after, errs := renderOnAssumedHost(m, next)
	if len(errs) > 0 {
		return "", errs, nil
	}
	changes := abi.Compare(before.Frontend, after.Frontend)
	slices.SortStableFunc(changes, func(a, b record.Change) int { return cmp.Compare(breakingRank(b), breakingRank(a)) })
	text, separator := "verdict on the hardware: "+string(record.Judge(changes)), ": "
	for _, change := range changes {
		text, separator = text+separator+change.Text, "; "
	}
	return text, nil, nil
}

func (c *Controller) clusterConfig() config.Cluster {
	if c.Configuration == nil {
		return config.Default()
	}
	return c.Configuration()
}

// breakingRank sorts changes that break the hardware first.
func breakingRank(change record.Change) int {
	if change.Verdict == record.Breaks {
		return 1
	}
	return 0
}

// renderOnAssumedHost renders the hardware of a VMI (stage 2) on an assumed host.
func renderOnAssumedHost(m render.Machine, vmi *v1.VirtualMachineInstance) (render.Hardware, field.ErrorList) {
	m.VMI, m.Host, m.Bindings = vmi, backend.Assumed(vmi.Spec.Architecture), backend.AssumedBindings(vmi)
	return render.FromFacts(m, render.Facts(m))
}

// templateAnnotations returns the annotations of a VMI that come from the template of its VM.
func templateAnnotations(all map[string]string) map[string]string {
	own := map[string]string{}
	for key, value := range all {
		if !strings.HasPrefix(key, v1alpha1.Prefix) && key != v1.VirtualMachineGenerationAnnotation {
			own[key] = value
		}
	}
	return own
}

// containsAll reports whether a map contains all keys of another one, with the same values.
func containsAll(all, some map[string]string) bool {
	for key, value := range some {
		if found, has := all[key]; !has || found != value {
			return false
		}
	}
	return true
}

// needsRolloutRestart reports whether the controller is to restart the VM for an edit. It restarts each VMI only once, because the next VMI is made from the
// current VM.
func (s *state) needsRolloutRestart() bool {
	return s.vm.Annotations[v1alpha1.AnnotationRollout] == v1alpha1.RolloutRestart && s.pending.restartable && s.acceptsRequests() &&
		s.strategy != v1.RunStrategyHalted && s.nextAction() == actionNone && s.vm.DeletionTimestamp == nil
}

// restartRequests returns the requests that KubeVirt's subresource 'restart' writes. With run strategy Always, the stop is sufficient.
func (s *state) restartRequests() []v1.VirtualMachineStateChangeRequest {
	requests := []v1.VirtualMachineStateChangeRequest{{Action: v1.StopRequest, UID: &s.vmi.UID}}
	if s.strategy != v1.RunStrategyAlways {
		requests = append(requests, v1.VirtualMachineStateChangeRequest{Action: v1.StartRequest})
	}
	return requests
}

// comparedEdit identifies a VM and a VMI that were compared. Each content of either has its own comparedEdit, so that one comparison serves all reconciles.
type comparedEdit struct {
	vm, vmi    types.UID
	generation int64
	// pins, hardware and identity are annotations of the VM, which do not change its generation.
	pins, hardware, identity string
	// live reports whether the guest could be changed while it runs: that depends on the phase of the VMI and on the configuration.
	live bool
}

func (c *Controller) comparedEditOf(s *state) comparedEdit {
	annotations := s.vm.Annotations
	return comparedEdit{s.vm.UID, s.vmi.UID, s.vm.Generation,
		annotations[v1alpha1.AnnotationPins], annotations[v1alpha1.AnnotationHardware], annotations[v1alpha1.AnnotationIdentity],
		c.canChangeLive(s)}
}

// comparisons contains the result of the last comparison of each edited VM. The zero value is ready to use.
type comparisons struct{ results sync.Map }

type comparison struct {
	edit   comparedEdit
	result pendingEdit
}

func (m *comparisons) findResult(key types.NamespacedName, edit comparedEdit) (pendingEdit, bool) {
	last, _ := m.results.Load(key)
	known, found := last.(comparison)
	return known.result, found && known.edit == edit
}

func (m *comparisons) keepResult(key types.NamespacedName, edit comparedEdit, result pendingEdit) {
	m.results.Store(key, comparison{edit, result})
}

func (m *comparisons) forget(key types.NamespacedName) { m.results.Delete(key) }
