package repin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/kilnvm/kiln/pkg/record"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A run of a plan keeps no record: the pins of a VM say whether its item is done. So a run that was killed is continued by the same command, by anybody who has
// the plan. A VM with pins gets the pins of the plan or none: if the cluster would pin it to anything else, it is left as it is. A VM without pins boots what
// is current, and is pinned to that by any write.

// PlanRun repins the VMs of a plan.
type PlanRun struct {
	Cluster client.Client
	Bench   *workbench.Bench
	// Only are the verdicts of the VMs that are repinned.
	Only []rehearsal.Verdict
	// Max is the maximal number of VMs that are repinned by one run; 0 for all.
	Max int
	// Wait is how long the run waits for the controllers to see the new pins of a VM; 0 for not at all.
	Wait time.Duration
	// StopOnDifference ends the run at the first VM or guest that is not what was rehearsed. Otherwise the VM is skipped.
	StopOnDifference bool
	// DryRun sends only dry runs.
	DryRun bool
	// Poll is the time between two reads while the run waits.
	Poll time.Duration
	// Report is called with the outcome of each VM that the run has looked at.
	Report func(Outcome)
}

// Actions are the outcomes for a VM.
const (
	// Repinned: the VM has the pins of the plan, by this run.
	ActionRepinned = "repinned"
	// Already: the VM had the pins of the plan before.
	ActionAlready = "already repinned"
	// Skipped: the VM is gone, or was edited or repinned by others since the rehearsal.
	ActionSkipped = "skipped"
	// Refused: the API server refuses the new pins.
	ActionRefused = "refused"
	// Differs: the cluster would pin the VM to something else than was rehearsed, or its guest is not what was rehearsed.
	ActionDiffers = "differs"
)

// Outcome is what a run did to one VM.
type Outcome struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Verdict   rehearsal.Verdict `json:"verdict"`
	Action    string            `json:"action"`
	Reason    string            `json:"reason,omitempty"`
}

// Planned is the result of a run of a plan.
type Planned struct {
	DryRun bool `json:"dryRun"`
	// Counts are the numbers of VMs by action. Left is the number of VMs with a wanted verdict that the run has not looked at.
	Counts map[string]int `json:"counts"`
	Left   int            `json:"left"`
	// Halted reports that the run ended at a difference.
	Halted   bool      `json:"halted"`
	Outcomes []Outcome `json:"virtualMachines"`
}

// ErrDiffers is the error of a run that found a difference from the rehearsal.
var ErrDiffers = errors.New("the cluster differs from the rehearsal")

// Run follows a plan, in its order. An error is a fault of the cluster: the same run may be started again.
func (p *PlanRun) Run(ctx context.Context, plan rehearsal.Plan) (Planned, error) {
	done := Planned{DryRun: p.DryRun, Counts: map[string]int{}, Outcomes: []Outcome{}}
	var written []rehearsal.PlanItem
	var wanted []rehearsal.PlanItem
	for _, item := range plan.Items {
		if slices.Contains(p.Only, item.Verdict) {
			wanted = append(wanted, item)
		}
	}
	note := func(item rehearsal.PlanItem, action, reason string) {
		one := Outcome{item.Namespace, item.Name, item.Verdict, action, reason}
		done.Counts[action]++
		done.Outcomes = append(done.Outcomes, one)
		if p.Report != nil {
			p.Report(one)
		}
		done.Halted = done.Halted || action == ActionDiffers && p.StopOnDifference
	}
	for i, item := range wanted {
		if done.Left = len(wanted) - i; done.Halted || p.Max > 0 && done.Counts[ActionRepinned] == p.Max {
			break
		}
		if len(written) > 0 { // what KubeVirt says of the VM before comes some time after the write
			last := written[len(written)-1]
			if reason, err := p.observe(ctx, last); err != nil {
				return done, err
			} else if reason != "" {
				written = written[:len(written)-1]
				note(last, ActionDiffers, reason)
				if done.Halted {
					break
				}
			}
		}
		action, reason, err := p.repinItem(ctx, item)
		if err != nil {
			return done, fmt.Errorf("%s/%s: %w", item.Namespace, item.Name, err)
		}
		note(item, action, reason)
		if action == ActionRepinned && !p.DryRun {
			written = append(written, item)
		}
		done.Left = len(wanted) - i - 1
	}
	for _, item := range written {
		reason, err := p.observe(ctx, item)
		if err != nil {
			return done, fmt.Errorf("%s/%s: %w", item.Namespace, item.Name, err)
		}
		if reason != "" {
			note(item, ActionDiffers, reason)
		}
	}
	return done, nil
}

