// Package cli is 'kubectl kiln': it runs the code of the webhook and the launcher on the user's machine, on files or on the objects of a cluster. A command
// parses flags and prints results; package workbench and its subpackages judge, render and compare. docs/kubectl-kiln.md is the page for users;
// docs/reference/kubectl-kiln.md is generated from the commands and flags.
package cli

import (
	"github.com/kilnvm/kiln/internal/cli/catalogcmd"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/vmcmd"
	"github.com/kilnvm/kiln/internal/version"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Command returns the root of the plugin's commands, which read from and write to the streams. The caller passes the error of Execute to
// cmdutil.ExitStatus, and prints it unless cmdutil.Answered reports that it is printed.
func Command(streams genericclioptions.IOStreams) *cobra.Command {
	// true: the kubeconfig is read only once in a run.
	s := &cmdutil.Session{IOStreams: streams, Cluster: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use: "kubectl-kiln", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kiln"},
		Short: "Expand, validate and render virtual machines",
		Long: "Expand, validate and render virtual machines with the code that Kiln's webhook and launcher run.\n" +
			"With -f or -k only the given files are read; with vm/NAME the current cluster is read.\n\n" +
			"The exit status is 0 for success, 1 if an object is rejected, and 2 if there is no verdict: wrong usage, a file that\n" +
			"cannot be read or is not an object, a cluster that does not answer. 'diff' returns 3 if the change needs a restart, and\n" +
			"4 if it breaks the guest's hardware; 'preset migrate' returns 3 if a VMI would differ.",
		// main prints faults, and answers are already printed: cobra would print both again, with the usage.
		SilenceUsage: true, SilenceErrors: true,
	}
	s.Cluster.AddFlags(root.PersistentFlags())
	root.AddCommand(auditCommand(s), captureCommand(s), catalogcmd.Command(s), vmcmd.CreateCommand(s), diffCommand(s), expandCommand(s), explainCommand(s),
		catalogcmd.InstancetypesCommand(s), policyCommand(s), catalogcmd.PreferencesCommand(s), presetCommand(s), renderCommand(s), repinCommand(s),
		revisionsCommand(s), statesCommand(s), validateCommand(s), vmcmd.ConsoleCommand(s), vmcmd.VncCommand(s))
	root.AddCommand(vmcmd.ActionCommands(s)...)
	cmdutil.RefuseUnknown(root)
	s.WrapConnectionErrors(root.Commands())
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	version.Add(root)
	setUpHelp(root)
	return root
}
