// Package guestdiff compares the hardware that a guest sees: of two VMs, of a VM and its last boot, and of the states of a VM's configuration.
package guestdiff

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/rogpeppe/go-internal/diff"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Side is one side of a comparison: a guest on a host.
type Side struct {
	workbench.Reviewed
	// Host is a YAML file with a host's capabilities. If it is empty, capabilities are assumed.
	Host string
	// Afresh derives the hardware anew, except the guest's identity.
	Afresh bool

	// machine is the machine type of an earlier boot. On an assumed host, aliases such as 'q35' mean this machine type.
	machine  string
	rendered render.Result
	// identified is the VMI that was rendered, with its UUID, serial number and MACs.
	identified *v1.VirtualMachineInstance
}

// Difference describes how a change affects the hardware that a guest sees.
type Difference struct {
	workbench.Notes `json:"-"`
	// Compared says what was compared if the user named only one object.
	Compared string `json:"compared,omitempty"`
	Before   string `json:"before"`
	After    string `json:"after"`
	// Verdict is how the change affects a guest that has run as Before.
	Verdict record.Verdict  `json:"verdict"`
	Changes []record.Change `json:"changes"`
	// Unknown says what else may differ, because a record does not contain it.
	Unknown string `json:"unknown,omitempty"`
	// Rollout says when a running guest gets the change, if KubeVirt runs it; otherwise nil. A change that KubeVirt makes while the guest runs is compatible.
	Rollout *validate.Rollout `json:"rollout,omitempty"`
	// BeforeDigest and AfterDigest are the digests of the guest's hardware.
	BeforeDigest string `json:"beforeDigest"`
	AfterDigest  string `json:"afterDigest"`
	// Spec and Domain are unified diffs of the explicit spec and of the complete libvirt domain.
	Spec   string `json:"spec"`
	Domain string `json:"domain"`
}

// Compare renders both sides, and compares the hardware that their guests see. after is the next version of before: it gets the identity of before, and boots
// with the record of before unless it has the annotation kilnvm.io/hardware: latest. If stage 2 or 3 refuses a side, the error is a workbench.Refusal. The
// Notes are also valid with an error.
func Compare(ctx context.Context, b *workbench.Bench, before, after Side) (Difference, error) {
	d, err := compareSides(ctx, b, &before, &after)
	if err != nil {
		return d, err
	}
	d.addRollout(before.Reviewed, after.Reviewed)
	return d, d.addTextDiffs(before, after)
}

// CompareHardware is Compare without the text diffs Spec and Domain, for thousands of guests whose diffs nobody reads. The guests need no documents.
func CompareHardware(ctx context.Context, b *workbench.Bench, before, after Side) (Difference, error) {
	d, err := compareSides(ctx, b, &before, &after)
	if err == nil {
		d.addRollout(before.Reviewed, after.Reviewed)
	}
	return d, err
}

// compareSides is Compare without Rollout, Spec and Domain. It fills the private fields of both sides.
func compareSides(ctx context.Context, b *workbench.Bench, before, after *Side) (d Difference, err error) {
	if d.Notes, err = renderSide(ctx, b, before, before.Guest.Recorded); err != nil {
		return d, err
	}
	recorded := &before.rendered.Record
	guest := *after.Guest
	guest.Explicit = asNextVersion(guest.Explicit, before.Guest.Explicit)
	after.Guest = &guest
	identity.Recall(guest.Explicit, recorded)
	if after.Afresh || guest.Explicit.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		recorded, after.machine = nil, before.rendered.Record.Machine
	}
	if recorded != nil && after.Guest.Input.Cluster.Limits.KubeVirtGuests && !hasPlaces(before.Guest.Recorded) {
		forgotten := *recorded // without Kiln's hook, KubeVirt has the firmware boot the first disk
		forgotten.BootDisk, recorded = "", &forgotten
	}
	notes, err := renderSide(ctx, b, after, recorded)
	if d.Notes = d.With(notes); err != nil {
		return d, err
	}
	d.Before, d.BeforeDigest = before.label(), before.rendered.Record.Digest
	d.After, d.AfterDigest = after.label(), after.rendered.Record.Digest
	d.Changes = append([]record.Change{}, abi.Compare(before.rendered.Frontend, after.rendered.Frontend)...)
	d.addMovedAnew(before, after)
	d.Verdict = record.Judge(d.Changes)
	return d, nil
}

// asNextVersion returns a copy of next with the UID and the annotation of the VM Generation ID of before: both have the same
// disks, so the guest must not take itself for a restored copy.
func asNextVersion(next, before *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	vmi := next.DeepCopy()
	vmi.UID = before.UID
	metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, v1alpha1.AnnotationGeneration, before.Annotations[v1alpha1.AnnotationGeneration])
	return vmi
}

// renderSide renders a side with the record of an earlier boot, or nil.
func renderSide(ctx context.Context, b *workbench.Bench, s *Side, recorded *record.Record) (workbench.Notes, error) {
	machine, notes, err := b.Machine(ctx, s.Reviewed, workbench.Placing{Host: s.Host}, recorded)
	if err != nil {
		return notes, err
	}
	if s.Host == "" {
		resolveAlias(&machine, s.machine)
	}
	s.identified = machine.VMI
	rendered, errs := render.UnderProfiles(machine.Machine, machine.Profiles)
	s.rendered = rendered
	return notes, workbench.RefusalOf(s.Reviewed, s.Host, errs)
}

// resolveAlias makes an alias of machine types, such as 'q35', mean the machine type of an earlier boot. An assumed host has no table of aliases, so the guest
// would seem to get another machine.
func resolveAlias(m *workbench.Machine, earlier string) {
	if m.VMI.Spec.Domain.Machine == nil || earlier == "" {
		return
	}
	alias := m.VMI.Spec.Domain.Machine.Type
	if strings.HasPrefix(earlier, alias+"-") || strings.HasPrefix(earlier, "pc-"+alias+"-") {
		m.Host.Machines = map[string]map[string]string{m.VMI.Spec.Architecture: {alias: earlier, earlier: earlier}}
	}
}

// addTextDiffs sets Spec and Domain.
func (d *Difference) addTextDiffs(before, after Side) error {
	var specs, domains [2][]byte
	for i, s := range []Side{before, after} {
		// The JSON is as a cluster would store it. Go types would print empty structs that the user did not write.
		var object struct {
			Spec map[string]any `json:"spec"`
		}
		if err := json.Unmarshal(s.Guest.Document, &object); err != nil {
			return err
		}
		var err error
		if specs[i], err = yaml.Marshal(object); err != nil {
			return err
		}
		xml, err := s.rendered.Documents.Domain.Marshal()
		if err != nil {
			return err
		}
		domains[i] = []byte(xml + "\n")
	}
	d.Spec = unifiedDiff(d.Before, specs[0], d.After, specs[1])
	d.Domain = unifiedDiff(d.Before, domains[0], d.After, domains[1])
	return nil
}

// unifiedDiff returns the unified diff of two texts; empty if they are equal.
func unifiedDiff(before string, old []byte, after string, new []byte) string {
	text := string(diff.Diff(before, old, after, new))
	_, text, _ = strings.Cut(text, "\n") // the library begins with a command line
	return text
}

// label returns the name of a side in diffs: the object, the file that it was read from, and the file of its host.
func (s Side) label() string {
	text := s.Name()
	if s.File() != "" {
		text += " of " + s.File()
	}
	if s.Host != "" {
		text += " on " + filepath.Base(s.Host)
	}
	return text
}
