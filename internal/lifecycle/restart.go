package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An edit of a VM changes of its VMI what the guest gets while it runs (live.go). Condition RestartRequired of the VM says what else waits for a restart, and
// what that means for the hardware that the guest sees. With annotation kilnvm.io/rollout: restart the controller restarts the VM.

// pendingEdit is what a restart would change. Its zero value is nothing.
type pendingEdit struct {
	// message is that of condition RestartRequired.
	message string
	// possible reports that the VM can be restarted, as far as the cluster can tell.
	possible bool
}

// edited reports whether spec or pins of the VM are others than those that its VMI was made from. A VMI that does not say so is left alone.
func (s *state) edited() bool {
	made := s.madeFrom()
	return s.live() && made > 0 && (made != s.vm.Generation || s.vmi.Annotations[v1alpha1.AnnotationPins] != s.vm.Annotations[v1alpha1.AnnotationPins])
}

// compare finds out what a restart of an edited VM would change. If it cannot, the VM's condition stays as it is until the next attempt.
func (c *Controller) compare(ctx context.Context, s *state) {
	key := client.ObjectKeyFromObject(s.vm)
	if !s.edited() {
		c.compared.forget(key)
		return
	}
	of := c.editOf(s)
	if result, found := c.compared.find(key, of); found {
		s.pending = result
		return
	}
	result, err := c.pendingEdit(ctx, s)
	switch {
	case needsHands(err):
		result = impossible(err.Error())
	case err != nil:
		s.retryable, s.pendingUnknown = cmp.Or(s.retryable, err), true
		return
	}
	result.message = condition.Message(result.message)
	s.pending = result
	if result.message != "" && !result.possible { // what is missing may come, and brings no event of the VM
		s.requeue(maxRecheck)
		return
	}
	c.compared.keep(key, of, result)
}

// pendingEdit compares the VMI with the one that a start would make.
func (c *Controller) pendingEdit(ctx context.Context, s *state) (pendingEdit, error) {
	if err := c.readWhole(ctx, s); err != nil {
		return pendingEdit{}, err
	}
	runs, err := getVMI(ctx, c.Live, client.ObjectKeyFromObject(s.vm))
	if err != nil || runs == nil || runs.UID != s.vmi.UID {
		return pendingEdit{}, err // it is gone, and its event is on its way
	}
	next, err := c.nextVMI(ctx, s)
	if err != nil {
		return pendingEdit{}, err
	}
	if digest := next.Annotations[v1alpha1.AnnotationTemplateDigest]; digest == runs.Annotations[v1alpha1.AnnotationTemplateDigest] {
		return pendingEdit{}, nil // the VM asks for what it asked for then, whatever webhooks and later versions of Kiln make of that
	}
	if err := c.admitted(ctx, s, next); err != nil {
		return pendingEdit{}, err
	}
	next.Spec.StartStrategy = runs.Spec.StartStrategy // a request to start may have set it
	live, err := c.liveVMI(ctx, s, vmiChange{runs: runs, next: next})
	if err != nil {
		return pendingEdit{}, err
	}
	changed := validate.ChangedFields(next.Spec, live.Spec)
	if !hasAll(runs.Labels, next.Labels) || !hasAll(runs.Annotations, templateAnnotations(next.Annotations)) {
		changed = append(changed, "metadata")
	}
	if err := c.changeLive(ctx, vmiChange{runs, live, next}, changed); err != nil || len(changed) == 0 {
		return pendingEdit{}, err
	}
	hardware, errs, err := c.hardwareChange(ctx, s.vm, live, next)
	if err != nil {
		return pendingEdit{}, err
	}
	if len(errs) > 0 {
		return impossible(condition.Mistakes(errs)), nil
	}
	return pendingEdit{possible: true, message: fmt.Sprintf("changes of %s take effect when the virtual machine is restarted; %s",
		strings.Join(changed, ", "), hardware)}, nil
}

func impossible(why string) pendingEdit {
	return pendingEdit{message: "the virtual machine cannot be started as it is now: " + why}
}

