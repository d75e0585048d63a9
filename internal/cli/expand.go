package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/spf13/cobra"
)

// expandOptions is a run of 'expand'.
type expandOptions struct{ cmdutil.Inputs }

// A stage of 'expand' is a beginning of stage 1. 'admitted' is the only one of the VM itself; the webhook's patch is applied
// to it, so that it is what a cluster would store.

// stageAll asks for every stage.
const stageAll = "all"

// stages are the values of --stage.
var stages = append(slices.Clone(workbench.StageNames), stageAll)

// expandCommand is 'expand'.
// The exit status is 1 if a VM is rejected or its instancetype does not exist, and 2 if nothing bootable is named or an object has no such stage.
// It has no text format: the answer is a manifest, which kubectl and the other commands read.
func expandCommand(s *cmdutil.Session) *cobra.Command {
	o := &expandOptions{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "expand (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Print the explicit VirtualMachineInstance that each VM would boot",
		Long: "Print the explicit VirtualMachineInstance that each VM would boot, or what an earlier stage makes of it:\n\n" +
			"  admitted       the VM as admission would leave it: with the pins of instancetype and preference, or expanded where the policy in --config says so\n" +
			"  instancetype   its VMI with the instancetype alone; preference, presets, profiles and defaults are the stages that follow\n" +
			"  all            every stage, one document each",
		Example: "  kubectl kiln expand -f vm.yaml --catalog catalog/\n" +
			"  kubectl kiln expand vm/web -n shop --stage all",
	}
	stage := cmd.Flags().String("stage", workbench.StageDefaults, "stage to print: "+strings.Join(stages, ", "))
	cmdutil.Complete(cmd, "stage", stages...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(stages, *stage) {
			return fmt.Errorf("--stage '%s' is not supported, use one of %s", *stage, strings.Join(stages, ", "))
		}
		return o.EachGuest(cmd, args, func(r workbench.Reviewed) error { return o.printStages(r, *stage) })
	}
	o.AddInputs(cmd)
	o.AddOutput(cmd, "yaml", "yaml", "json")
	return cmd
}

// printStages prints one stage of an object, or all. A bare VMI has no stage 'admitted': no VM is stored for it.
// A stage that the object does not have is a fault, which eachGuest prints with the name of the object.
func (o *expandOptions) printStages(r workbench.Reviewed, wanted string) error {
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
func (o *expandOptions) printGuest(document []byte, title string) error {
	object := map[string]any{}
	if err := json.Unmarshal(document, &object); err != nil {
		return err
	}
	delete(object, "status") // stage 1 writes none
	if title != "" {
		title = "# " + title + "\n"
	}
	return o.PrintTitled(object, title)
}
