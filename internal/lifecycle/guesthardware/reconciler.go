// Package guesthardware assigns GuestHardware objects to guests, counts boots, verifies CPUs, and deletes GuestHardware objects after their guests.
package guesthardware

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Reconciler assigns a GuestHardware to each VMI that a launcher has claimed, counts its boots, and deletes the GuestHardware after its guest. The
// launcher writes spec.hardware once for each start, and starts no guest before the assignment. So every guest that has run has a record, whichever process
// dies.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server: two guests of one name may follow each other faster than the cache is updated.
	Live   client.Client
	Events events.EventRecorder
	Now    func() time.Time
	// Frontend returns the FrontendProfile that a VMI starts with, nil without one.
	Frontend func(context.Context, *v1.VirtualMachineInstance) (*v1alpha1.Frontend, error)

	settled   settledInputs
	lastBoots lastBootHardware
}

// conflictRetry is the time after which a reconcile with a conflict is repeated. The event of the other write may have arrived already.
const conflictRetry = 50 * time.Millisecond

// Register adds the controller to a manager.
func (r *Reconciler) Register(mgr ctrl.Manager, options controller.Options) error {
	byName := &handler.EnqueueRequestForObject{}
	return ctrl.NewControllerManagedBy(mgr).Named("guesthardware").
		For(&v1.VirtualMachineInstance{}).Watches(&v1.VirtualMachine{}, byName).
		// Only metadata: a record has several KiB, and is read when a guest starts.
		WatchesMetadata(&v1alpha1.GuestHardware{}, byName).
		WithOptions(options).Complete(r)
}

// Reconcile brings the GuestHardware of a name one step closer to its VM and VMI.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := r.reconcileHardware(ctx, request.NamespacedName)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) reconcileHardware(ctx context.Context, key types.NamespacedName) error {
	o, err := r.readVMAndVMI(ctx, key)
	if err != nil {
		return err
	}
	in, err := r.readInputs(ctx, key, o)
	if err != nil || r.settled.isSettled(key, in) {
		return err
	}
	if in.hardware == "" && (o.vmi == nil || !o.launcherMayStart()) {
		// Nothing to assign or to delete: the event of a GuestHardware that the cache does not have yet reconciles the name again.
		r.settled.add(key, hardwareInputs{})
		return nil
	}
	o.hardware, err = ownership.ReadHardware(ctx, r.Live, key)
	if err != nil {
		return err
	}
	switch {
	case o.vmi != nil && o.launcherMayStart() && !o.isAssigned():
		return r.assignHardware(ctx, o)
	case o.bootUncounted():
		return r.countBoot(ctx, o)
	case o.identityEdited():
		return r.updateIdentity(ctx, o)
	case o.hardware != nil && !o.inUse():
		return r.deleteOrphanedHardware(ctx, o)
	}
	if verified, difference := o.verifyCPU(); verified != nil {
		return r.saveVerified(ctx, o, verified)
	} else if difference != "" {
		r.Events.Eventf(o.guestObject(), nil, corev1.EventTypeWarning, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s",
			condition.Note("libvirt runs the guest with another CPU than the recorded one: "+difference))
	}
	r.settled.add(key, in)
	return nil
}

// readVMAndVMI returns the VM and VMI of a name from the cache; nil for one that does not exist.
func (r *Reconciler) readVMAndVMI(ctx context.Context, key types.NamespacedName) (o guestObjects, err error) {
	if o.vm, err = objects.GetOrNil(ctx, r.Client, key, &v1.VirtualMachine{}); err != nil {
		return o, err
	}
	o.vmi, err = objects.GetOrNil(ctx, r.Client, key, &v1.VirtualMachineInstance{})
	return o, err
}

// hardwareInputs contains everything that a reconcile depends on.
type hardwareInputs struct {
	vm, vmi types.UID
	// identity is the guest's seed, node its status.nodeName, and hardware the resourceVersion of the GuestHardware.
	identity, node, hardware string
	hasRun, launcherMayStart bool
}

