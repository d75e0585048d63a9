package guestdiff

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Values of State.State, which users give on the command line.
const (
	StateTemplate = iota + 1
	StateRecord
	StateVMI
	StateRunning
	StateSnapshots
)

// State is one of the states of a guest's configuration.
type State struct {
	State int    `json:"state"`
	Name  string `json:"name"`
	// Digest is the digest of the hardware that a guest sees; empty if the state has no hardware.
	Digest string `json:"digest,omitempty"`
	// Cause and Time say how and when the state arose. Without Digest, Cause is the reason why the state has no hardware.
	Cause string       `json:"cause"`
	Time  *metav1.Time `json:"time,omitempty"`
	// Changes are the changes of the hardware from the older to the newer of two states: this state and the nearest state above it with a digest. For a
	// snapshot, they are the changes of the record that a restore would make. Hidden reports that the digests differ because of settings that no record
	// contains.
	Changes []record.Change `json:"changes,omitempty"`
	Hidden  bool            `json:"hidden,omitempty"`
	// Newer and Older are the names of the two states that differ. They are empty for a snapshot.
	Newer string `json:"newer,omitempty"`
	Older string `json:"older,omitempty"`
	// Open describes what the VMI requests and the running guest lacks.
	Open string `json:"open,omitempty"`

	// YAML and XML are the configuration itself. Either may be empty.
	YAML, XML string `json:"-"`

	record *record.Record
	// frontend is all that the guest sees; nil if only the record is known.
	frontend *libvirtxml.Domain
}

// VMWithVMI has a reviewed VM and its VMI. VMI is nil if the VM has no VMI.
type VMWithVMI struct {
	VM  workbench.Reviewed
	VMI *workbench.Reviewed
}

// States returns the states of the configuration of a VM in a cluster. If stage 2 or 3 refuses the VM or its VMI, the error is a workbench.Refusal.
func States(ctx context.Context, b *workbench.Bench, cluster client.Reader, of VMWithVMI) ([]State, workbench.Notes, error) {
	key := client.ObjectKeyFromObject(of.VM.Guest.VM)
	hardware, err := ownership.ReadHardware(ctx, cluster, key)
	if err != nil {
		return nil, workbench.Notes{}, err
	}
	if ownership.GuestOf(of.VM.Guest.VM).Ownership(hardware) != ownership.Own {
		hardware = nil
	}
	pod, err := guestPod(ctx, cluster, key)
	if err != nil {
		return nil, workbench.Notes{}, err
	}
	template, notes, err := templateState(ctx, b, of.VM)
	if err != nil {
		return nil, notes, err
	}
	recorded, err := recordState(hardware)
	if err != nil {
		return nil, notes, err
	}
	instance, more, err := vmiState(ctx, b, of, hardware)
	if notes = notes.With(more); err != nil {
		return nil, notes, err
	}
	recorded.findFrontend(hardware, pod, template, instance)
	states := []State{template, recorded, instance, runningState(of.VMI, hardware, pod)}
	compareNeighbours(states)
	snapshots, err := snapshotStates(ctx, cluster, of.VM.Guest.VM, recorded)
	return append(states, snapshots...), notes, err
}

// fillRendered renders a VM or VMI, and fills the digest, record and documents of a state. recorded is the record of the guest.
func fillRendered(ctx context.Context, b *workbench.Bench, s *State, r workbench.Reviewed, recorded *record.Record) (workbench.Notes, error) {
	side := Side{Reviewed: r}
	if booted := r.Guest.Booted; booted != nil {
		side.machine = booted.Machine
	}
	notes, err := renderSide(ctx, b, &side, recorded)
	if err != nil {
		return notes, err
	}
	s.record, s.Digest, s.frontend = &side.rendered.Record, side.rendered.Record.Digest, side.rendered.Frontend
	if s.XML, err = side.rendered.Documents.Domain.Marshal(); err != nil {
		return notes, err
	}
	document, err := yaml.JSONToYAML(r.Guest.Document)
	s.YAML = string(document)
	return notes, err
}

// templateState returns the state of the VM's template: what the VM would boot now.
func templateState(ctx context.Context, b *workbench.Bench, r workbench.Reviewed) (State, workbench.Notes, error) {
	vm := r.Guest.VM
	s := State{State: StateTemplate, Name: "template", Cause: fmt.Sprintf("generation %d of the VM", vm.Generation), Time: lastWritten(vm)}
	if r.Guest.Unreadable != nil {
		return s, workbench.Notes{}, r.Guest.Unreadable
	}
	notes, err := fillRendered(ctx, b, &s, r, r.Guest.Recorded)
	return s, notes, err
}

