package cmdutil

import (
	"errors"

	"github.com/spf13/cobra"
)

// DryRun is the value of --dry-run. It takes kubectl's values, and '--dry-run' alone means 'server'.
type DryRun bool

// AddDryRun adds --dry-run.
func AddDryRun(cmd *cobra.Command, d *DryRun) {
	cmd.Flags().Var(d, "dry-run", "'server' asks the API server what would change, and stores nothing; 'none' stores it. The flag alone means 'server'")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = d.word(true)
	CompleteValues(cmd, "dry-run", d.word(false), d.word(true))
}

func (d *DryRun) word(on bool) string {
	if on {
		return "server"
	}
	return "none"
}

func (d *DryRun) String() string { return d.word(bool(*d)) }

// Type is the name of the values in the help.
func (d *DryRun) Type() string { return "none|server" }

// Set also accepts the values of a flag without values, 'true' and 'false'.
func (d *DryRun) Set(text string) error {
	switch text {
	case "server", "true":
		*d = true
	case "none", "false":
		*d = false
	case "client":
		return errors.New("only the API server knows what would change: use --dry-run=server")
	default:
		return errors.New("must be 'none' or 'server'")
	}
	return nil
}
