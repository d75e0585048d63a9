// Package cmdutil has what the commands of 'kubectl kiln' share: the flags that name files and settings, the cluster of the kubeconfig, the printers of
// answers, and the errors that determine the exit status.
package cmdutil

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/kubevirt/installed"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/spf13/cobra"
	"k8s.io/client-go/util/jsonpath"
	v1 "kubevirt.io/api/core/v1"
)

// Printer prints the answers of a command in the format of its -o.
type Printer struct {
	*Session
	// Output is the value of -o.
	Output string
	// Documents reports that the user gave -o json or -o yaml. Then rejections are printed as documents. It is false without -o, even if the default of a
	// command is YAML.
	Documents bool
	// template is the value of -o jsonpath=TEMPLATE. Then Output is json, and only what the template selects is printed.
	template *jsonpath.JSONPath
	// kinds are the kinds of the answers, by their Go types.
	kinds map[reflect.Type]string
	// items are the documents that List prints; nil outside of a call of List.
	items []json.RawMessage
	// NameFiles reports that rejected objects are printed with their files, because they are of several files.
	NameFiles bool
	// warnedOfNodes reports that the warning about profiles that select nodes was printed.
	warnedOfNodes bool
}

// NewPrinter returns a printer that writes to the streams of the session.
func NewPrinter(s *Session) Printer {
	return Printer{Session: s, kinds: map[reflect.Type]string{reflect.TypeFor[workbench.Judgement](): "Judgement"}} // any command may reject an object
}

// Inputs has the flags that name the objects that a command reads, and the settings with which they are judged.
type Inputs struct {
	Printer
	// Files has the values of -f, -k and --catalog.
	Files manifest.Files
	// Bench has the values of --config, --profile and --strict, and the settings that were read.
	Bench workbench.Bench
}

// NewInputs returns inputs that read the standard input of the session for a file that is named '-'.
func NewInputs(s *Session) Inputs {
	return Inputs{
		Printer: NewPrinter(s), Files: manifest.Files{Stdin: s.In, BuildKustomization: s.BuildKustomization}, Bench: workbench.Bench{Stdin: s.In},
	}
}

// AddInputs adds -f, -k and --strict, and the flags of AddContext.
// -f is a list with commas, as in kubectl. Unlike in kubectl, -k may be repeated, and be given with -f: the objects of all sources may refer to each other.
func (o *Inputs) AddInputs(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.Files.Names, "filename", "f", nil, "file, directory or - with the objects, and with objects to which they refer")
	flags.StringSliceVarP(&o.Files.Kustomizations, "kustomize", "k", nil, "directory with a kustomization that builds the objects")
	flags.BoolVar(&o.Bench.Strict, "strict", false, "reject references to objects that do not exist, and objects of kinds that Kiln does not serve")
	o.AddContext(cmd)
}

// AddContext adds --catalog, and the flags of AddConfig. Objects of --catalog are only referred to, and not judged.
func (o *Inputs) AddContext(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Files.Catalog, "catalog", nil, "file or directory with further instancetypes, preferences, presets and profiles")
	o.AddConfig(cmd)
}

// AddConfig adds --config, --runtime and --kubevirt-version. If the webhook was started with --config, the user must give the same file, because commands only
// find a KubeVirt object.
func (o *Inputs) AddConfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Bench.Config, "config", "",
		"file with KubeVirt's configuration, as the webhook's --config; default: the KubeVirt object among the files or in the cluster")
	cmd.Flags().StringVar(&o.Bench.Runtime, "runtime", workbench.RuntimeAuto, workbench.RuntimeUsage)
	CompleteValues(cmd, "runtime", workbench.Runtimes...)
	cmd.Flags().TextVar(&o.Bench.KubeVirtVersion, "kubevirt-version", config.Version(0), installed.VersionUsage)
}

// AddProfiles adds --profile.
func (o *Inputs) AddProfiles(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.Bench.Profiles, "profile", nil,
		"file or directory with HostProfiles, instead of the HostProfiles among the files or in the cluster")
}

