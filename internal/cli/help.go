package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// usage is cobra's template without kubectl's flags of the connection, which fill thirty lines: 'kubectl kiln options' prints them, as 'kubectl
// options' does.
const usage = `{{with .Example}}Examples:
{{.}}

{{end}}{{if .HasAvailableSubCommands}}Commands:
{{range .Commands}}{{if .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}
{{end}}{{if .LocalNonPersistentFlags.HasAvailableFlags}}Flags:
{{.LocalNonPersistentFlags.FlagUsages | trimTrailingWhitespaces}}

{{end}}Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}

Use '{{.Root.CommandPath}} options' for the flags that every command has (--namespace, --context, ...)` +
	`{{if .HasAvailableSubCommands}}, '{{.CommandPath}} COMMAND --help' for a command{{end}}.
`

// setUpHelp sets the template of help for all commands, and adds the command to see for help to errors about flags. It adds the commands 'completion' and
// 'options'.
func setUpHelp(root *cobra.Command) {
	root.SetUsageTemplate(usage)
	describeCompletion(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w, see '%s --help'", err, cmd.CommandPath())
	})
	root.AddCommand(&cobra.Command{
		Use: "options", Short: "Show the flags that every command has", Args: cobra.NoArgs, DisableFlagsInUseLine: true,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "Every command has these flags of kubectl:\n\n%s", cmd.InheritedFlags().FlagUsages())
		},
	})
}

// describeCompletion adds cobra's command 'completion' with another text: its script completes only the program kubectl-kiln, because kubectl completes a
// plugin by running kubectl_complete-kiln. It must be called after the other commands are added, without which cobra does not add its own.
func describeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Example = "  kubectl kiln completion bash > /etc/bash_completion.d/kubectl-kiln"
			cmd.Long = "Generate the completion script of a shell for the program kubectl-kiln. 'kubectl kiln' itself is completed by an\n" +
				"executable kubectl_complete-kiln in the PATH, which runs: kubectl kiln __complete \"$@\""
		}
	}
}
