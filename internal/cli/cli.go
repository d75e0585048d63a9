// Package cli is 'kubectl kiln': it runs the code of the webhook and the launcher on the user's machine, on files or on the objects of a cluster. A command
// parses flags and prints results; package workbench and its subpackages judge, render and compare. docs/how-to/kubectl-kiln.md is the page for users;
// docs/reference/kubectl-kiln.md is generated from the commands and flags.
package cli

import (
	"strings"

	"github.com/kilnvm/kiln/internal/cli/catalogcmd"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/guestcmd"
	"github.com/kilnvm/kiln/internal/cli/kubectl"
	"github.com/kilnvm/kiln/internal/cli/rehearsecmd"
	"github.com/kilnvm/kiln/internal/cli/vmcmd"
	"github.com/kilnvm/kiln/internal/version"
	"github.com/kilnvm/kiln/internal/workbench/manifest/kustomization"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Command returns the root of the plugin's commands, which read from and write to the streams. The caller passes the error of Execute to
// cmdutil.ExitStatus, and prints it unless cmdutil.Answered reports that it is printed.
func Command(streams genericiooptions.IOStreams) *cobra.Command {
	cluster := kubectl.NewFlags()
	s := &cmdutil.Session{IOStreams: streams, Cluster: cluster, BuildKustomization: kustomization.Build}
	s.ErrOut = cmdutil.Wrapped(streams.ErrOut) // text in each format of -o
	root := &cobra.Command{
		Use: "kubectl-kiln", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kiln", annotationStatus: status},
		Short: "Expand, validate and render virtual machines",
		Long: "Expand, validate and render virtual machines with the code that Kiln's webhook and launcher run.\n" +
			"With -f or -k only the given files are read; with vm/NAME the current cluster is read.",
		// main prints faults, and answers are already printed: cobra would print both again, with the usage.
		SilenceUsage: true, SilenceErrors: true,
	}
	cluster.AddTo(root.PersistentFlags())
	addGroup(root, "Check what boots", guestcmd.ValidateCommand(s), guestcmd.ExplainCommand(s), guestcmd.ExpandCommand(s),
		guestcmd.RenderCommand(s), guestcmd.DiffCommand(s), auditCommand(s), rehearsecmd.Command(s), catalogcmd.SchemaCommand(s))
	addGroup(root, "Catalogs, policies and new VMs", catalogcmd.Command(s), catalogcmd.InstancetypesCommand(s), catalogcmd.PreferencesCommand(s),
		policyCommand(s), presetCommand(s), vmcmd.CreateCommand(s))
	addGroup(root, "Pins and hardware of VMs", repinCommand(s), revisionsCommand(s), statesCommand(s), captureCommand(s), importCommand(s), cpuCommand(s))
	addGroup(root, "Running VMs", append(vmcmd.ActionCommands(s), vmcmd.ConsoleCommand(s), vmcmd.VncCommand(s), vmcmd.WhyCommand(s))...)
	cmdutil.RefuseUnknown(root)
	cluster.WrapConnectionErrors(root.Commands())
	root.SetIn(streams.In)
	out := cmdutil.Wrapped(streams.Out)
	root.SetOut(out)
	root.SetErr(s.ErrOut)
	version.Add(root)
	setUpHelp(root)
	if out != streams.Out { // a terminal breaks the lines of help at its own width
		joinLines(root)
	}
	cmdutil.ExplainUsage(root)
	completeVMs(s, root)
	cluster.Complete(root, s)
	return root
}

// completeVMs completes the arguments of all commands whose usage has VMs.
func completeVMs(s *cmdutil.Session, root *cobra.Command) {
	for _, cmd := range root.Commands() {
		most := 1
		if strings.Contains(cmd.Use, "...") {
			most = 0
		}
		switch {
		case strings.Contains(cmd.Use, "vm/NAME"):
			s.CompleteVMs(cmd, "vm/", most)
		case strings.HasPrefix(cmd.Use, cmd.Name()+" NAME"):
			s.CompleteVMs(cmd, "", most)
		}
	}
}
