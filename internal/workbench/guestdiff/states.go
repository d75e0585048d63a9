package guestdiff

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/lifecycle"
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

// Numbers of the states of a guest's configuration.
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
	// Digest is that of the hardware that a guest sees; empty where there is none.
	Digest string `json:"digest,omitempty"`
	// Cause is what made the state, and Time when. Without Digest, Cause is why there is none.
	Cause string       `json:"cause"`
	Time  *metav1.Time `json:"time,omitempty"`
	// Changes are those of the hardware between this state and the one above that has a digest, from the older to the newer of both; of a snapshot, what a
	// restore would change of the record. Hidden reports that the digests differ by something that is not known, since no record holds it.
	Changes []record.Change `json:"changes,omitempty"`
	Hidden  bool            `json:"hidden,omitempty"`
	// Newer and Older are the names of the two states that differ. A snapshot has none.
	Newer string `json:"newer,omitempty"`
	Older string `json:"older,omitempty"`
	// Open is what the VMI asks for and the guest that runs has not got, in words.
	Open string `json:"open,omitempty"`

	// YAML and XML are the configuration itself; empty where the state has none of the kind.
	YAML, XML string `json:"-"`

	record *record.Record
	// frontend is all that the guest sees; nil where only the record is known.
	frontend *libvirtxml.Domain
}

// VMWithVMI are a VM and its VMI, reviewed; VMI is nil if there is none.
type VMWithVMI struct {
	VM  workbench.Reviewed
	VMI *workbench.Reviewed
}

// States returns the states of a VM of a cluster. Where stage 2 or 3 refuses the VM or its VMI, the error is a Refusal.
func States(ctx context.Context, b *workbench.Bench, cluster client.Reader, of VMWithVMI) ([]State, workbench.Notes, error) {
	key := client.ObjectKeyFromObject(of.VM.Guest.VM)
	hardware, err := lifecycle.Hardware(ctx, cluster, key)
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

// fillRendered fills digest, record and documents of a state whose hardware stages 2 and 3 make. recorded is the record of the guest.
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

// templateState is what the VM would boot now.
func templateState(ctx context.Context, b *workbench.Bench, r workbench.Reviewed) (State, workbench.Notes, error) {
	vm := r.Guest.VM
	s := State{State: StateTemplate, Name: "template", Cause: fmt.Sprintf("generation %d of the VM", vm.Generation), Time: lastWritten(vm)}
	if r.Guest.Unreadable != nil {
		return s, workbench.Notes{}, r.Guest.Unreadable
	}
	notes, err := fillRendered(ctx, b, &s, r, r.Guest.Recorded)
	return s, notes, err
}

// lastWritten returns when somebody last wrote the spec of an object, by its managed fields, or it was created.
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

// findFrontend sets the frontend of the last boot, of which the record holds only a part: the frontend that the pod was started with, else that of another
// state with the digest of the record.
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

// vmiState is what the VMI says. A VMI that has booted has the record of that boot, whatever the next one asks for.
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

// compareNeighbours fills the changes between each state and the state above it that has a digest, in the direction of edits: a template is newer than all
// other states, and a record older. If the whole frontend is known of both, the words are those of 'diff'.
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
			case s.Open != "": // it says the same in the words of the VMI
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

// ErrNoDocument is the error of a state that has no configuration of the kind.
var ErrNoDocument = errors.New("the state has no such document")

// Document returns the configuration of a state as 'yaml' or 'xml'.
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
