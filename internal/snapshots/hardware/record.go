// Package hardware keeps the hardware records of snapshots: it reads the record of a VM, stores it in a ControllerRevision, and writes it into the
// GuestHardware of the VM that a restore writes.
package hardware

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/snapshot"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errGuestStarting is the error of a record that changed while it was read.
var errGuestStarting = errors.New("a guest is starting")

// ReadMoment reads a VM, its VMI and its hardware record as they are at one moment. If the record is written meanwhile, the error is a conflict. The
// record of a running guest is the record that it was started with. The VMI is nil if it does not exist.
func ReadMoment(ctx context.Context, reader client.Reader, vm *v1.VirtualMachine) (m snapshot.Moment, vmi *v1.VirtualMachineInstance, err error) {
	key := client.ObjectKeyFromObject(vm)
	before, err := ownership.ReadHardware(ctx, reader, key)
	if err != nil {
		return m, nil, err
	}
	if vmi, err = objects.GetOrNil(ctx, reader, key, &v1.VirtualMachineInstance{}); err != nil {
		return m, nil, err
	}
	now, err := objects.GetOrNil(ctx, reader, key, &v1.VirtualMachine{})
	if err != nil {
		return m, nil, err
	}
	after, err := ownership.ReadHardware(ctx, reader, key)
	if err != nil {
		return m, nil, err
	}
	if now == nil || now.UID != vm.UID || hardwareVersion(before) != hardwareVersion(after) {
		return m, nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("guesthardwares").GroupResource(), vm.Name, errGuestStarting)
	}
	m = snapshot.Moment{VM: now, Running: vmi != nil && vmi.Status.Phase == v1.Running}
	if ownership.GuestOf(now).Ownership(after) == ownership.Own {
		m.Hardware = &after.Spec
		if running := after.Status.Running; m.Running && running != nil && running.UID == vmi.UID {
			m.Live = running
		}
	}
	return m, vmi, nil
}

// hardwareVersion returns UID/resourceVersion, and an empty text for nil.
func hardwareVersion(hardware *v1alpha1.GuestHardware) string {
	if hardware == nil {
		return ""
	}
	return string(hardware.UID) + "/" + hardware.ResourceVersion
}

// StoreRecord writes a record into a ControllerRevision, and returns its name. Without a record it writes nothing, and the name is empty.
func StoreRecord(ctx context.Context, c client.Client, namespace string, record map[string]any) (name string, err error) {
	if record == nil {
		return "", nil
	}
	draft, err := revision.NewDraft(namespace, &unstructured.Unstructured{Object: record})
	if err != nil {
		return "", err
	}
	return draft.Name, revision.Write(ctx, c, draft)
}

// LoadRecord adds the record of a snapshot from its ControllerRevision. A revision that is missing or was changed is a mistake of the snapshot.
func LoadRecord(ctx context.Context, reader client.Reader, kept *snapshot.Kept) (mistakes field.ErrorList, err error) {
	if kept.Revision == "" {
		return nil, nil
	}
	found, err := objects.GetOrNil(ctx, reader, types.NamespacedName{Namespace: kept.VM.Namespace, Name: kept.Revision}, &appsv1.ControllerRevision{})
	if err != nil {
		return nil, err
	}
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationRecord)
	unusable := func(err error) field.ErrorList {
		return field.ErrorList{field.Invalid(at, kept.Revision, fmt.Sprintf("%v: restore this ControllerRevision from a backup", err))}
	}
	if found == nil {
		return unusable(errors.New("does not exist")), nil
	}
	if err := revision.Verify(found); err != nil {
		return unusable(err), nil
	}
	if *kept, err = kept.WithRecord(found.Data.Raw); err != nil {
		return unusable(err), nil
	}
	return nil, nil
}