// admitted makes a VMI what the API server and all webhooks make of it, by a dry run: only they know, and only if they answer can a VM be started again. The
// dry run has another name, since that of the VM is taken.
func (c *Controller) admitted(ctx context.Context, s *state, vmi *v1.VirtualMachineInstance) error {
	vmi.Name = "restart-" + string(s.vm.UID)
	if err := c.Live.Create(ctx, vmi, client.DryRunAll); err != nil {
		return err
	}
	vmi.Name, vmi.UID = s.vm.Name, s.vmi.UID // the UID is a seed of the identity where there is no other
	return nil
}

// hardwareChange says what the edit means for the hardware that the guest sees: the verdict of 'kubectl kiln diff', and what leads to it. Both VMIs are
// rendered for one assumed host, with the record of the VM. errs are why the hardware of the next VMI cannot be made.
func (c *Controller) hardwareChange(
	ctx context.Context, vm *v1.VirtualMachine, runs, next *v1.VirtualMachineInstance,
) (text string, errs field.ErrorList, err error) {
	hardware, err := Hardware(ctx, c.Live, client.ObjectKeyFromObject(vm))
	if err != nil {
		return "", nil, err
	}
	m := render.Machine{Defaults: c.cluster().Frontend}
	if ownership.GuestOf(vm).Ownership(hardware) == ownership.Own && record.Check(hardware.Spec.Hardware) == nil {
		m.Frozen = hardware.Spec.Hardware
		if hardware.Status.Guest != nil && config.CheckFrontend(hardware.Status.Guest.Frontend) == nil {
			m.Defaults = m.Defaults.With(hardware.Status.Guest.Frontend)
		}
	}
	before, errs := seen(m, runs)
	if len(errs) > 0 { // it runs: the assumed host is not like that of the guest
		return "the hardware cannot be compared: " + condition.Mistakes(errs), nil, nil
	}
	if m.Frozen = &before.Record; vm.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		m.Frozen = nil
	}
	after, errs := seen(m, next)
	if len(errs) > 0 {
		return "", errs, nil
	}
	changes := abi.Compare(before.Frontend, after.Frontend)
	slices.SortStableFunc(changes, func(a, b record.Change) int { return cmp.Compare(rank(b), rank(a)) })
	text, separator := "verdict on the hardware: "+string(record.Judge(changes)), ": "
	for _, change := range changes {
		text, separator = text+separator+change.Text, "; "
	}
	return text, nil, nil
}

func (c *Controller) cluster() config.Cluster {
	if c.Configuration == nil {
		return config.Default()
	}
	return c.Configuration()
}

// rank puts what breaks the hardware first.
func rank(change record.Change) int {
	if change.Verdict == record.Breaks {
		return 1
	}
	return 0
}

// seen runs stage 2 for a VMI on an assumed host.
func seen(m render.Machine, vmi *v1.VirtualMachineInstance) (render.Hardware, field.ErrorList) {
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

// hasAll reports whether a map has all that another one has.
func hasAll(all, some map[string]string) bool {
	for key, value := range some {
		if found, has := all[key]; !has || found != value {
			return false
		}
	}
	return true
}

// rollsOut reports whether the controller is to restart the VM for an edit. It asks for that once for each VMI: the next one is made from the VM as it is.
func (s *state) rollsOut() bool {
	return s.vm.Annotations[v1alpha1.AnnotationRollout] == v1alpha1.RolloutRestart && s.pending.possible && s.takesRequests() &&
		s.strategy != v1.RunStrategyHalted && s.nextAction() == none && s.vm.DeletionTimestamp == nil
}

// restart are the requests of KubeVirt's subresource 'restart'. With Always the stop alone suffices.
func (s *state) restart() []v1.VirtualMachineStateChangeRequest {
	requests := []v1.VirtualMachineStateChangeRequest{{Action: v1.StopRequest, UID: &s.vmi.UID}}
	if s.strategy != v1.RunStrategyAlways {
		requests = append(requests, v1.VirtualMachineStateChangeRequest{Action: v1.StartRequest})
	}
	return requests
}
