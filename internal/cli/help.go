package cli

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
)

// usage is cobra's template without kubectl's flags of the connection, which fill thirty lines: 'kubectl kiln options' prints them, as 'kubectl
// options' does.
const usage = `{{with .Example}}Examples:
{{.}}

{{end}}{{if .HasAvailableSubCommands}}{{$cmd := .}}{{range .Groups}}{{.Title}}:
{{$group := .ID}}{{range $cmd.Commands}}{{if and (eq .GroupID $group) .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}
{{end}}{{if .Groups}}Other commands{{else}}Commands{{end}}:
{{range .Commands}}{{if and .IsAvailableCommand (not .GroupID)}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}
{{end}}{{if .LocalNonPersistentFlags.HasAvailableFlags}}Flags:
{{.LocalNonPersistentFlags.FlagUsages | trimTrailingWhitespaces}}

{{end}}{{with index .Annotations "status"}}{{.}}

{{end}}Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}

Use '{{.Root.CommandPath}} options' for the flags that every command has (--namespace, --context, ...)` +
	`{{if .HasAvailableSubCommands}}, '{{.CommandPath}} COMMAND --help' for a command{{end}}.
`

// annotationStatus is the annotation of a command with a paragraph that its help has below the flags.
const annotationStatus = "status"

const status = "The exit status is 0 for success, 1 if an object is rejected, and 2 if there is no verdict: wrong usage, a file that\n" +
	"cannot be read or is not an object, a cluster that does not answer. 'diff' returns 3 if the change needs a restart, and\n" +
	"4 if it breaks the guest's hardware; 'preset migrate' returns 3 if a VMI would differ; 'why' returns 1 if a guest is\n" +
	"requested and does not run."

// joinLines makes each paragraph of the descriptions of all commands one line. Indented lines, such as lists, keep their ends.
func joinLines(cmd *cobra.Command) {
	cmd.Long = endOfLine.ReplaceAllString(cmd.Long, "$1 $2")
	if status := cmd.Annotations[annotationStatus]; status != "" {
		cmd.Annotations[annotationStatus] = endOfLine.ReplaceAllString(status, "$1 $2")
	}
	for _, child := range cmd.Commands() {
		joinLines(child)
	}
}

// endOfLine matches the end of a line that goes on in the next one.
var endOfLine = regexp.MustCompile(`(\S)\n(\S)`)

// addGroup adds commands below one title of the help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// setUpHelp sets the template of help for all commands, and adds the commands 'completion' and 'options'.
func setUpHelp(root *cobra.Command) {
	root.SetUsageTemplate(usage)
	describeCompletion(root)
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
			cmd.Long = "Generate the completion script of a shell for the program kubectl-kiln. 'kubectl kiln' itself is completed by the same\n" +
				"program, if the PATH has it by the name kubectl_complete-kiln, too: a link is enough."
		}
	}
}
