package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// usage is cobra's template without the flags of the connection. They fill thirty lines; 'kubectl kiln options' prints them, as 'kubectl
// options' does. The help of a command fits on one screen.
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

// help sets the template of help, and the texts of usage errors: each names the page of help that has the right usage.
// docs/reference/ is generated from the same commands, so that a test fails when the two differ.
// Cobra looks for the template and for the function of flag errors in the parents of a command, so that the root has them for all.
func help(root *cobra.Command) {
	root.SetUsageTemplate(usage)
	completion(root)
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

// completion is cobra's command with another text: the script of a shell completes the program kubectl-kiln, while kubectl completes a plugin
// by running kubectl_complete-kiln.
// Cobra adds its command only when the root runs, and only if there are others: so it is asked for here, after the commands are added.
func completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Example = "  kubectl kiln completion bash > /etc/bash_completion.d/kubectl-kiln"
			cmd.Long = "Generate the completion script of a shell for the program kubectl-kiln. 'kubectl kiln' itself is completed by an\n" +
				"executable kubectl_complete-kiln in the PATH, which runs: kubectl kiln __complete \"$@\""
		}
	}
}
