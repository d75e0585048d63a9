// Package cmdutil has what the commands of 'kubectl kiln' share: the flags that name what is read, the cluster of the kubeconfig, the printers of answers, and
// the errors that decide on the exit status.
package cmdutil

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/kubevirt/installed"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	v1 "kubevirt.io/api/core/v1"
)

// Session is one run of the plugin: its streams and kubectl's flags of the connection, such as --namespace and --context. All commands share it.
type Session struct {
	genericclioptions.IOStreams
	Cluster *genericclioptions.ConfigFlags
}

// Printer prints the answers of a command in the format of its -o.
type Printer struct {
	*Session
	// Output is the value of -o.
	Output string
	// Documents reports that the user asked for JSON or YAML with -o. Rejections are documents then. A command whose default is YAML
	// prints them as text without -o.
	Documents bool
	// warnedOfNodes reports that the warning about profiles that select nodes was printed.
	warnedOfNodes bool
}

// NewPrinter returns a printer of the run.
func NewPrinter(s *Session) Printer { return Printer{Session: s} }

// Inputs has the flags that name what a command reads and what it is judged by.
type Inputs struct {
	Printer
	// Files has the values of -f, -k and --catalog.
	Files manifest.Files
	// Bench has the values of --config, --profile and --strict, and the settings once they are read.
	Bench workbench.Bench
}

// NewInputs returns inputs that read the standard input of the session where a file is named '-'.
func NewInputs(s *Session) Inputs {
	return Inputs{Printer: NewPrinter(s), Files: manifest.Files{Stdin: s.In}, Bench: workbench.Bench{Stdin: s.In}}
}

// AddInputs adds the flags that name what a command reads.
// -f is a list with commas, as kubectl's. -k may be repeated, which kubectl's may not, and be given with -f: several sources are one set of objects.
// --strict is for pipelines, where all files are at hand; on a cluster others may still create what is missing.
func (o *Inputs) AddInputs(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.Files.Names, "filename", "f", nil, "file, directory or - with the objects, and with those that they refer to")
	flags.StringSliceVarP(&o.Files.Kustomizations, "kustomize", "k", nil, "directory with a kustomization that builds the objects")
	flags.BoolVar(&o.Bench.Strict, "strict", false, "reject what cannot be judged: references to objects that do not exist, and kinds that Kiln does not serve")
	o.AddContext(cmd)
}

// AddContext adds the flags that name what else a cluster has.
// Objects of --catalog are only referred to: they are not judged, and none of them has a verdict.
func (o *Inputs) AddContext(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Files.Catalog, "catalog", nil, "file or directory with further instancetypes, preferences, presets and profiles")
	o.AddConfig(cmd)
}

// AddConfig adds the flag that names the cluster's configuration.
// Where the webhook was started with --config, the user must name the same file: commands find a KubeVirt object alone.
func (o *Inputs) AddConfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Bench.Config, "config", "",
		"file with KubeVirt's configuration, as the webhook's --config; default: the KubeVirt object among the files or in the cluster")
	cmd.Flags().StringVar(&o.Bench.Guests, "guests", installed.Auto, installed.Usage)
	Complete(cmd, "guests", installed.Auto, installed.Kiln, installed.KubeVirt)
}

// AddProfiles adds the flag that names HostProfiles.
func (o *Inputs) AddProfiles(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.Bench.Profiles, "profile", nil,
		"file or directory with HostProfiles, instead of those among the files or in the cluster")
}

// AddOutput adds the -o flag with a default and the allowed formats. An unknown format is a fault, found in PreRunE before the command reads anything.
// Trap: a cobra command has one PreRunE, so that a command that sets its own loses the check.
func (o *Printer) AddOutput(cmd *cobra.Command, fallback string, formats ...string) {
	last := len(formats) - 1
	choice := strings.Join(formats[:last], ", ") + " or " + formats[last]
	cmd.Flags().StringVarP(&o.Output, "output", "o", fallback, "output format: "+choice)
	Complete(cmd, "output", formats...)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		o.Documents = cmd.Flags().Changed("output") && (o.Output == "json" || o.Output == "yaml")
		if !slices.Contains(formats, o.Output) {
			return fmt.Errorf("--output '%s' is not supported, use %s", o.Output, choice)
		}
		return nil
	}
}

