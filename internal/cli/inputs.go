package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/beside"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	v1 "kubevirt.io/api/core/v1"
)

// Session is one run of the plugin: its streams and kubectl's flags of the connection, such as --namespace and --context. All commands share it.
type Session struct {
	genericclioptions.IOStreams
	cluster *genericclioptions.ConfigFlags
}

// Printer prints the answers of a command in the format of its -o.
type Printer struct {
	*Session
	// output is the value of -o.
	output string
	// documents reports that the user asked for JSON or YAML with -o. Rejections are documents then. A command whose default is YAML
	// prints them as text without -o.
	documents bool
	// warnedOfNodes reports that the warning about profiles that select nodes was printed.
	warnedOfNodes bool
}

func newPrinter(s *Session) Printer { return Printer{Session: s} }

// Inputs has the flags that name what a command reads and what it is judged by.
type Inputs struct {
	Printer
	// files has the values of -f, -k and --catalog.
	files manifest.Files
	// bench has the values of --config, --profile and --strict, and the settings once they are read.
	bench workbench.Bench
}

func newInputs(s *Session) Inputs {
	return Inputs{Printer: newPrinter(s), files: manifest.Files{Stdin: s.In}, bench: workbench.Bench{Stdin: s.In}}
}

// addInputs adds the flags that name what a command reads.
// -f is a list with commas, as kubectl's. -k may be repeated, which kubectl's may not, and be given with -f: several sources are one set of objects.
// --strict is for pipelines, where all files are at hand; on a cluster others may still create what is missing.
func (o *Inputs) addInputs(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files.Names, "filename", "f", nil, "file, directory or - with the objects, and with those that they refer to")
	flags.StringSliceVarP(&o.files.Kustomizations, "kustomize", "k", nil, "directory with a kustomization that builds the objects")
	flags.BoolVar(&o.bench.Strict, "strict", false, "reject what cannot be judged: references to objects that do not exist, and kinds that Kiln does not serve")
	o.addContext(cmd)
}

// addContext adds the flags that name what else a cluster has.
// Objects of --catalog are only referred to: they are not judged, and none of them has a verdict.
func (o *Inputs) addContext(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.files.Catalog, "catalog", nil, "file or directory with further instancetypes, preferences, presets and profiles")
	o.addConfig(cmd)
}

// addConfig adds the flag that names the cluster's configuration.
// Where the webhook was started with --config, the user must name the same file: commands find a KubeVirt object alone.
func (o *Inputs) addConfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.bench.Config, "config", "",
		"file with KubeVirt's configuration, as the webhook's --config; default: the KubeVirt object among the files or in the cluster")
	cmd.Flags().StringVar(&o.bench.Guests, "guests", beside.Auto, beside.Usage)
	complete(cmd, "guests", beside.Auto, beside.Kiln, beside.KubeVirt)
}

// addProfiles adds the flag that names HostProfiles.
func (o *Inputs) addProfiles(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.bench.Profiles, "profile", nil,
		"file or directory with HostProfiles, instead of those among the files or in the cluster")
}

// addOutput adds the -o flag with a default and the allowed formats. An unknown format is a fault, found in PreRunE before the command reads anything.
// Trap: a cobra command has one PreRunE, so that a command that sets its own loses the check.
func (o *Printer) addOutput(cmd *cobra.Command, fallback string, formats ...string) {
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
func (o *Inputs) eachGuest(cmd *cobra.Command, args []string, visit func(workbench.Reviewed) error) error {
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
func (o *Inputs) reviewed(ctx context.Context, args []string) ([]workbench.Reviewed, error) {
	in, err := o.load(o.files, args)
	if err != nil {
		return nil, err
	}
	return o.review(ctx, in, nil)
}

// review reviews objects, and prints the warnings of the run and the objects of kinds that Kiln does not serve. old is the stored VM that
// one of the objects updates, or nil: rules about changes need it.
func (o *Inputs) review(ctx context.Context, in manifest.Inputs, old *v1.VirtualMachine) ([]workbench.Reviewed, error) {
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
func (o *Inputs) bootable(all []workbench.Reviewed) (found []workbench.Reviewed, outcome error) {
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

// addPolicies adds the flag that names GuestPolicies.
func (o *Inputs) addPolicies(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.bench.Policies, "policy", nil,
		"file or directory with GuestPolicies, besides those among the files or in the cluster")
}

// nothing returns the fault of a run whose files or names hold no object of the wanted kind. Silence would look like acceptance in a pipeline.
// So the exit status is 2, and not 0.
func (o *Inputs) nothing(wanted string, args []string) error {
	where := slices.Concat(o.files.Names, o.files.Kustomizations, args)
	for i := range where {
		if where[i] == "-" {
			where[i] = manifest.StandardInput
		}
	}
	return fmt.Errorf("no %s in %s", wanted, strings.Join(where, ", "))
}
