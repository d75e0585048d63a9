// Package snapshot decides what a snapshot contains of a VM, whether the VM can be restored from it, and what the restored VM is: the VM as it was, or another
// VM with the same hardware and a new identity. It does not read from the cluster: callers pass the objects as values.
package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// Moment is a VM at the moment of its snapshot.
type Moment struct {
	VM *v1.VirtualMachine
	// Hardware is the spec of the VM's GuestHardware; nil if there is no GuestHardware.
	Hardware *v1alpha1.GuestHardwareSpec
	// Running is true if the guest of the VM was running.
	Running bool
	// Live is the hardware that libvirt ran, as the launcher reported it; nil if no guest was running.
	Live *v1alpha1.HardwareRunning
}

// Live is the hardware of a running guest at the moment of a snapshot, if it differs from the record: the guest has grown, or has ignored a removal. It is
// information only: a restored VM boots with the record and the spec. It has neither UID nor time, so that snapshots with the same content share a revision.
type Live struct {
	v1alpha1.LiveHardware `json:",inline"`
	Digest                string `json:"digest"`
}

// longestVM is the bound, in bytes, of the JSON of a VM in a content. etcd stores objects of up to 1.5 MiB, and the content also has the claims of the volumes.
const longestVM = 1 << 20

// recordKind is the kind of the object that a ControllerRevision holds for a content.
const recordKind = "GuestHardware"

// State is the name of the claim with the EFI variables and the TPM state of a VM in the volumeBackups of a content. No volume of a VM can have this name.
const State = v1alpha1.Prefix + "state"

// Source returns the VM in the form in which a content has it: without managed fields, and without the copy that 'kubectl apply' keeps in an annotation. It
// returns an error if the JSON of the VM is longer than longestVM.
func (m Moment) Source() (*api.VirtualMachine, error) {
	kept := &api.VirtualMachine{ObjectMeta: *m.VM.ObjectMeta.DeepCopy(), Spec: *m.VM.Spec.DeepCopy(), Status: *m.VM.Status.DeepCopy()}
	kept.ManagedFields = nil
	delete(kept.Annotations, corev1.LastAppliedConfigAnnotation)
	text, err := json.Marshal(kept)
	if err == nil && len(text) > longestVM {
		err = fmt.Errorf("the VM has %d bytes as JSON, and a snapshot holds at most %d", len(text), longestVM)
	}
	return kept, err
}

// Record returns the object for the revision with the hardware record; nil if the VM has no record. The object has the name of the VM. An invalid record is an
// error.
func (m Moment) Record() (map[string]any, error) {
	if m.Hardware == nil || m.Hardware.Hardware == nil {
		return nil, nil
	}
	if err := record.Check(m.Hardware.Hardware); err != nil {
		return nil, err
	}
	text, err := json.Marshal(m.Hardware)
	if err != nil {
		return nil, err
	}
	spec := map[string]any{}
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, err
	}
	object := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": recordKind, "metadata": map[string]any{"name": m.VM.Name}, "spec": spec,
	}
	if m.Live == nil || m.Live.Digest == m.Hardware.Hardware.Digest {
		return object, nil
	}
	if text, err = json.Marshal(Live{m.Live.LiveHardware, m.Live.Digest}); err != nil {
		return nil, err
	}
	running := map[string]any{}
	if err := json.Unmarshal(text, &running); err != nil {
		return nil, err
	}
	spec["running"] = running
	return object, nil
}

// Annotations returns the annotations of a content: the state of the VM, the revision of its record, and all revisions that the content needs. The collector
// keeps the revisions that annotation kilnvm.io/pins names. revision is empty for a VM without a record.
func (m Moment) Annotations(revision string) map[string]string {
	state := v1alpha1.SnapshotInactive
	if m.Running {
		state = v1alpha1.SnapshotRunning
	}
	annotations := map[string]string{v1alpha1.AnnotationSnapshotState: state}
	names := revisionsOf(m.VM)
	if revision != "" {
		annotations[v1alpha1.AnnotationRecord] = revision
		names = append(names, namedRevision{name: revision})
	}
	listed := []string{}
	for _, of := range names {
		if !slices.Contains(listed, of.name) {
			listed = append(listed, of.name)
		}
	}
	text, err := json.Marshal(map[string][]string{"revisions": listed})
	if err != nil {
		panic(err) // strings always marshal
	}
	annotations[v1alpha1.AnnotationPins] = string(text)
	return annotations
}

// Kept is the VM in a content. The content is read as hostile input: a backup tool may have written it.
type Kept struct {
	// VM has name, namespace, UID, labels and annotations, and the spec.
	VM *v1.VirtualMachine
	// Revision is the name of the revision with the hardware record; empty if the VM had no record.
	Revision string
	// Hardware is the content of the revision; nil before WithRecord.
	Hardware *v1alpha1.GuestHardwareSpec
	// Live is the hardware of the running guest; nil if it was the record, or no guest was running.
	Live    *Live
	Backups []api.VolumeBackup
}

// Read returns the VM in a content, without its record. It returns an error if the content has no VM or the VM has no template.
func Read(content *api.VirtualMachineSnapshotContent) (Kept, error) {
	source := content.Spec.Source.VirtualMachine
	switch {
	case source == nil || source.Name == "":
		return Kept{}, errors.New("spec.source.virtualMachine is not a VM")
	case source.Spec.Template == nil:
		return Kept{}, errors.New("spec.source.virtualMachine.spec.template is missing")
	}
	vm := &v1.VirtualMachine{Spec: *source.Spec.DeepCopy()}
	vm.APIVersion, vm.Kind = v1.VirtualMachineGroupVersionKind.ToAPIVersionAndKind()
	vm.ObjectMeta = metav1.ObjectMeta{
		Name: source.Name, Namespace: content.Namespace, UID: source.UID,
		Labels: maps.Clone(source.Labels), Annotations: maps.Clone(source.Annotations),
	}
	kept := Kept{VM: vm, Revision: content.Annotations[v1alpha1.AnnotationRecord]}
	for i := range content.Spec.VolumeBackups {
		kept.Backups = append(kept.Backups, *content.Spec.VolumeBackups[i].DeepCopy())
	}
	return kept, nil
}

// WithRecord returns k with the record in the data of its revision. It returns an error if the data is not a valid record of the VM.
func (k Kept) WithRecord(data []byte) (Kept, error) {
	var object struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			v1alpha1.GuestHardwareSpec `json:",inline"`
			Running                    *Live
		}
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return k, fmt.Errorf("revision '%s': %w", k.Revision, err)
	}
	if object.APIVersion != v1alpha1.GroupVersion.String() || object.Kind != recordKind || object.Metadata.Name != k.VM.Name || object.Spec.Hardware == nil {
		return k, fmt.Errorf("revision '%s' holds no hardware of VM '%s'", k.Revision, k.VM.Name)
	}
	if err := record.Check(object.Spec.Hardware); err != nil {
		return k, fmt.Errorf("revision '%s': %w", k.Revision, err)
	}
	k.Hardware, k.Live = &object.Spec.GuestHardwareSpec, object.Spec.Running
	return k, nil
}

// Backup returns the backup of a volume; nil if the snapshot does not include the volume.
func (k Kept) Backup(volume string) *api.VolumeBackup {
	for i := range k.Backups {
		if k.Backups[i].VolumeName == volume && k.Backups[i].VolumeSnapshotName != nil {
			return &k.Backups[i]
		}
	}
	return nil
}
