package workbench

import (
	"cmp"
	"fmt"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/patch"
)

// Names of the stages of stage 1, in their order. The first one has the VM itself, the others have the VMI that it would boot.
const (
	StageAdmitted = "admitted"
	stagePresets  = "presets"
	stageProfiles = "profiles"
	StageDefaults = "defaults"
)

// StageNames are the names of all stages, in their order.
var StageNames = []string{StageAdmitted, admit.FromInstancetype, admit.FromPreference, stagePresets, stageProfiles, StageDefaults}

// stageOf has the stage of the kinds of origins of which a VMI may have several. The stage of another kind has the name of the kind.
var stageOf = map[string]string{
	admit.FromPreset: stagePresets, admit.FromProfile: stageProfiles, admit.FromClusterProfile: stageProfiles,
}

// MissingStage returns the error for an object without the stage, which is StageAdmitted or the stage of profiles: all objects have the other stages.
func MissingStage(name string) error {
	why := "no profile selects it"
	if name == StageAdmitted {
		why = "it is no VirtualMachine"
	}
	return fmt.Errorf("no stage '%s': %s", name, why)
}

// Stage is an object after one step of stage 1.
type Stage struct {
	Name string
	// Document is JSON: the VM in the stage 'admitted', and its VMI in all other stages.
	Document []byte
}

// Stages returns the stages that the object passes, in their order. A bare VMI has no stage 'admitted'.
func (r Reviewed) Stages() ([]Stage, error) {
	documents := map[string][]byte{StageDefaults: r.Guest.Document}
	var err error
	if r.Guest.vm != nil {
		if documents[StageAdmitted], err = r.admittedDocument(); err != nil {
			return nil, err
		}
	}
	// Presets and profiles are applied one by one: a stage has the document after the last one. A VMI that no profile selects has no stage 'profiles'.
	vmi := r.Guest.Sparse.DeepCopy()
	admit.Steps(vmi, r.Guest.Input, func(origin admit.Origin) {
		if err == nil && origin.Kind != admit.FromDefault {
			documents[cmp.Or(stageOf[origin.Kind], origin.Kind)], err = r.patchedDocument(vmi)
		}
	})
	var passed []Stage
	for _, name := range StageNames {
		if documents[name] != nil {
			passed = append(passed, Stage{name, documents[name]})
		}
	}
	return passed, err
}

// admittedDocument returns the JSON of a VM as a cluster would store it: with the patch of the webhook.
func (r Reviewed) admittedDocument() ([]byte, error) {
	raw, err := r.MarshalJSON()
	if err != nil || r.Guest.VM.DeletionTimestamp != nil { // the webhook does not change a VM that is being deleted
		return raw, err
	}

	stored, _ := r.Guest.Stored()
	diff, err := patch.Write(raw, r.Guest.VM, stored)
	if err != nil {
		return nil, err
	}
	return applyPatch(diff, raw)
}