// AddOutput adds -o with a default and the allowed formats. PreRunE refuses an unknown format before the command reads anything.
// Trap: a cobra command has one PreRunE, so a command that sets its own loses the check.
func (o *Printer) AddOutput(cmd *cobra.Command, fallback string, formats ...string) {
	last := len(formats) - 1
	choice := strings.Join(formats[:last], ", ") + " or " + formats[last]
	usage := "output format: " + choice
	if slices.Contains(formats, "json") {
		usage += ", also jsonpath=TEMPLATE"
	}
	cmd.Flags().StringVarP(&o.Output, "output", "o", fallback, usage)
	CompleteValues(cmd, "output", formats...)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if text, found := strings.CutPrefix(o.Output, "jsonpath="); found && slices.Contains(formats, "json") {
			o.Output, o.template = "json", jsonpath.New("output").AllowMissingKeys(true)
			if err := o.template.Parse(text); err != nil {
				return fmt.Errorf("--output jsonpath='%s': %w", text, err)
			}
		}
		o.Documents = cmd.Flags().Changed("output") && (o.Output == "json" || o.Output == "yaml")
		if !slices.Contains(formats, o.Output) {
			return fmt.Errorf("--output '%s' is not supported, use %s", o.Output, choice)
		}
		if slices.Contains([]string{"text", "table", "wide"}, o.Output) {
			o.Out = Wrapped(o.Out)
		}
		return nil
	}
}

// CompleteValues makes shells complete these values of a flag, instead of file names.
func CompleteValues(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// EachGuest reviews each VM and VMI that the user named, prints the rejected ones, and calls visit for the others. After an error it goes on with the next
// object. It returns the worst error. With -o json all are one list.
func (o *Inputs) EachGuest(cmd *cobra.Command, args []string, visit func(workbench.Reviewed) error) error {
	return o.List(func() error { return o.eachGuest(cmd, args, visit) })
}

func (o *Inputs) eachGuest(cmd *cobra.Command, args []string, visit func(workbench.Reviewed) error) error {
	all, err := o.ReviewArguments(cmd.Context(), args)
	if err != nil {
		return err
	}
	found, outcome := o.BootableGuests(all)
	if len(found) == 0 && outcome == nil {
		return o.NothingFound("VirtualMachine or VirtualMachineInstance", args)
	}
	for _, r := range found {
		err := visit(r)
		if err != nil && !Answered(err) {
			err = o.PrintUnanswered(fmt.Errorf("%s: %w", r.Name(), err))
		}
		outcome = Worse(outcome, err)
	}
	return outcome
}

// ReviewArguments loads and reviews the objects that the user named. It also returns rejected objects, and objects that cannot be judged, with their Fault. It
// fails only if no object can be reviewed.
func (o *Inputs) ReviewArguments(ctx context.Context, args []string) ([]workbench.Reviewed, error) {
	in, err := o.Load(o.Files, args)
	if err != nil {
		return nil, err
	}
	return o.ReviewInputs(ctx, in, nil)
}

// ReviewInputs reviews objects, and prints the warnings about settings and the skipped objects. old is a stored VM, or nil: a VM with its name is reviewed as
// its update.
func (o *Inputs) ReviewInputs(ctx context.Context, in manifest.Inputs, old *v1.VirtualMachine) ([]workbench.Reviewed, error) {
	o.Bench.User = o.Cluster.User()
	all, err := o.Bench.Review(ctx, in, old)
	o.Warn(all.Warnings...)
	for _, skipped := range all.Skipped {
		fmt.Fprintln(o.ErrOut, Printable(fmt.Sprintf("skipped: %s: %s", skipped.Name(), skipped.Reason)))
	}
	return all.Objects, err
}

// BootableGuests returns the accepted VMs and VMIs, and prints the warnings of all accepted objects. It prints the objects that are rejected or could not be
// judged, and returns ErrRejected or ErrUnanswered if there are any.
func (o *Inputs) BootableGuests(all []workbench.Reviewed) (found []workbench.Reviewed, outcome error) {
	for _, r := range all {
		if r.Fault != nil {
			outcome = Worse(outcome, o.PrintUnanswered(r.Fault))
			continue
		}
		switch {
		case !r.Verdict.Allowed():
			outcome = Worse(outcome, o.PrintRejectedObject(r, ""))
		case r.Guest == nil:
			o.WarnOf(r)
		case r.Unknown:
			outcome = Worse(outcome, o.PrintIncomplete(r))
		default:
			o.WarnOf(r)
			found = append(found, r)
		}
	}
	return found, outcome
}

// AddPolicies adds --policy.
func (o *Inputs) AddPolicies(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.Bench.Policies, "policy", nil,
		"file or directory with GuestPolicies, in addition to the GuestPolicies among the files or in the cluster")
}

// NothingFound returns the fault of a run that finds no object of the wanted kind: with exit status 0, a pipeline would take it for success.
func (o *Inputs) NothingFound(wanted string, args []string) error {
	where := slices.Concat(o.Files.Names, o.Files.Kustomizations, args)
	for i := range where {
		if where[i] == "-" {
			where[i] = manifest.StandardInput
		}
	}
	return fmt.Errorf("no %s in %s", wanted, strings.Join(where, ", "))
}