// readInputs returns the inputs of a reconcile. It reads the metadata of the GuestHardware from the cache.
func (r *Reconciler) readInputs(ctx context.Context, key types.NamespacedName, o guestObjects) (in hardwareInputs, err error) {
	if guest, found := o.hardwareGuest(); found {
		in.identity = guest.Identity
	}
	if o.vm != nil {
		in.vm = o.vm.UID
	}
	if o.vmi != nil {
		in.vmi, in.node, in.hasRun, in.launcherMayStart = o.vmi.UID, o.vmi.Status.NodeName, hasRun(o.vmi), o.launcherMayStart()
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GuestHardware"))
	err = r.Client.Get(ctx, key, metadata)
	in.hardware = metadata.ResourceVersion
	return in, client.IgnoreNotFound(err)
}

// assignHardware writes VM, VMI, node and FrontendProfile into the status of the GuestHardware, which it creates if necessary. Then the launcher of that node
// may write spec.hardware and start the guest.
func (r *Reconciler) assignHardware(ctx context.Context, o guestObjects) error {
	key := client.ObjectKeyFromObject(o.vmi)
	guest, found := o.hardwareGuest()
	if !found {
		if o.vm == nil || ownership.ControlledByVM(o.vmi) {
			return nil // the cache does not have the VM yet, or the garbage collector deletes the VMI of a deleted VM
		}
		return r.refuseVMI(ctx, o.vmi, v1alpha1.ReasonNameTaken,
			fmt.Sprintf("the hardware of this name belongs to VirtualMachine '%s': delete this virtual machine instance", o.vm.Name))
	}
	if guest.VM == "" {
		if current, err := r.isCurrent(ctx, key, &v1.VirtualMachine{}, ""); err != nil || !current {
			return err
		}
	}
	frontend, err := r.Frontend(ctx, o.vmi)
	if err != nil { // retried: a backup tool may restore the revision
		return errors.Join(err, r.refuseVMI(ctx, o.vmi, v1alpha1.ReasonFailedPin, err.Error()))
	}
	switch guest.Ownership(o.hardware) {
	case ownership.Foreign:
		return r.refuseVMI(ctx, o.vmi, v1alpha1.ReasonHardwareForeign, ownership.ForeignMessage(o.hardware))
	case ownership.Stale:
		if err := r.deleteHardware(ctx, o.hardware); err != nil {
			return err
		}
		fallthrough
	case ownership.Absent:
		created := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: o.vmi.Namespace, Name: o.vmi.Name}}
		created.Spec.Identity = guest.Identity
		if err := r.Live.Create(ctx, created); err != nil {
			return fmt.Errorf("creating GuestHardware '%s': %w", o.vmi.Name, err)
		}
		o.hardware = created
	}
	r.lastBoots.add(key, bootAssignment{o.vmi.UID, o.hardware.Spec.Hardware})
	return r.patchStatus(ctx, o.hardware, func(status *v1alpha1.GuestHardwareStatus) {
		status.VirtualMachineUID, status.Guest = guest.VM, &v1alpha1.HardwareUser{
			UID: o.vmi.UID, NodeName: o.vmi.Status.NodeName, Frontend: frontend.DeepCopy(), // the response is decoded into it
		}
	})
}

