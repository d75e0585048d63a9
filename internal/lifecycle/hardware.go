package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
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

// hardware gives each guest that a launcher has claimed its GuestHardware, counts the boots, and deletes the object with the guest. The
// launcher writes the hardware itself, once for each start, and starts no guest before that. So whatever process dies, a
// guest that has run is on record.
type hardware struct {
	client client.Client
	// live reads past the cache: two guests of one name may follow each other faster than the cache.
	live   client.Client
	events events.EventRecorder
	now    func() time.Time

	idle   idle
	before before
}

func (h *hardware) register(mgr ctrl.Manager) error {
	byName := &handler.EnqueueRequestForObject{}
	return ctrl.NewControllerManagedBy(mgr).Named("guesthardware").
		For(&v1.VirtualMachineInstance{}).Watches(&v1.VirtualMachine{}, byName).
		// Without their content: it is read when a guest starts.
		WatchesMetadata(&v1alpha1.GuestHardware{}, byName).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(h)
}

// Reconcile brings the GuestHardware of a name one step on.
func (h *hardware) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := h.step(ctx, request.NamespacedName)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}

func (h *hardware) step(ctx context.Context, key types.NamespacedName) error {
	f, err := h.look(ctx, key)
	if err != nil {
		return err
	}
	seen, err := h.sight(ctx, key, f)
	if err != nil || h.idle.saw(key, seen) {
		return err
	}
	f.hardware, err = Hardware(ctx, h.live, key)
	if err != nil {
		return err
	}
	switch {
	case f.vmi != nil && f.starts() && !f.bound():
		return h.bind(ctx, f)
	case f.booted():
		return h.count(ctx, f)
	case f.reseeded():
		return h.reseed(ctx, f)
	case f.hardware != nil && !f.used():
		return h.remove(ctx, f)
	}
	h.idle.note(key, seen)
	return nil
}

// found are the objects of one name.
type found struct {
	vm       *v1.VirtualMachine
	vmi      *v1.VirtualMachineInstance
	hardware *v1alpha1.GuestHardware
}

func (h *hardware) look(ctx context.Context, key types.NamespacedName) (f found, err error) {
	f.vm, f.vmi = &v1.VirtualMachine{}, &v1.VirtualMachineInstance{}
	if err := h.client.Get(ctx, key, f.vm); apierrors.IsNotFound(err) {
		f.vm = nil
	} else if err != nil {
		return f, err
	}
	if err := h.client.Get(ctx, key, f.vmi); apierrors.IsNotFound(err) {
		f.vmi = nil
	} else if err != nil {
		return f, err
	}
	return f, nil
}

// Hardware reads a GuestHardware; nil if there is none.
func Hardware(ctx context.Context, reader client.Reader, key types.NamespacedName) (*v1alpha1.GuestHardware, error) {
	found := &v1alpha1.GuestHardware{}
	if err := reader.Get(ctx, key, found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading GuestHardware '%s': %w", key.Name, err)
	}
	return found, nil
}

// claim is that of the guest, or of the VM whose guest is yet to come; false if the name is somebody else's.
func (f found) claim() (Claim, bool) {
	switch {
	case f.vm != nil && (f.vmi == nil || owns(f.vm, f.vmi)):
		claim := ClaimOf(f.vm)
		if f.vmi != nil {
			claim.VMI = f.vmi.UID
		}
		return claim, true
	case f.vm == nil && f.vmi != nil && !ofVM(f.vmi):
		return Claim{VMI: f.vmi.UID, Identity: f.vmi.Annotations[v1alpha1.AnnotationIdentity]}, true
	}
	return Claim{}, false
}

// starts reports whether a launcher has claimed the guest and may start it.
func (f found) starts() bool {
	return f.vmi.Status.NodeName != "" && !f.vmi.IsFinal() && f.vmi.DeletionTimestamp == nil
}

// bound reports whether the launcher of the guest finds the hardware to be its guest's.
func (f found) bound() bool {
	claim, _ := f.claim()
	return f.holds() && f.hardware.Status.Guest.NodeName == f.vmi.Status.NodeName && f.hardware.Status.VirtualMachineUID == claim.VM
}

// holds reports whether the guest is the one that the status names.
func (f found) holds() bool {
	return f.hardware != nil && f.vmi != nil && f.hardware.Status.Guest != nil && f.hardware.Status.Guest.UID == f.vmi.UID
}

// booted reports whether the guest has run and is not counted yet.
func (f found) booted() bool {
	return f.holds() && ran(f.vmi) && (f.hardware.Status.LastBoot == nil || f.hardware.Status.LastBoot.UID != f.vmi.UID)
}

// ran also finds guests that have ended since.
func ran(vmi *v1.VirtualMachineInstance) bool {
	for _, at := range vmi.Status.PhaseTransitionTimestamps {
		if at.Phase == v1.Running {
			return true
		}
	}
	return vmi.Status.Phase == v1.Running
}

// reseeded reports whether the owner has edited the seed of a VM: a backup of both must fit together.
func (f found) reseeded() bool {
	return f.hardware != nil && f.vm != nil && f.hardware.Status.VirtualMachineUID == f.vm.UID &&
		f.vm.Annotations[v1alpha1.AnnotationIdentity] != "" && f.hardware.Spec.Identity != f.vm.Annotations[v1alpha1.AnnotationIdentity]
}

// used reports whether somebody needs the hardware. What no guest of this cluster has taken is kept for the guest that it was restored for.
func (f found) used() bool {
	if f.holds() || !taken(f.hardware) && f.hardware.Spec.Hardware != nil {
		return true
	}
	if claim, named := f.claim(); named {
		return claim.Title(f.hardware) == Own
	}
	return f.vm != nil && ClaimOf(f.vm).Title(f.hardware) == Own
}

// sight is all that a step depends on.
type sight struct {
	vm, vmi                  types.UID
	identity, node, hardware string
	ran, starts              bool
}

// sight reads of the hardware the version alone, from the cache.
func (h *hardware) sight(ctx context.Context, key types.NamespacedName, f found) (s sight, err error) {
	if claim, named := f.claim(); named {
		s.identity = claim.Identity
	}
	if f.vm != nil {
		s.vm = f.vm.UID
	}
	if f.vmi != nil {
		s.vmi, s.node, s.ran, s.starts = f.vmi.UID, f.vmi.Status.NodeName, ran(f.vmi), f.starts()
	}
	header := &metav1.PartialObjectMetadata{}
	header.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GuestHardware"))
	err = h.client.Get(ctx, key, header)
	s.hardware = header.ResourceVersion
	return s, client.IgnoreNotFound(err)
}

// idle remembers at which sight there was nothing to do, so that the hardware is not read for each change of a status.
type idle struct {
	sync.Mutex
	names map[types.NamespacedName]sight
}

func (i *idle) saw(key types.NamespacedName, s sight) bool {
	i.Lock()
	defer i.Unlock()
	last, known := i.names[key]
	return known && last == s
}

func (i *idle) note(key types.NamespacedName, s sight) {
	i.Lock()
	defer i.Unlock()
	if i.names == nil {
		i.names = map[types.NamespacedName]sight{}
	}
	i.names[key] = s
	if s == (sight{}) {
		delete(i.names, key)
	}
}
