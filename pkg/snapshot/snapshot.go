// Package snapshot says what a snapshot holds of a VM, whether that configuration may be activated again, and what becomes of it: the VM as it was, or
// another VM with the same hardware and an identity of its own. It takes what the cluster has as values.
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
	// Hardware is the spec of its GuestHardware; nil where it has none.
	Hardware *v1alpha1.GuestHardwareSpec
	// Running reports that a guest was running with it.
	Running bool
	// Live is what libvirt ran then, by the reports of the guest that ran; nil without one.
	Live *v1alpha1.HardwareRunning
}

// Live is what a guest ran at the moment of a snapshot, where that differs from its record: it grew, or has ignored a removal. No restore brings it back: the
// next cold boot starts with the record and with what the spec asks for. It has neither UID nor time, so that snapshots share what is the same.
type Live struct {
	v1alpha1.LiveHardware `json:",inline"`
	Digest                string `json:"digest"`
}

// longestVM bounds the JSON of a VM that a content holds, in bytes. etcd stores objects of 1.5 MiB; the claims of the volumes come on top.
const longestVM = 1 << 20

// recordKind is the kind of the object that a ControllerRevision holds for a content.
const recordKind = "GuestHardware"

// State is the name, in the volumeBackups of a content, of the claim with the EFI variables and the TPM state of a VM. No volume of a VM can have it.
const State = v1alpha1.Prefix + "state"

// Source returns the VM in the form in which a content holds it. Managed fields and the copy of kubectl are no part of a VM.
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

// Record returns the object whose revision holds the hardware record; nil where the VM has not been recorded. It has the name of the VM.
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

// Annotations returns those of a content: the state of the VM, the revision of its record, empty for none, and all revisions that the content needs. The
// collector keeps what annotation kilnvm.io/pins names.
func (m Moment) Annotations(revision string) map[string]string {
	state := v1alpha1.SnapshotInactive
	if m.Running {
		state = v1alpha1.SnapshotRunning
	}
	annotations := map[string]string{v1alpha1.AnnotationSnapshotState: state}
	names := revisions(m.VM)
	if revision != "" {
		annotations[v1alpha1.AnnotationRecord] = revision
		names = append(names, named{name: revision})
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

// Kept is what a content holds, read as hostile input: a backup tool may have written it.
type Kept struct {
	// VM has name, namespace, UID, labels and annotations, and the spec.
	VM *v1.VirtualMachine
	// Revision is the name of the revision with the record; empty if the VM had none.
	Revision string
	// Hardware is what that revision holds; nil if the VM had none.
	Hardware *v1alpha1.GuestHardwareSpec
	// Live is what the guest ran; nil if that was the record, or no guest ran.
	Live    *Live
	Backups []api.VolumeBackup
}

// Read reads a content without the record.
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

// WithRecord returns a content with the record that the data of its revision holds.
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

// Backup returns the backup of a volume; nil if the snapshot has none.
func (k Kept) Backup(volume string) *api.VolumeBackup {
	for i := range k.Backups {
		if k.Backups[i].VolumeName == volume && k.Backups[i].VolumeSnapshotName != nil {
			return &k.Backups[i]
		}
	}
	return nil
}