// lastWritten returns the time of the last write of an object's spec according to its managed fields, or the time of its creation.
func lastWritten(object client.Object) *metav1.Time {
	at := object.GetCreationTimestamp()
	for _, entry := range object.GetManagedFields() {
		spec := entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:spec"`))
		if entry.Subresource == "" && spec && entry.Time != nil && at.Before(entry.Time) {
			at = *entry.Time
		}
	}
	return &at
}

func recordState(hardware *v1alpha1.GuestHardware) (State, error) {
	s := State{State: StateRecord, Name: "record", Cause: "the VM has not run yet"}
	if hardware == nil || hardware.Spec.Hardware == nil {
		return s, nil
	}
	if err := record.Check(hardware.Spec.Hardware); err != nil {
		return s, fmt.Errorf("GuestHardware '%s': %w", hardware.Name, err)
	}
	s.record, s.Digest = hardware.Spec.Hardware, hardware.Spec.Hardware.Digest
	s.Cause, s.Time = "restored or captured, and not booted yet", &hardware.CreationTimestamp
	if boot := hardware.Status.LastBoot; boot != nil {
		s.Cause, s.Time = fmt.Sprintf("boot %d, of VMI %s", hardware.Status.Boots, boot.UID), &boot.Time
	}
	document, err := yaml.Marshal(hardware.Spec)
	s.YAML = string(document)
	return s, err
}

// findFrontend sets the frontend of the last boot, of which the record contains only a part: it is the frontend that the pod was started with, or the frontend
// of another state with the same digest.
func (s *State) findFrontend(hardware *v1alpha1.GuestHardware, pod *v1alpha1.GuestPod, others ...State) {
	if s.record == nil {
		return
	}
	if pod != nil && pod.Spec.Hardware != nil && hardware.Status.LastBoot != nil && pod.Spec.VMIUID == hardware.Status.LastBoot.UID {
		if front, err := render.ReadFrontend(pod.Spec.Hardware.Frontend); err == nil && abi.Digest(front) == s.Digest {
			s.frontend = front
			return
		}
	}
	for _, other := range others {
		if other.Digest == s.Digest {
			s.frontend = other.frontend
		}
	}
}

// vmiState returns the state of the VMI. If the VMI has booted, it is rendered with the record of that boot, even if the VM has the annotation
// kilnvm.io/hardware: latest for the next boot.
func vmiState(ctx context.Context, b *workbench.Bench, of VMWithVMI, hardware *v1alpha1.GuestHardware) (State, workbench.Notes, error) {
	s := State{State: StateVMI, Name: "vmi", Cause: "the VM has no VMI"}
	if of.VMI == nil {
		return s, workbench.Notes{}, nil
	}
	vmi := of.VMI.Guest.Explicit
	s.Cause, s.Time = "made from an unknown generation of the VM", lastWritten(vmi)
	if generation := vmi.Annotations[v1.VirtualMachineGenerationAnnotation]; generation != "" {
		s.Cause = fmt.Sprintf("made from generation %s of the VM", generation)
	}
	recorded := of.VM.Guest.Recorded
	if hardware != nil && hardware.Status.LastBoot != nil && hardware.Status.LastBoot.UID == vmi.UID {
		recorded = of.VM.Guest.Booted
	}
	notes, err := fillRendered(ctx, b, &s, *of.VMI, recorded)
	return s, notes, err
}

// compareNeighbours fills the changes between each state and the nearest state above it with a digest, from the older to the newer one: a template is newer
// than all other states, and a record is older. If both frontends are known, the changes are the changes of 'diff'.
func compareNeighbours(states []State) {
	var above *State
	for i := range states {
		s := &states[i]
		if s.Digest == "" {
			continue
		}
		if above != nil && above.Digest != s.Digest {
			older, newer := s, above
			if above.State == StateRecord {
				older, newer = above, s
			}
			s.Older, s.Newer = older.Name, newer.Name
			switch {
			case s.Open != "": // it describes the same changes
			case older.frontend != nil && newer.frontend != nil:
				s.Changes = abi.Compare(older.frontend, newer.frontend)
			case older.record != nil && newer.record != nil:
				s.Changes = record.Compare(*older.record, *newer.record)
			}
			s.Hidden = len(s.Changes) == 0 && s.Open == ""
		}
		above = s
	}
}

// ErrNoDocument is the error of Document if the state has no configuration in the format.
var ErrNoDocument = errors.New("the state has no such document")

// Document returns the configuration of a state. format is 'yaml' or 'xml'.
func (s State) Document(format string) (string, error) {
	text := s.YAML
	if format == "xml" {
		text = s.XML
	}
	if text == "" {
		return "", fmt.Errorf("state %d (%s) as %s: %w", s.State, s.Name, format, ErrNoDocument)
	}
	return text, nil
}
