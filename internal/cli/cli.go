// Package cli is 'kubectl kiln': the code of the webhook and the launcher on the user's machine, over files or over the objects of a
// cluster. A command parses flags and prints; all that is judged, rendered and compared are values of package workbench. docs/kubectl-kiln.md
// is the page for users; docs/reference/ has the commands and flags, generated from here.
package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/beside"
	"github.com/kilnvm/kiln/internal/version"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	v1 "kubevirt.io/api/core/v1"
)

// Command returns the root of the plugin's commands, which read from and write to the streams. Errors of its Execute are those of
// ExitStatus; it prints none itself.
func Command(streams genericclioptions.IOStreams) *cobra.Command {
	// true: the kubeconfig is read once for all uses of a run.
	s := &session{IOStreams: streams, cluster: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use: "kubectl-kiln", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kiln"},
		Short: "Expand, validate and render virtual machines",
		Long: "Expand, validate and render virtual machines with the code that Kiln's webhook and launcher run.\n" +
			"With -f or -k only the given files are read; with vm/NAME the current cluster is read.\n\n" +
			"The exit status is 0 for success, 1 if an object is rejected, and 2 if there is no verdict: wrong usage, a file that\n" +
			"cannot be read or is no object, a cluster that does not answer. 'diff' returns 3 if the change needs a restart, and\n" +
			"4 if it breaks the guest's hardware; 'preset migrate' returns 3 if a VMI would be another one.",
		// main prints faults, and answers are printed already: cobra would print both again, with the usage.
		SilenceUsage: true, SilenceErrors: true,
	}
	s.cluster.AddFlags(root.PersistentFlags())
	root.AddCommand(captureCommand(s), catalogCommand(s), createCommand(s), diffCommand(s), expandCommand(s), explainCommand(s), instancetypesCommand(s),
		policyCommand(s), preferencesCommand(s), presetCommand(s), renderCommand(s), repinCommand(s), revisionsCommand(s), statesCommand(s), validateCommand(s),
		consoleCommand(s), vncCommand(s))
	root.AddCommand(actionCommands(s)...)
	refuseUnknown(root)
	s.answering(root.Commands())
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	version.Add(root)
	help(root)
	return root
}

// session is one run of the plugin: its streams and kubectl's flags of the connection, such as --namespace and --context. All commands share it.
type session struct {
	genericclioptions.IOStreams
	cluster *genericclioptions.ConfigFlags
}

// printer prints the answers of a command in the format of its -o.
type printer struct {
	*session
	// output is the value of -o.
	output string
	// documents reports that the user asked for JSON or YAML with -o. Rejections are documents then. A command whose default is YAML
	// prints them as text without -o.
	documents bool
	// warnedOfNodes reports that the warning about profiles that select nodes was printed.
	warnedOfNodes bool
}

func newPrinter(s *session) printer { return printer{session: s} }

// inputs has the flags that name what a command reads and what it is judged by.
type inputs struct {
	printer
	// files has the values of -f, -k and --catalog.
	files manifest.Files
	// bench has the values of --config, --profile and --strict, and the settings once they are read.
	bench workbench.Bench
}

func newInputs(s *session) inputs {
	return inputs{printer: newPrinter(s), files: manifest.Files{Stdin: s.In}, bench: workbench.Bench{Stdin: s.In}}
}

// addInputs adds the flags that name what a command reads.
// -f is a list with commas, as kubectl's. -k may be repeated, which kubectl's may not, and be given with -f: several sources are one set of objects.
// --strict is for pipelines, where all files are at hand; on a cluster others may still create what is missing.
func (o *inputs) addInputs(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files.Names, "filename", "f", nil, "file, directory or - with the objects, and with those that they refer to")
	flags.StringSliceVarP(&o.files.Kustomizations, "kustomize", "k", nil, "directory with a kustomization that builds the objects")
	flags.BoolVar(&o.bench.Strict, "strict", false, "reject what cannot be judged: references to objects that do not exist, and kinds that Kiln does not serve")
	o.addContext(cmd)
}

// addContext adds the flags that name what else a cluster has.
// Objects of --catalog are only referred to: they are not judged, and none of them has a verdict.
func (o *inputs) addContext(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.files.Catalog, "catalog", nil, "file or directory with further instancetypes, preferences, presets and profiles")
	o.addConfig(cmd)
}

