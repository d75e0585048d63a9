package cmdutil

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/nearest"
	"github.com/spf13/cobra"
)

// RefuseUnknown makes a command with subcommands refuse the name of an unknown subcommand. Cobra does this only for the root: for other commands it
// prints the help with exit status 0, so a pipeline with a misspelled command would pass.
func RefuseUnknown(cmd *cobra.Command) {
	cmd.Args = unknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// unknownCommand returns an error if args contain the name of an unknown subcommand, and suggests the most similar one. Cobra suggests only commands of the
// root.
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
