package cmdutil

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/nearest"
	"github.com/spf13/cobra"
)

// RefuseUnknown makes a command of commands refuse the name of one that it does not have. Cobra checks such names for the root alone: below it, it
// prints the help with exit status 0, and a mistyped step of a pipeline passes.
func RefuseUnknown(cmd *cobra.Command) {
	cmd.Args = unknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// unknownCommand refuses the name of a command that does not exist, with the nearest one. Cobra suggests commands of the root alone.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, known := range cmd.Commands() {
		if known.IsAvailableCommand() {
			names = append(names, known.Name())
		}
	}
	text := fmt.Sprintf("unknown command '%s' of '%s'", args[0], cmd.CommandPath())
	if likely := nearest.Name(args[0], names); likely != "" {
		return fmt.Errorf("%s: did you mean '%s %s'?", text, cmd.CommandPath(), likely)
	}
	return fmt.Errorf("%s, see '%s --help'", text, cmd.CommandPath())
}
