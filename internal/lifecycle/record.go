package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// kept is how many records a VM has: the one in use, and the one before it.
	kept = 2
	// longestName leaves room for the rest of a record's name within the 253 characters of a name.
	longestName = 200
)

// record saves what the launcher found out about the guest's hardware, and lets a VMI go whose record is safe.
func (c *Controller) record(ctx context.Context, s state) error {
	if s.vmi == nil {
		return nil
	}
	key := client.ObjectKeyFromObject(s.vm)
	frontend := s.vmi.Annotations[v1alpha1.AnnotationFrontend]
	// A guest begins with the record of the last boot, and its launcher rewrites that when a device was added since. So
	// what counts is which record is safe, not whose.
	if frontend != "" && !c.recorded.has(key, s.vmi.UID, frontend) {
		if err := c.keep(ctx, s, frontend); err != nil {
			return err
		}
		c.recorded.note(key, s.vmi.UID, frontend)
	}
	if frontend == "" && awaited(s.vmi) {
		return nil
	}
	return c.release(ctx, s.vmi)
}

// awaited tells whether a launcher may still write the record of a guest that is being deleted. It writes the record before it starts the
// guest, and starts none that lacks its finalizer, which nobody can add any more: without it the guest never ran and never will,
// whether the launcher said so by a final phase or died before it did.
func awaited(vmi *v1.VirtualMachineInstance) bool {
	return vmi.Status.NodeName != "" && !vmi.IsFinal() && controllerutil.ContainsFinalizer(vmi, v1.VirtualMachineInstanceFinalizer)
}

// keep saves a record and tells what it changes. It is saved with rights that nobody else has, so that what no boot can have written is
// not: the records of the boots before stay in use.
func (c *Controller) keep(ctx context.Context, s state, frontend string) error {
	if _, err := record.Parse(frontend); err != nil {
		c.event(&s, corev1.EventTypeWarning, v1alpha1.ReasonHardwareNotRecorded, fmt.Sprintf("annotation '%s' of the virtual machine instance: %v", v1alpha1.AnnotationFrontend, err))
		return nil
	}
	before, err := c.save(ctx, s.vm, []byte(frontend))
	if err != nil {
		return err
	}
	if note := changed(before, []byte(frontend)); note != "" {
		c.event(&s, corev1.EventTypeNormal, v1alpha1.ReasonHardwareChanged, note)
	}
	return nil
}

// release takes the finalizer from a VMI that is being deleted.
func (c *Controller) release(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	if vmi == nil || vmi.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(vmi, v1alpha1.FinalizerRecord) {
		return nil
	}
	released := vmi.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1alpha1.FinalizerRecord)
	err := c.Client.Patch(ctx, released, client.MergeFromWithOptions(vmi, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

// remember gives the record of the last boot to the next guest, so that its addresses stay, and with them UUID, serial and
// MACs, whatever became of the seed that they were derived from. Before the first boot it may have one from its template, captured
// from a domain that ran elsewhere. Guests whose owner wants the latest hardware get none.
func (c *Controller) remember(ctx context.Context, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) error {
	if vm.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		delete(vmi.Annotations, v1alpha1.AnnotationFrontend)
		return nil
	}
	records, err := c.records(ctx, vm)
	if err != nil {
		return err
	}
	at := field.NewPath("spec", "template", "metadata", "annotations").Key(v1alpha1.AnnotationFrontend)
	if len(records) > 0 {
		at = field.NewPath("controllerrevisions").Key(records[0].Name)
		metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, v1alpha1.AnnotationFrontend, string(records[0].Data.Raw))
	}
	frozen, err := record.Parse(vmi.Annotations[v1alpha1.AnnotationFrontend])
	if err != nil { // no repetition mends it
		return &resolve.Refusal{Errors: field.ErrorList{field.Invalid(at, field.OmitValueType{},
			err.Error()+"; remove it, or set annotation '"+v1alpha1.AnnotationHardware+": latest' on the VM for new hardware")}}
	}
	if frozen != nil {
		identity.Recall(vmi, frozen)
	}
	return nil
}

// records are read live: a guest that starts with an old one has moved devices.
func (c *Controller) records(ctx context.Context, vm *v1.VirtualMachine) ([]appsv1.ControllerRevision, error) {
	return Records(ctx, c.Live, vm)
}

// Records hold the hardware of a VM's last boots as record.Record, newest first.
func Records(ctx context.Context, reader client.Reader, vm *v1.VirtualMachine) ([]appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	err := reader.List(ctx, &list, client.InNamespace(vm.Namespace), client.MatchingLabels{v1alpha1.LabelFrontendOf: string(vm.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing the hardware records of '%s': %w", vm.Name, err)
	}
	records := slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, vm) })
	slices.SortFunc(records, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	return records, nil
}

// save writes a record if it differs from the newest one, and removes those that are too many. It returns the one before, nil
// if there was none or it is the same.
func (c *Controller) save(ctx context.Context, vm *v1.VirtualMachine, frontend []byte) (before []byte, err error) {
	records, err := c.records(ctx, vm)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 || !sameJSON(records[0].Data.Raw, frontend) {
		next := int64(1)
		if len(records) > 0 {
			next, before = records[0].Revision+1, records[0].Data.Raw
		}
		// A name that is cut must not end where a label would end wrongly.
		prefix := strings.TrimRight(fmt.Sprintf("%.*s", longestName, vm.Name), "-.")
		// The UID keeps the records of a VM apart from those of another of the same name that is not yet collected.
		made := appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name:            fmt.Sprintf("%s-frontend-%.8s-%d", prefix, vm.UID, next),
				Namespace:       vm.Namespace,
				Labels:          map[string]string{v1alpha1.LabelFrontendOf: string(vm.UID)},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)},
			},
			Data:     runtime.RawExtension{Raw: frontend},
			Revision: next,
		}
		if err := c.Live.Create(ctx, &made); err != nil {
			return nil, fmt.Errorf("recording the hardware of '%s': %w", vm.Name, err)
		}
		records = slices.Insert(records, 0, made)
	}
	for i := kept; i < len(records); i++ {
		if err := client.IgnoreNotFound(c.Live.Delete(ctx, &records[i])); err != nil {
			return nil, fmt.Errorf("removing the hardware record '%s': %w", records[i].Name, err)
		}
	}
	return before, nil
}

// changed tells in words how the hardware of this boot differs from that of the last. Who asked for the latest hardware learns what
// that was; for all others it is what they changed themselves.
func changed(before, after []byte) string {
	was, err := record.Parse(string(before))
	if was == nil || err != nil {
		return ""
	}
	is, err := record.Parse(string(after))
	if is == nil || err != nil {
		return ""
	}
	var words []string
	for _, change := range record.Compare(*was, *is) {
		words = append(words, change.Text)
	}
	if len(words) == 0 {
		return ""
	}
	return "the guest finds other hardware than at its last boot: " + strings.Join(words, "; ")
}

// sameJSON compares values, since the API server may write the same one in other bytes.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