// Complete makes a shell offer these values of a flag, and no file names.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// EachGuest reviews each VM and VMI that the user named, and calls visit for each one that is accepted and complete. It prints the
// rejected ones. An error of one object does not keep the others from being visited; the worst one is returned.
func (o *Inputs) EachGuest(cmd *cobra.Command, args []string, visit func(workbench.Reviewed) error) error {
	all, err := o.Reviewed(cmd.Context(), args)
	if err != nil {
		return err
	}
	found, outcome := o.Bootable(all)
	if len(found) == 0 && outcome == nil {
		return o.Nothing("VirtualMachine or VirtualMachineInstance", args)
	}
	for _, r := range found {
		err := visit(r)
		if err != nil && !Answered(err) {
			err = o.Unanswered(fmt.Errorf("%s: %w", r.Name(), err))
		}
		outcome = Worse(outcome, err)
	}
	return outcome
}

// Reviewed loads and reviews the objects that the user named. Rejected objects are among them; an error is a fault of the whole run.
// An object that cannot be judged is among them too, with its Fault.
func (o *Inputs) Reviewed(ctx context.Context, args []string) ([]workbench.Reviewed, error) {
	in, err := o.Load(o.Files, args)
	if err != nil {
		return nil, err
	}
	return o.Review(ctx, in, nil)
}

// Review reviews objects, and prints the warnings of the run and the objects of kinds that Kiln does not serve. old is the stored VM that
// one of the objects updates, or nil: rules about changes need it.
func (o *Inputs) Review(ctx context.Context, in manifest.Inputs, old *v1.VirtualMachine) ([]workbench.Reviewed, error) {
	o.Bench.User = o.user()
	all, err := o.Bench.Review(ctx, in, old)
	o.Warn(all.Warnings...)
	for _, skipped := range all.Skipped {
		fmt.Fprintln(o.ErrOut, Printable(fmt.Sprintf("skipped: %s: %s", skipped.Name(), skipped.Reason)))
	}
	return all.Objects, err
}

// Bootable returns the accepted VMs and VMIs. It prints all objects that are rejected or could not be judged, and returns ErrRejected or
// errUnanswered if there were any. Objects that boot no guest, such as instancetypes, have only their warnings printed.
func (o *Inputs) Bootable(all []workbench.Reviewed) (found []workbench.Reviewed, outcome error) {
	for _, r := range all {
		if r.Fault != nil {
			outcome = Worse(outcome, o.Unanswered(r.Fault))
			continue
		}
		switch {
		case !r.Verdict.Allowed():
			outcome = Worse(outcome, o.Refuse(r, ""))
		case r.Guest == nil:
			o.WarnOf(r)
		case r.Unknown:
			outcome = Worse(outcome, o.Incomplete(r))
		default:
			o.WarnOf(r)
			found = append(found, r)
		}
	}
	return found, outcome
}

// AddPolicies adds the flag that names GuestPolicies.
func (o *Inputs) AddPolicies(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.Bench.Policies, "policy", nil,
		"file or directory with GuestPolicies, besides those among the files or in the cluster")
}

// Nothing returns the fault of a run whose files or names hold no object of the wanted kind. Silence would look like acceptance in a pipeline.
// So the exit status is 2, and not 0.
func (o *Inputs) Nothing(wanted string, args []string) error {
	where := slices.Concat(o.Files.Names, o.Files.Kustomizations, args)
	for i := range where {
		if where[i] == "-" {
			where[i] = manifest.StandardInput
		}
	}
	return fmt.Errorf("no %s in %s", wanted, strings.Join(where, ", "))
}