// repinItem repins one VM, unless it differs from what was rehearsed.
func (p *PlanRun) repinItem(ctx context.Context, item rehearsal.PlanItem) (action, reason string, err error) {
	for range maxConflicts {
		if action, reason, err = p.tryItem(ctx, item); !apierrors.IsConflict(err) {
			break
		}
	}
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err) && strings.Contains(err.Error(), "admission webhook"): // not a missing right of the user
		return ActionRefused, err.Error(), nil
	case apierrors.IsNotFound(err):
		return ActionSkipped, "it no longer exists", nil
	case err != nil || action != ActionRepinned || p.DryRun:
		return action, reason, err
	}
	if err := p.settle(ctx, item); err != nil {
		return "", "", err
	}
	return action, reason, nil
}

// maxConflicts is how often a VM is tried that others write at the same time.
const maxConflicts = 5

// tryItem reads a VM, and repins it if it is what was rehearsed.
func (p *PlanRun) tryItem(ctx context.Context, item rehearsal.PlanItem) (action, reason string, err error) {
	vm, err := p.readVM(ctx, item)
	if err != nil {
		return "", "", err
	}
	if string(vm.GetUID()) != item.UID {
		return ActionSkipped, "it is another VM of this name, created since the rehearsal", nil
	}
	pins := pin.Read(vm)
	if samePins(pins, item.To) {
		missing, err := p.missingRevisions(ctx, item)
		if err != nil {
			return "", "", err
		}
		if len(missing) == 0 {
			if reason, err := p.observe(ctx, item); err != nil || reason != "" {
				return ActionDiffers, reason, err
			}
			return ActionAlready, "", nil
		}
	} else if !samePins(pins, item.From) {
		return ActionSkipped, "its pins were changed since the rehearsal: rehearse again", nil
	}
	if rehearsal.ContentOfVM(vm) != item.Content {
		return ActionSkipped, "it was edited since the rehearsal: rehearse again", nil
	}
	planned, err := Repin(ctx, p.Cluster, vm, nil, client.DryRunAll)
	if err != nil {
		return "", "", err
	}
	if would := pin.Read(planned); !samePins(would, item.To) {
		return ActionDiffers, "the cluster would pin it to " + describePins(would, item.To) + ": the changes are not made as they were rehearsed", nil
	}
	if p.DryRun {
		return ActionRepinned, "", nil
	}
	write := p.writePins
	// If an earlier run wrote the pins while no webhook answered, only a request has the revisions written. A VM without pins boots what is current, and any
	// write pins it to that. If an edit came after the dry run, names would be lost pins for it.
	if samePins(pins, item.To) || samePins(pins, v1alpha1.Pins{}) {
		write = func(ctx context.Context, vm *unstructured.Unstructured, _ v1alpha1.Pins) (*unstructured.Unstructured, error) {
			return Repin(ctx, p.Cluster, vm, nil)
		}
	}
	stored, err := write(ctx, vm, item.To)
	if err != nil {
		return "", "", err
	}
	if is := pin.Read(stored); !samePins(is, item.To) {
		return ActionDiffers, "it is pinned to " + describePins(is, item.To), nil
	}
	missing, err := p.missingRevisions(ctx, item)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("no webhook has written the revisions %s: run again when Kiln's webhook answers", strings.Join(missing, ", "))
	}
	return ActionRepinned, "", err
}

func (p *PlanRun) readVM(ctx context.Context, item rehearsal.PlanItem) (*unstructured.Unstructured, error) {
	vm := &unstructured.Unstructured{}
	vm.SetGroupVersionKind(v1.VirtualMachineGroupVersionKind)
	err := p.Cluster.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: item.Name}, vm)
	return vm, err
}