// countBoot counts a boot in the status, and records an event if the boot changed the hardware.
func (r *Reconciler) countBoot(ctx context.Context, o guestObjects) error {
	booted := o.hardware.Spec.Hardware
	err := r.patchStatus(ctx, o.hardware, func(status *v1alpha1.GuestHardwareStatus) {
		status.Boots++
		status.LastBoot = &v1alpha1.HardwareBoot{UID: o.vmi.UID, Time: metav1.NewTime(r.Now())}
		if booted != nil {
			status.LastBoot.Digest = booted.Digest
		}
	})
	if err != nil {
		return err
	}
	about := o.guestObject()
	if note := record.DescribeNewer(booted); note != "" {
		r.Events.Eventf(about, nil, corev1.EventTypeWarning, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s", condition.Note(note))
	}
	previous := r.lastBoots.remove(client.ObjectKeyFromObject(o.vmi))
	if note := describeBootChange(previous.hardware, booted); previous.vmi == o.vmi.UID && note != "" {
		r.Events.Eventf(about, nil, corev1.EventTypeNormal, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s", condition.Note(note))
	}
	return nil
}

// saveVerified writes a record whose CPU was verified. It returns a conflict if the GuestHardware has changed since it was read.
func (r *Reconciler) saveVerified(ctx context.Context, o guestObjects, verified *record.Record) error {
	updated := o.hardware.DeepCopy()
	updated.Spec.Hardware = verified
	return client.IgnoreNotFound(objects.Patch(ctx, r.Live, updated, o.hardware))
}

// updateIdentity copies the VM's identity seed into the record.
func (r *Reconciler) updateIdentity(ctx context.Context, o guestObjects) error {
	updated := o.hardware.DeepCopy()
	updated.Spec.Identity = o.vm.Annotations[v1alpha1.AnnotationIdentity]
	return client.IgnoreNotFound(objects.Patch(ctx, r.Live, updated, o.hardware))
}

// deleteOrphanedHardware deletes a GuestHardware whose guest is gone. It reads VM and VMI from the API server first: with an outdated cache it would delete
// the hardware of a VM or VMI that was just created.
func (r *Reconciler) deleteOrphanedHardware(ctx context.Context, o guestObjects) error {
	key := client.ObjectKeyFromObject(o.hardware)
	var vm, vmi types.UID
	if o.vm != nil {
		vm = o.vm.UID
	}
	if o.vmi != nil {
		vmi = o.vmi.UID
	}
	for _, cached := range []struct {
		object client.Object
		uid    types.UID
	}{{&v1.VirtualMachine{}, vm}, {&v1.VirtualMachineInstance{}, vmi}} {
		if current, err := r.isCurrent(ctx, key, cached.object, cached.uid); err != nil || !current {
			return err // the newer object's event reconciles the name again
		}
	}
	return r.deleteHardware(ctx, o.hardware)
}

// isCurrent reports whether the API server has no other object of the name than the cached one, by UID; an empty UID means that the cache has none. A cached
// object that was deleted since also counts as current: only a newer object matters.
func (r *Reconciler) isCurrent(ctx context.Context, key types.NamespacedName, object client.Object, uid types.UID) (bool, error) {
	err := r.Live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && object.GetUID() == uid, err
}

// deleteHardware deletes a GuestHardware if it was neither changed nor created anew since it was read.
func (r *Reconciler) deleteHardware(ctx context.Context, hardware *v1alpha1.GuestHardware) error {
	r.lastBoots.remove(client.ObjectKeyFromObject(hardware))
	if err := objects.DeleteUnchanged(ctx, r.Live, hardware); err != nil {
		return fmt.Errorf("deleting GuestHardware '%s': %w", hardware.Name, err)
	}
	return nil
}

// patchStatus writes a change of the status. It fails with a conflict if the GuestHardware has changed since it was read.
func (r *Reconciler) patchStatus(ctx context.Context, hardware *v1alpha1.GuestHardware, change func(*v1alpha1.GuestHardwareStatus)) error {
	patched := hardware.DeepCopy()
	change(&patched.Status)
	err := objects.PatchStatus(ctx, r.Live, patched, hardware)
	return client.IgnoreNotFound(err)
}

// refuseVMI sets condition Synchronized of a VMI to False, because its guest cannot start, and records an event. It does both only once for each reason and
// message.
func (r *Reconciler) refuseVMI(ctx context.Context, vmi *v1.VirtualMachineInstance, reason, message string) error {
	refusal := v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceSynchronized, Status: corev1.ConditionFalse,
		Reason: reason, Message: condition.Message(message), LastTransitionTime: metav1.NewTime(r.Now())}
	refused := vmi.DeepCopy()
	refused.Status.Conditions = nil
	for _, c := range vmi.Status.Conditions {
		switch {
		case c.Type != refusal.Type:
			refused.Status.Conditions = append(refused.Status.Conditions, c)
		case c.Status == refusal.Status && c.Reason == refusal.Reason && c.Message == refusal.Message:
			return nil
		}
	}
	refused.Status.Conditions = append(refused.Status.Conditions, refusal)
	err := objects.PatchStatus(ctx, r.Client, refused, vmi)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.Events.Eventf(vmi, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", condition.Note(message))
	return nil
}

// describeBootChange says how the hardware of this boot differs from the hardware of the last boot; empty if it does not, or if either record is missing or
// malformed. Usually the VM's owner has edited the VM; with annotation kilnvm.io/hardware 'latest', an upgrade of Kiln may have changed it.
func describeBootChange(before, after *v1alpha1.HardwareRecord) string {
	if before == nil || after == nil || record.Check(before) != nil || record.Check(after) != nil {
		return ""
	}
	var changes []string
	for _, change := range record.Compare(*before, *after) {
		changes = append(changes, change.Text)
	}
	if len(changes) == 0 {
		return ""
	}
	return "the hardware has changed since the last boot: " + strings.Join(changes, "; ")
}

// What the hardware reconciler remembers is lost with its process. Both memories are shortcuts: correctness never depends on them.

// settledInputs remembers the inputs of each name with which a reconcile had nothing to do. Most events of a VMI change none of its inputs, and then the
// GuestHardware is not read from the API server.
type settledInputs struct{ byName sync.Map }

// isSettled reports whether a name was last settled with these inputs.
func (s *settledInputs) isSettled(key types.NamespacedName, in hardwareInputs) bool {
	last, found := s.byName.Load(key)
	return found && last == in
}

// add remembers the inputs of a name. It forgets a name without any object, so that the map does not grow forever.
func (s *settledInputs) add(key types.NamespacedName, in hardwareInputs) {
	if in == (hardwareInputs{}) {
		s.byName.Delete(key)
		return
	}
	s.byName.Store(key, in)
}

// bootAssignment is a VMI and the hardware that its GuestHardware contained when the VMI was assigned to it.
type bootAssignment struct {
	vmi      types.UID
	hardware *v1alpha1.HardwareRecord
}

// lastBootHardware remembers the hardware of the last boot while a guest starts, so that an event can report what the new boot changed. After a restart of
// this process, that event is missing.
type lastBootHardware struct{ byName sync.Map }

func (p *lastBootHardware) add(key types.NamespacedName, a bootAssignment) { p.byName.Store(key, a) }

// remove forgets an assignment and returns it.
func (p *lastBootHardware) remove(key types.NamespacedName) bootAssignment {
	last, _ := p.byName.LoadAndDelete(key)
	a, _ := last.(bootAssignment)
	return a
}
