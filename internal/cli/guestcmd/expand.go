package guestcmd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/spf13/cobra"
)

// expandRun is a run of 'expand'.
type expandRun struct{ cmdutil.Inputs }

// Each stage of 'expand' is the result of the first steps of stage 1. Only the stage 'admitted' is a VM: the VM with the webhook's patch, as a cluster would
// store it.

// stageAll is the value of --stage for all stages.
const stageAll = "all"

// Stages are the values of --stage.
var Stages = append(slices.Clone(workbench.StageNames), stageAll)

// ExpandCommand returns 'expand'.
// The exit status is 1 if a VM is rejected or its instancetype does not exist, and 2 if the user names no VM or VMI, or an object does not have the stage.
// The command has no text format, because kubectl and the other commands read its output, which is a manifest.
func ExpandCommand(s *cmdutil.Session) *cobra.Command {
	o := &expandRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "expand (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Print the explicit VirtualMachineInstance that each VM would boot",
		Long: "Print the explicit VirtualMachineInstance that each VM would boot, or the result of an earlier stage. 'virtctl expand' prints\n" +
			"another object: the VM with the fields of its instancetype and preference, without presets and profiles.\n\n" +
			"  admitted       the VM after admission: pinned, or expanded as instancetype.referencePolicy of --config requires\n" +
			"  instancetype   its VMI with only the instancetype; the next stages are preference, presets, profiles and defaults\n" +
			"  all            every stage, one document each",
		Example: "  kubectl kiln expand -f vm.yaml --catalog catalog/\n" +
			"  kubectl kiln expand vm/web -n shop --stage all",
	}
	stage := cmd.Flags().String("stage", workbench.StageDefaults, "stage to print: "+strings.Join(Stages, ", "))
	cmdutil.CompleteValues(cmd, "stage", Stages...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(Stages, *stage) {
			return fmt.Errorf("--stage '%s' is not supported, use one of %s", *stage, strings.Join(Stages, ", "))
		}
		return o.EachGuest(cmd, args, func(r workbench.Reviewed) error { return o.printStages(r, *stage) })
	}
	o.AddInputs(cmd)
	o.AddOutput(cmd, "yaml", "yaml", "json")
	return cmd
}

// printStages prints one stage of an object, or all. It fails if the object does not have the stage, such as 'admitted' of a bare VMI.
func (o *expandRun) printStages(r workbench.Reviewed, wanted string) error {
	if wanted == workbench.StageDefaults {
		return o.printGuest(r.Guest.Document, "")
	}
	passed, err := r.Stages()
	if err != nil {
		return err
	}
	if wanted != stageAll {
		passed = slices.DeleteFunc(passed, func(s workbench.Stage) bool { return s.Name != wanted })
	}
	if len(passed) == 0 {
		return workbench.MissingStage(wanted)
	}
	for _, stage := range passed {
		if err := o.printGuest(stage.Document, r.Name()+": "+stage.Name); err != nil {
			return err
		}
	}
	return nil
}

// printGuest prints a VM or VMI from its JSON. title is printed as a comment in YAML; JSON has none.
func (o *expandRun) printGuest(document []byte, title string) error {
	object := map[string]any{}
	if err := json.Unmarshal(document, &object); err != nil {
		return err
	}
	delete(object, "status") // stage 1 writes none
	if title != "" {
		title = "# " + title + "\n"
	}
	return o.PrintManifest(object, title)
}