// writePins writes the pins of a VM by name, and does not only request them: admission refuses names that are not current by now. It fails with a conflict
// if the VM has changed since it was read.
func (p *PlanRun) writePins(ctx context.Context, before *unstructured.Unstructured, pins v1alpha1.Pins) (*unstructured.Unstructured, error) {
	after := before.DeepCopy()
	if pins.Presets == nil { // a key that is absent keeps the presets of before
		pins.Presets = []string{}
	}
	pin.Write(after, pins)
	return after, p.Cluster.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// missingRevisions returns the revisions of the plan that the namespace of a VM does not have.
func (p *PlanRun) missingRevisions(ctx context.Context, item rehearsal.PlanItem) (missing []string, err error) {
	for _, name := range namesOf(item.To) {
		err := p.Cluster.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: name}, &appsv1.ControllerRevision{})
		if apierrors.IsNotFound(err) {
			missing = append(missing, name)
		} else if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// samePins reports whether two pins name the same revisions. Admission pins to no presets and profiles by leaving them out, and Kiln's controller then writes
// empty lists.
func samePins(a, b v1alpha1.Pins) bool {
	return a.Instancetype == b.Instancetype && a.Preference == b.Preference && a.Configuration == b.Configuration && slices.Equal(a.Presets, b.Presets) &&
		slices.Equal(a.Profiles, b.Profiles) && slices.Equal(a.Bases, b.Bases)
}

// namesOf returns the names of the revisions of pins.
func namesOf(pins v1alpha1.Pins) []string {
	all := slices.Concat([]string{pins.Instancetype, pins.Preference, pins.Configuration}, pins.Presets, pins.Profiles, pins.Bases)
	return slices.DeleteFunc(all, func(name string) bool { return name == "" || name == v1alpha1.PinNone })
}

// describePins names the revisions that differ from the wanted ones.
func describePins(is, want v1alpha1.Pins) string {
	var differ []string
	for _, name := range namesOf(is) {
		if !slices.Contains(namesOf(want), name) {
			differ = append(differ, name)
		}
	}
	for _, name := range namesOf(want) {
		if !slices.Contains(namesOf(is), name) {
			differ = append(differ, "not "+name)
		}
	}
	return strings.Join(differ, ", ")
}

// settle waits until the status of a VM that KubeVirt runs names the new pins, for Wait at most.
func (p *PlanRun) settle(ctx context.Context, item rehearsal.PlanItem) error {
	if p.Wait == 0 {
		return nil
	}
	configuration, _, err := p.Bench.Configuration(ctx, manifest.Inputs{Reader: p.Cluster, OfCluster: true})
	if err != nil || !configuration.Limits.KubeVirtGuests {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, p.Poll, p.Wait, true, func(ctx context.Context) (bool, error) {
		read, err := p.readVM(ctx, item)
		if err != nil {
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		vm := &v1.VirtualMachine{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, vm); err != nil {
			return false, err
		}
		status, pins := resolve.StatusPins(vm), pin.Read(vm)
		return (vm.Spec.Instancetype == nil || status.Instancetype == pins.Instancetype) &&
			(vm.Spec.Preference == nil || status.Preference == pins.Preference), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("its status does not name the new pins after %s: does Kiln's controller run? Run again to continue", p.Wait)
	}
	return err
}

// observe returns how a repinned VM or its guest differs from the rehearsal; empty if it does not, or if that is not known yet.
func (p *PlanRun) observe(ctx context.Context, item rehearsal.PlanItem) (string, error) {
	read, err := p.readVM(ctx, item)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	vm := &v1.VirtualMachine{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, vm); err != nil {
		return "", err
	}
	if rehearsal.ContentOfVM(read) != item.Content || !samePins(pin.Read(vm), item.To) {
		return "", nil // others have changed it since, and it boots something else
	}
	if item.Verdict == rehearsal.Same || item.Verdict == rehearsal.Live {
		for _, c := range vm.Status.Conditions {
			if c.Type == v1.VirtualMachineRestartRequired && c.Status == corev1.ConditionTrue {
				return fmt.Sprintf("it asks for a restart, and '%s' was rehearsed: %s", item.Verdict, c.Message), nil
			}
		}
	}
	return p.observeGuest(ctx, item, vm, read)
}

// otherHardware begins the reason of a guest that has booted with other hardware than its pins mean.
const otherHardware = "its guest has booted with other hardware than was rehearsed: at the next boot "

// observeGuest compares the recorded hardware of a guest that has booted with the new pins with what these pins mean.
func (p *PlanRun) observeGuest(ctx context.Context, item rehearsal.PlanItem, vm *v1.VirtualMachine, read *unstructured.Unstructured) (string, error) {
	key := client.ObjectKeyFromObject(vm)
	var vmi v1.VirtualMachineInstance
	var hardware v1alpha1.GuestHardware
	if err := p.Cluster.Get(ctx, key, &vmi); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if !samePins(pin.Read(&vmi), item.To) || !metav1.IsControlledBy(&vmi, vm) {
		return "", nil // it runs with the pins of before
	}
	if err := p.Cluster.Get(ctx, key, &hardware); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if boot := hardware.Status.LastBoot; boot == nil || boot.UID != vmi.UID || hardware.Spec.Hardware == nil {
		return "", nil
	}
	all, err := p.Bench.Review(ctx, manifest.Inputs{Named: []manifest.Object{manifest.Stored(read)}, Reader: p.Cluster, OfCluster: true}, nil)
	if err != nil {
		return "", err
	}
	if len(all.Objects) != 1 || all.Objects[0].Fault != nil || !all.Objects[0].Verdict.Allowed() || all.Objects[0].Guest.Booted == nil {
		return "its guest runs, and its VM can no longer be reviewed", nil
	}
	kubeVirts := all.Objects[0].Guest.Input.Cluster.Limits.KubeVirtGuests
	if r := hardware.Spec.Hardware; kubeVirts && (r.Machine == "" || len(r.Devices) == 0) {
		return "", nil // the record of a guest of KubeVirt may have only a CPU, and gets its machine later
	}
	d, err := guestdiff.CompareRecord(ctx, p.Bench, guestdiff.Side{Reviewed: all.Objects[0]})
	if err != nil {
		return "the hardware of its guest cannot be compared: " + err.Error(), nil //nolint:nilerr // the run goes on, and its reader decides
	}
	switch {
	case len(d.Changes) > 0:
		return otherHardware + d.Changes[0].Text, nil
	case d.Verdict == record.NeedsRestart && !kubeVirts: // what the digest covers is KubeVirt's
		return otherHardware + d.Unknown, nil
	}
	return "", nil
}