// addConfig adds the flag that names the cluster's configuration.
// Where the webhook was started with --config, the user must name the same file: commands find a KubeVirt object alone.
func (o *inputs) addConfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.bench.Config, "config", "",
		"file with KubeVirt's configuration, as the webhook's --config; default: the KubeVirt object among the files or in the cluster")
	cmd.Flags().StringVar(&o.bench.Guests, "guests", beside.Auto, beside.Usage)
	complete(cmd, "guests", beside.Auto, beside.Kiln, beside.KubeVirt)
}

// addProfiles adds the flag that names HostProfiles.
func (o *inputs) addProfiles(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.bench.Profiles, "profile", nil,
		"file or directory with HostProfiles, instead of those among the files or in the cluster")
}

// addOutput adds the -o flag with a default and the allowed formats. An unknown format is a fault, found in PreRunE before the command reads anything.
// Trap: a cobra command has one PreRunE, so that a command that sets its own loses the check.
func (o *printer) addOutput(cmd *cobra.Command, fallback string, formats ...string) {
	last := len(formats) - 1
	choice := strings.Join(formats[:last], ", ") + " or " + formats[last]
	cmd.Flags().StringVarP(&o.output, "output", "o", fallback, "output format: "+choice)
	complete(cmd, "output", formats...)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		o.documents = cmd.Flags().Changed("output") && (o.output == "json" || o.output == "yaml")
		if !slices.Contains(formats, o.output) {
			return fmt.Errorf("--output '%s' is not supported, use %s", o.output, choice)
		}
		return nil
	}
}

// complete makes a shell offer these values of a flag, and no file names.
func complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// eachGuest reviews each VM and VMI that the user named, and calls visit for each one that is accepted and complete. It prints the
// rejected ones. An error of one object does not keep the others from being visited; the worst one is returned.
func (o *inputs) eachGuest(cmd *cobra.Command, args []string, visit func(workbench.Reviewed) error) error {
	all, err := o.reviewed(cmd.Context(), args)
	if err != nil {
		return err
	}
	found, outcome := o.bootable(all)
	if len(found) == 0 && outcome == nil {
		return o.nothing("VirtualMachine or VirtualMachineInstance", args)
	}
	for _, r := range found {
		err := visit(r)
		if err != nil && !Answered(err) {
			err = o.unanswered(fmt.Errorf("%s: %w", r.Name(), err))
		}
		outcome = worse(outcome, err)
	}
	return outcome
}

// reviewed loads and reviews the objects that the user named. Rejected objects are among them; an error is a fault of the whole run.
// An object that cannot be judged is among them too, with its Fault.
func (o *inputs) reviewed(ctx context.Context, args []string) ([]workbench.Reviewed, error) {
	in, err := o.load(o.files, args)
	if err != nil {
		return nil, err
	}
	return o.review(ctx, in, nil)
}

// review reviews objects, and prints the warnings of the run and the objects of kinds that Kiln does not serve. old is the stored VM that
// one of the objects updates, or nil: rules about changes need it.
func (o *inputs) review(ctx context.Context, in manifest.Inputs, old *v1.VirtualMachine) ([]workbench.Reviewed, error) {
	o.bench.User = o.user()
	all, err := o.bench.Review(ctx, in, old)
	o.warn(all.Warnings...)
	for _, skipped := range all.Skipped {
		fmt.Fprintln(o.ErrOut, printable(fmt.Sprintf("skipped: %s: %s", skipped.Name(), skipped.Reason)))
	}
	return all.Objects, err
}

// bootable returns the accepted VMs and VMIs. It prints all objects that are rejected or could not be judged, and returns ErrRejected or
// errUnanswered if there were any. Objects that boot no guest, such as instancetypes, have only their warnings printed.
func (o *inputs) bootable(all []workbench.Reviewed) (found []workbench.Reviewed, outcome error) {
	for _, r := range all {
		if r.Fault != nil {
			outcome = worse(outcome, o.unanswered(r.Fault))
			continue
		}
		switch {
		case !r.Verdict.Allowed():
			outcome = worse(outcome, o.refuse(r, ""))
		case r.Guest == nil:
			o.warnOf(r)
		case r.Unknown:
			outcome = worse(outcome, o.incomplete(r))
		default:
			o.warnOf(r)
			found = append(found, r)
		}
	}
	return found, outcome
}
